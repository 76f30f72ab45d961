//! Recorded bytes through the real doors.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use ratekeeper::algorithm::Algorithm;
use ratekeeper::limiter::MEMORY_DEFAULT;
use ratekeeper::limits::Faults;
use ratekeeper::{Keyed, Limiter, Limits, Moment};
use ratekeeper_console::{Output, say};
use ratekeeper_protocol::{
    Counts, DatagramDoor, Flow, Replies, StreamDoor, bucket, resp, throttr, udp,
};
use ratekeeper_server::Text;

use super::SECRET;
use super::lines::{Line, Lines};
use super::rows::{BadRow, Coding, Row};
use crate::error::Error;
use crate::files::Files;

const NO_ANSWER: &[u8] = b"(none)";
const END: &str = "# the end of the connection";

/// Answers datagrams by the rules of a file.
pub(super) fn udp(
    rules: &Path,
    buckets: Option<&Path>,
    files: Option<&Files>,
) -> Result<(), Error> {
    let limits = match buckets {
        Some(buckets) => with_buckets(load(files)?, buckets)?,
        None => load(files)?,
    };
    let text = Text::read("rules", rules)?;
    let rules = udp::Rules::parse(&text.source(), &limits).map_err(wrong)?;
    let door = udp::Door::new(limiter(limits)?, keyed()?, rules);
    replay(&mut Datagrams { door, replies: Replies::default() }, Coding::Escaped)
}

/// Answers one connection from the buckets of a file.
pub(super) fn bucket(buckets: &Path, files: Option<&Files>) -> Result<(), Error> {
    let limits = with_buckets(load(files)?, buckets)?;
    replay(&mut Connection::new(bucket::Door::new(limiter(limits)?)), Coding::Escaped)
}

/// Answers one connection from quotas.
pub(super) fn throttr(files: Option<&Files>, options: throttr::Options) -> Result<(), Error> {
    let door = throttr::Door::new(keyed()?, limiter(load(files)?)?, options);
    replay(&mut Connection::new(door), Coding::Hex)
}

/// Answers one connection from limits, and by the rules that it brings along.
pub(super) fn resp(files: Option<&Files>) -> Result<(), Error> {
    replay(&mut Connection::new(resp::Door::new(limiter(load(files)?)?, keyed()?)), Coding::Escaped)
}

fn load(files: Option<&Files>) -> Result<Limits, Error> {
    files.map_or_else(|| Ok(Limits::new()), Files::load)
}

fn with_buckets(limits: Limits, buckets: &Path) -> Result<Limits, Error> {
    let text = Text::read("buckets", buckets)?;
    limits.with_buckets(&text.source()).map_err(wrong)
}

fn limiter(limits: Limits) -> Result<Arc<Limiter>, Error> {
    super::limiter(limits).map(Arc::new)
}

/// Buckets under the keys that come.
fn keyed<A: Algorithm<Book = ()>>() -> Result<Arc<Keyed<A>>, Error> {
    let keyed = Keyed::with_secret(MEMORY_DEFAULT, SECRET).map_err(Error::Memory)?;
    keyed.expect_steps_back();
    Ok(Arc::new(keyed))
}

fn wrong(faults: Faults) -> Error {
    Error::Faults { faults, is_old: false }
}

/// Whatever takes bytes at a time and answers with bytes.
trait Traffic {
    /// Appends what is answered to `bytes`.
    fn receive(&mut self, bytes: &[u8], now: Moment, out: &mut Vec<u8>);

    /// Appends what is answered when no more can follow.
    fn finish(&mut self, now: Moment, out: &mut Vec<u8>);
}

/// Every row is a datagram.
struct Datagrams<D> {
    door: D,
    replies: Replies,
}

impl<D: DatagramDoor> Traffic for Datagrams<D> {
    fn receive(&mut self, bytes: &[u8], now: Moment, out: &mut Vec<u8>) {
        self.replies.clear();
        self.door.answer(&[bytes], now, &mut self.replies, &mut Counts::default());
        self.replies.iter().for_each(|reply| out.extend_from_slice(reply));
    }

    fn finish(&mut self, _now: Moment, _out: &mut Vec<u8>) {}
}

/// Every row is what one read of the same connection brought.
struct Connection<D: StreamDoor> {
    door: D,
    session: D::Session,
    flow: Flow,
    has_told: bool,
}

impl<D: StreamDoor> Connection<D> {
    fn new(door: D) -> Self {
        Self { door, session: D::Session::default(), flow: Flow::Open, has_told: false }
    }
}

impl<D: StreamDoor> Traffic for Connection<D> {
    fn receive(&mut self, bytes: &[u8], now: Moment, out: &mut Vec<u8>) {
        if self.flow == Flow::Open {
            let counts = &mut Counts::default();
            self.flow = self.door.receive(&mut self.session, bytes, now, out, counts);
            // All that is replied is one row.
            while self.flow == Flow::Again {
                self.flow = self.door.receive(&mut self.session, &[], now, out, counts);
            }
        } else if !self.has_told {
            self.has_told = true;
            say("note: the connection was closed; what follows is not received by anybody");
        }
    }

    fn finish(&mut self, now: Moment, out: &mut Vec<u8>) {
        if self.flow == Flow::Open {
            self.door.finish(&mut self.session, now, out, &mut Counts::default());
        }
    }
}

fn replay(traffic: &mut impl Traffic, coding: Coding) -> Result<(), Error> {
    let mut output = Output::stdout();
    let answered = answer_all(traffic, coding, io::stdin().lock(), &mut output);
    // What came before a bad row was answered, whatever the row is.
    output.finish()?;
    answered
}

/// One row out for each row in, until there is none, one is wrong, or nobody reads them.
fn answer_all(
    traffic: &mut impl Traffic,
    coding: Coding,
    input: impl Read,
    output: &mut Output,
) -> Result<(), Error> {
    let (mut lines, mut number, mut now) = (Lines::new(input), 0, Moment::EPOCH);
    let (mut answer, mut written) = (Vec::new(), Vec::new());
    while !output.is_closed() {
        // Whoever waits for an answer before sending more must get it.
        if !lines.is_ready() {
            output.finish()?;
        }
        let Some(line) = lines.read().map_err(Error::Input)? else { break };
        number += 1;
        written.clear();
        match line {
            Line::Whole(line) if line.starts_with(b"#") => written.extend_from_slice(line),
            Line::TooLong => return Err(Error::Row { number, bad: BadRow::TooLong }),
            Line::Whole(line) => {
                let row = Row::parse(line, coding).map_err(|bad| Error::Row { number, bad })?;
                now = row.at;
                answer.clear();
                traffic.receive(&row.bytes, now, &mut answer);
                written.extend_from_slice(line);
                add_answer(&answer, coding, &mut written);
            }
        }
        written.push(b'\n');
        output.bytes(&written)?;
    }
    answer.clear();
    traffic.finish(now, &mut answer);
    if !answer.is_empty() {
        written.clear();
        written.extend_from_slice(END.as_bytes());
        add_answer(&answer, coding, &mut written);
        written.push(b'\n');
        output.bytes(&written)?;
    }
    Ok(())
}

fn add_answer(answer: &[u8], coding: Coding, written: &mut Vec<u8>) {
    written.push(b'\t');
    if answer.is_empty() {
        written.extend_from_slice(NO_ANSWER);
    } else {
        coding.encode(answer, written);
    }
}
