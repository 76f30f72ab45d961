//! Runs the transcripts of a door's page, and what other tests send.

use ratekeeper::limits::parse_duration;
use ratekeeper::{Moment, Nanos};
use ratekeeper_protocol::{Counts, Flow, StreamDoor};

/// A connection in virtual time.
pub(crate) struct Connection<'a, D: StreamDoor> {
    door: &'a D,
    session: D::Session,
    pub(crate) now: Moment,
    pub(crate) counts: Counts,
    pub(crate) is_closed: bool,
}

impl<'a, D: StreamDoor> Connection<'a, D> {
    pub(crate) fn new(door: &'a D) -> Self {
        let now = Moment::from_nanos(1_700_000_000_000_000_000);
        let (session, counts) = (D::Session::default(), Counts::default());
        Self { door, session, now, counts, is_closed: false }
    }

    /// What is answered to one read.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        assert!(!self.is_closed, "after it is closed nothing is received");
        let mut out = Vec::new();
        let mut receive = |bytes: &[u8]| {
            self.door.receive(&mut self.session, bytes, self.now, &mut out, &mut self.counts)
        };
        let mut flow = receive(bytes);
        while flow == Flow::Again {
            flow = receive(&[]);
        }
        self.is_closed = flow == Flow::Close;
        out
    }

    /// What is answered when nothing more will come.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.door.finish(&mut self.session, self.now, &mut out, &mut self.counts);
        out
    }

    pub(crate) fn wait(&mut self, length: Nanos) {
        self.now = self.now.after(length);
    }
}

/// The fenced blocks of a page that are of this kind.
pub(crate) fn blocks<'p>(page: &'p str, kind: &str) -> Vec<&'p str> {
    let fence = format!("```{kind}\n");
    let behind = page.split(fence.as_str()).skip(1);
    behind.map(|block| block.split_once("```").unwrap().0).collect()
}

/// Runs one transcript; `bytes` reads what is written in it.
pub(crate) fn run<D: StreamDoor>(door: &D, transcript: &str, bytes: impl Fn(&str) -> Vec<u8>) {
    let mut connection = Connection::new(door);
    let mut answer = Vec::new();
    for line in transcript.lines() {
        let (sign, text) = line.split_once(' ').unwrap_or((line, ""));
        match sign {
            ">>" | ">>|" => {
                assert_eq!(answer, [0; 0], "before {line}: {}", answer.escape_ascii());
                answer =
                    if sign == ">>" { connection.send(&bytes(text)) } else { connection.end() };
            }
            "<<" => {
                let (got, expected) = (answer.escape_ascii(), bytes(text));
                assert_eq!(got.to_string(), expected.escape_ascii().to_string(), "{line}");
                answer.clear();
            }
            "<<|" => assert!(connection.is_closed, "it is still open"),
            ".." => connection.wait(parse_duration(text).unwrap()),
            "--" => {}
            _ => panic!("what is `{line}`?"),
        }
    }
    assert_eq!(answer, [0; 0], "at the end: {}", answer.escape_ascii());
    assert_eq!(connection.is_closed, transcript.contains("<<|"), "closed");
}

/// Bytes that are written with escapes as in C.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&sign, behind) = rest.split_first().unwrap();
        rest = behind;
        bytes.push(match sign {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let (digits, behind) = rest.split_at(2);
                rest = behind;
                u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    bytes
}

/// Bytes that are written in hexadecimal digits, with blanks where one likes.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
