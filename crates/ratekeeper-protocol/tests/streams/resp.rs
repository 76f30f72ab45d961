//! The RESP door.

use std::sync::Arc;

use parking_lot::Mutex;
use ratekeeper::algorithm::inline_rule::InlineGcra;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Keyed, Limiter, Moment, Nanos};
use ratekeeper_protocol::resp::{Door, Gatekeeper, Pass, REQUEST_BYTES_MAX, Session};
use ratekeeper_protocol::{Counts, Flow, StreamDoor as _};

use crate::transcript::{Connection, blocks, run, unescape};

const PAGE: &str = include_str!("../../src/resp/README.md");
const LIMITS: &str = "
PerUser: {burst: 3, count: 3, period: 60s}
PerAddress: {burst: 2, count: 1, period: 1s, id: ipAddress}
Shadow: {burst: 1, count: 1, period: 1s, shadow: true}
";

fn limiter(text: &str) -> Arc<Limiter> {
    let limits = Limits::parse(&Source { name: "limits", text }, None).unwrap();
    Arc::new(Limiter::with_memory(limits, 1 << 20).unwrap())
}

fn buckets() -> Arc<Keyed<InlineGcra>> {
    Arc::new(Keyed::new(1 << 20).unwrap())
}

pub(crate) fn door() -> Door {
    Door::new(limiter(LIMITS), buckets())
}

pub(crate) fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Asks in one read each, and compares the replies.
#[track_caller]
fn check<D: ratekeeper_protocol::StreamDoor>(
    connection: &mut Connection<'_, D>,
    asks: &[(&str, &str)],
) {
    for (ask, reply) in asks {
        let got = connection.send(&unescape(ask));
        assert_eq!(text(&got), text(&unescape(reply)), "{ask}");
    }
}

#[test]
fn the_transcripts_of_the_page_hold() {
    let [limits] = blocks(PAGE, "limits").try_into().unwrap();
    let transcripts = blocks(PAGE, "transcript");
    assert_eq!(transcripts.len(), 9);
    for transcript in transcripts {
        run(&Door::new(limiter(limits), buckets()), transcript, unescape);
    }
}

#[test]
fn a_long_read_is_replied_to_in_order() {
    let door = door();
    let mut connection = Connection::new(&door);
    let read = "THROTTLE PerUser ada\nPING\nTHROTTLE.TRANSACTION PerUser bob 1\n".repeat(100);
    let got = String::from_utf8(connection.send(read.as_bytes())).unwrap();
    let five = |n: usize| match n {
        0..3 => format!(":0\r\n:3\r\n:{}\r\n:-1\r\n:{}\r\n", 2 - n, 20 * (n + 1)),
        _ => ":1\r\n:3\r\n:0\r\n:20\r\n:60\r\n".to_owned(),
    };
    let three = |n| format!("*5\r\n{}+PONG\r\n*6\r\n{}$7\r\nPerUser\r\n", five(n), five(n));
    let expected: String = (0..100).map(three).collect();
    assert_eq!(got, expected);
    let counts = Counts { requests: 300, allowed: 6, denied: 194, ..Counts::default() };
    assert_eq!(connection.counts, counts);
}

#[test]
fn more_than_is_there_is_given_back_at_most_and_a_shadow_limits_nobody() {
    let door = door();
    check(
        &mut Connection::new(&door),
        &[
            ("THROTTLE PerUser ada 2\n", "*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:40\r\n"),
            ("THROTTLE PerUser ada -9\n", "*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n"),
            ("THROTTLE PerUser ada -1\n", "*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n"),
            (
                "THROTTLE PerUser ada -9223372036854775808\n",
                "*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n",
            ),
            ("THROTTLE PerUser ada 9223372036854775807\n", "*5\r\n:1\r\n:3\r\n:3\r\n:-1\r\n:0\r\n"),
            ("THROTTLE Shadow ada\n", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n"),
            ("THROTTLE Shadow ada\n", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n"),
        ],
    );
}

#[test]
fn a_key_is_any_bytes_and_no_two_are_the_same() {
    let door = door();
    let five = "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:9\r\n";
    let keys = ["a", "\\xff", "\\xfe\\xff", "hex:ff", "hex:fe", "hex:", "''"];
    let mut connection = Connection::new(&door);
    for key in keys {
        check(&mut connection, &[(&format!("CL.THROTTLE {key} 0 1 9\n"), five)]);
    }
    for key in keys {
        let reset = format!("CL.RESET {key}\nCL.RESET {key}\n");
        check(&mut connection, &[(&reset, ":1\r\n:0\r\n")]);
    }
    let long = connection.send(format!("CL.THROTTLE {} 0 1 9\n", "k".repeat(513)).as_bytes());
    assert!(long.starts_with(b"-ERR "), "{}", text(&long));
}

#[test]
fn another_rule_keeps_what_was_spent() {
    let door = door();
    check(
        &mut Connection::new(&door),
        &[
            ("CL.THROTTLE a 9 10 60 8\n", "*5\r\n:0\r\n:10\r\n:2\r\n:-1\r\n:48\r\n"),
            ("CL.THROTTLE a 19 10 60 0\n", "*5\r\n:0\r\n:20\r\n:12\r\n:-1\r\n:48\r\n"),
            ("CL.THROTTLE a 19 1 1 0\n", "*5\r\n:0\r\n:20\r\n:12\r\n:-1\r\n:8\r\n"),
            ("CL.THROTTLE a 4 1 1 1\n", "*5\r\n:1\r\n:5\r\n:0\r\n:1\r\n:5\r\n"),
            (
                "CL.THROTTLE a 4 1 1 1 1\n",
                "-ERR wrong number of arguments for 'cl.throttle' command\r\n",
            ),
            (
                "CL.THROTTLE a 4 1 9223372036854775807 1\n",
                "-ERR period must be from 1 to 4611686018 seconds\r\n",
            ),
            (
                "CL.THROTTLE a 9223372036854775807 1 1 1\n",
                "-ERR max_burst must be from 0 to 4294967295\r\n",
            ),
        ],
    );
}

/// There is no table of rules that a client could fill.
#[test]
fn a_client_that_makes_up_rules_without_end_changes_no_answer_of_others() {
    let door = door();
    let ask = |connection: &mut Connection<'_, Door>, key: u64| {
        let request = format!(
            "*5\r\n$11\r\nCL.THROTTLE\r\n$4\r\n{key:04}\r\n$1\r\n4\r\n$1\r\n1\r\n$4\r\n3600\r\n"
        );
        let got = connection.send(request.repeat(2).as_bytes());
        let expected =
            "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:3600\r\n*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:7200\r\n";
        assert_eq!(text(&got), text(expected.as_bytes()));
    };
    let [mut busy, mut idle, mut hostile] = [(); 3].map(|()| Connection::new(&door));
    ask(&mut busy, 0);
    ask(&mut idle, 1);
    for first in (0..300_000).step_by(500) {
        let reads = (first..first + 500).map(|n| format!("CL.THROTTLE a {} 1 1 0\n", 10 + n));
        let got = hostile.send(reads.collect::<Vec<_>>().concat().as_bytes());
        assert!(!got.contains(&b'-') || !got.starts_with(b"-"), "{}", text(&got));
    }
    ask(&mut busy, 2);
    ask(&mut idle, 3);
}

#[test]
fn an_override_says_how_much_its_bucket_holds() {
    let text = "PerUser: {burst: 3, count: 3, period: 60s}";
    let overrides = "- PerUser: {burst: 5, count: 5, period: 1s, ids: [{id: eve}]}";
    let overrides = Source { name: "overrides", text: overrides };
    let limits = Limits::parse(&Source { name: "limits", text }, Some(&overrides)).unwrap();
    let door = Door::new(Arc::new(Limiter::with_memory(limits, 1 << 20).unwrap()), buckets());
    check(
        &mut Connection::new(&door),
        &[
            ("THROTTLE PerUser ada\n", "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:20\r\n"),
            ("THROTTLE PerUser eve\n", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1\r\n"),
            (
                "THROTTLE.TRANSACTION PerUser eve 1\n",
                "*6\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:1\r\n$7\r\nPerUser\r\n",
            ),
        ],
    );
}

#[test]
fn what_is_wrong_with_a_transaction_is_said_and_nothing_is_spent() {
    let door = door();
    check(
        &mut Connection::new(&door),
        &[
            (
                "THROTTLE.TRANSACTION PerUser ada\n",
                "-ERR wrong number of arguments for 'throttle.transaction' command\r\n",
            ),
            (
                "THROTTLE.TRANSACTION PerUser ada 1 PerUser\n",
                "-ERR a transaction has a limit, an id and a cost for each of its asks\r\n",
            ),
            (
                "THROTTLE.TRANSACTION PerUser ada -1\n",
                "-ERR the cost in a transaction must not be negative\r\n",
            ),
            (
                "THROTTLE.TRANSACTION PerUser ada 1 PerUser ada 1\n",
                "-ERR bucket PerUser:ada occurs twice in one transaction: add the costs up\r\n",
            ),
            (
                "THROTTLE.TRANSACTION PerUser ada 4\n",
                "-ERR a cost of 4 is more than `PerUser` ever holds: its burst is 3\r\n",
            ),
            (
                "THROTTLE.TRANSACTION PerUser \\xff 1\n",
                "-ERR names and ids are UTF-8, and this is not\r\n",
            ),
            ("THROTTLE PerUser ada 0\n", "*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n"),
        ],
    );
}

#[test]
fn the_text_of_an_error_is_one_line_of_a_bounded_length() {
    let door = door();
    let mut connection = Connection::new(&door);
    let request = b"*3\r\n$8\r\nTHROTTLE\r\n$4\r\na\r\nb\r\n$1\r\nx\r\n";
    let told = connection.send(request);
    assert_eq!(text(&told), text(b"-ERR no limit is called `a\\r\\nb`\r\n"));
    let long = connection.send(format!("THROTTLE {} x\n", "y".repeat(5_000)).as_bytes());
    let expected = format!("-ERR no limit is called `{}..`\r\n", "y".repeat(64));
    assert_eq!(text(&long), text(expected.as_bytes()));
    let got = connection.send(format!("{}\n", "z".repeat(5_000)).as_bytes());
    let expected = format!("-ERR unknown command '{}'\r\n", "z".repeat(128));
    assert_eq!(text(&got), text(expected.as_bytes()));
}

#[test]
fn a_browser_is_not_talked_to() {
    let door = door();
    let page = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\nTHROTTLE PerUser ada\r\n";
    let mut connection = Connection::new(&door);
    assert_eq!(connection.send(page), b"");
    assert!(connection.is_closed);
    // A method of another name, and the field that comes next if the first line is not understood.
    for begin in
        ["GET / HTTP/1.1\r\n", "brew /pot HTTP/1.0\n", "\u{16}\u{3}\u{1}\0 x\n", "Host: a\n"]
    {
        let mut connection = Connection::new(&door);
        assert_eq!(connection.send(&[begin.as_bytes(), b"THROTTLE PerUser ada\r\n"].concat()), b"");
        assert!(connection.is_closed, "{begin:?}");
    }
    let mut connection = Connection::new(&door);
    assert_eq!(connection.send(b"SET key\r\n"), b"-ERR unknown command 'SET'\r\n");
    assert!(!connection.is_closed);
}

/// Knows `decide` and `read`, until the first is taken away.
#[derive(Default)]
struct Keeper {
    is_changed: Mutex<bool>,
}

impl Gatekeeper for Keeper {
    fn admit(&self, token: &[u8]) -> Option<Pass> {
        let may_decide = match token {
            b"decide" if !*self.is_changed.lock() => true,
            b"read" => false,
            _ => return None,
        };
        Some(Pass { may_decide, mark: [u8::from(may_decide); 32], as_of: 0 })
    }

    fn renew(&self, pass: Pass) -> Option<Pass> {
        (!*self.is_changed.lock() || !pass.may_decide).then_some(pass)
    }
}

const NO_AUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONG_PASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

#[test]
fn a_token_is_asked_for_and_may_be_taken_away() {
    let keeper = Arc::new(Keeper::default());
    let door = door().with_keeper(keeper.clone());
    let mut connection = Connection::new(&door);
    let welcome = "*14\r\n$6\r\nserver\r\n$10\r\nratekeeper\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n\
        $5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n\
        $6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";
    check(
        &mut connection,
        &[
            ("THROTTLE PerUser ada\n", NO_AUTH),
            ("PING\n", NO_AUTH),
            ("AUTH nobody\n", WRONG_PASS),
            ("HELLO 3 AUTH default nobody\n", WRONG_PASS),
            ("AUTH default decide\n", "+OK\r\n"),
            ("THROTTLE PerUser ada\n", "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:20\r\n"),
            ("RESET\n", "+RESET\r\n"),
            ("PING\n", NO_AUTH),
            ("HELLO 2 AUTH x read\n", welcome),
            ("PING\n", "+PONG\r\n"),
            (
                "THROTTLE.RESET PerUser ada\n",
                "-NOPERM this token may not decide: use one with the role `decide`\r\n",
            ),
            ("AUTH decide\n", "+OK\r\n"),
            ("THROTTLE.RESET PerUser ada\n", ":1\r\n"),
        ],
    );
    *keeper.is_changed.lock() = true;
    check(&mut connection, &[("PING\n", NO_AUTH), ("AUTH read\nPING\n", "+OK\r\n+PONG\r\n")]);
}

#[test]
fn who_has_shown_no_token_may_send_little() {
    let door = door().with_keeper(Arc::new(Keeper::default()));
    for (request, error) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*1\r\n$16385\r\n", "unauthenticated bulk length"),
        ("1 2 3 4 5 6 7 8 9 10 11\n", "unauthenticated multibulk length"),
    ] {
        let mut connection = Connection::new(&door);
        let got = connection.send(request.as_bytes());
        assert_eq!(text(&got), format!("-ERR Protocol error: {error}\\r\\n"));
        assert!(connection.is_closed);
        let mut connection = Connection::new(&door);
        let got = connection.send(format!("AUTH decide\n{request}").as_bytes());
        assert!(!connection.is_closed, "{}", text(&got));
    }
}

#[test]
fn without_tokens_a_token_is_a_mistake_unless_it_has_a_name() {
    let door = door();
    let mut connection = Connection::new(&door);
    let got = connection.send(b"AUTH x\n");
    assert!(got.starts_with(b"-ERR AUTH <password> called without any password"), "{}", text(&got));
    check(&mut connection, &[("AUTH default x\n", "+OK\r\n")]);
}

#[test]
fn a_request_of_a_mebibyte_in_small_pieces_is_looked_at_once() {
    let door = door();
    let length = REQUEST_BYTES_MAX - 100;
    let request = [
        format!("*2\r\n$4\r\nECHO\r\n${length}\r\n").as_bytes(),
        &vec![b'x'; length],
        b"\r\nPING\r\n",
    ]
    .concat();
    let mut connection = Connection::new(&door);
    let mut got = Vec::new();
    for piece in request.chunks(7) {
        got.extend(connection.send(piece));
    }
    assert_eq!(got.len(), format!("${length}\r\n").len() + length + b"\r\n+PONG\r\n".len());
    assert!(got.ends_with(b"xx\r\n+PONG\r\n"));
}

#[test]
fn a_door_stops_when_there_is_much_to_write_and_goes_on_when_it_is_asked() {
    let door = door().with_reply_bytes(1_000);
    let (mut session, mut counts) = (Session::default(), Counts::default());
    let (mut out, mut replies) = (Vec::new(), Vec::new());
    let requests = b"COMMAND DOCS\n".repeat(100);
    let mut flow = door.receive(&mut session, &requests, Moment::EPOCH, &mut out, &mut counts);
    let mut rounds = 1;
    while flow == Flow::Again {
        assert!(out.len() < 40_000, "{} bytes at once", out.len());
        assert!(session.held_bytes() > 0);
        replies.append(&mut out);
        flow = door.receive(&mut session, b"", Moment::EPOCH, &mut out, &mut counts);
        rounds += 1;
    }
    replies.append(&mut out);
    assert!(rounds > 5, "{rounds} rounds");
    assert_eq!((session.held_bytes(), counts.requests), (0, 100));
    let mut connection = Connection::new(&door);
    assert_eq!(connection.send(b"COMMAND DOCS\n").repeat(100), replies);
}

#[test]
fn every_command_says_what_it_is() {
    let door = door();
    let mut connection = Connection::new(&door);
    check(
        &mut connection,
        &[
            (
                "COMMAND INFO throttle nope\n",
                "*2\r\n*6\r\n$8\r\nthrottle\r\n:-3\r\n*2\r\n+write\r\n+fast\r\n:0\r\n:0\r\n:0\r\n$-1\r\n",
            ),
            ("INFO replication\n", "$0\r\n\r\n"),
            ("SELECT 1\n", "-ERR DB index is out of range\r\n"),
            ("SELECT x\n", "-ERR value is not an integer or out of range\r\n"),
            ("CLIENT ID\n", ":1\r\n"),
            ("CLIENT SETINFO LIB-NAME x\n", "+OK\r\n"),
            (
                "CLIENT LIST\n",
                "-ERR unknown subcommand or wrong number of arguments for 'CLIENT LIST'\r\n",
            ),
            (
                "CONFIG SET save x\n",
                "-ERR unknown subcommand or wrong number of arguments for 'CONFIG SET'\r\n",
            ),
            ("CONFIG GET appendonly nope\n", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"),
            ("HELLO 4\n", "-NOPROTO unsupported protocol version\r\n"),
            ("PING a b\n", "-ERR wrong number of arguments for 'ping' command\r\n"),
        ],
    );
    let info = text(&connection.send(b"INFO\n"));
    assert!(info.contains("# Server\\r\\nredis_version:7.4.0\\r\\n"), "{info}");
    assert!(info.contains(concat!("ratekeeper_version:", env!("CARGO_PKG_VERSION"))), "{info}");
    let count = connection.send(b"COMMAND COUNT\n");
    let listed = connection.send(b"COMMAND\n");
    assert_eq!(count[1..], listed[1..count.len()], "as many as are listed");
    connection.wait(Nanos::from_secs(1));
}
