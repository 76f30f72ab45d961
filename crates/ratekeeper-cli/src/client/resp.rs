//! `ratekeeper ask resp`: a command, as clients of Redis send it.

mod value;

use ratekeeper::Nanos;
use ratekeeper_server::settings::SecretText;

use super::address::Server;
use super::connection::Connection;
use super::error::Failure;
use crate::error::{Error, Exit};
use crate::output::{Output, say};
use crate::table::shown;
use value::Value;

const DOOR: &str = "a server for clients of Redis";
/// No reply is longer.
const REPLY_BYTES_MAX: usize = 2 << 20;
/// Whoever the token belongs to: servers of ours do not ask, and Redis has one of this name.
const USER: &str = "default";

/// What to ask, and whom.
#[derive(Debug)]
pub(crate) struct Resp {
    pub(crate) server: Server,
    pub(crate) timeout: Nanos,
    /// What is shown first, if there is one.
    pub(crate) token: Option<SecretText>,
    /// The command and its arguments.
    pub(crate) words: Vec<Vec<u8>>,
}

/// Asks, and prints what was replied.
pub(crate) fn run(resp: &Resp) -> Result<Exit, Error> {
    let mut connection = Connection::open(&resp.server, resp.timeout)?;
    if let Some(token) = &resp.token {
        ask(&mut connection, &auth(token))?;
    }
    let words: Vec<&[u8]> = resp.words.iter().map(Vec::as_slice).collect();
    let value = ask(&mut connection, &command(&words))?;
    let mut output = Output::new();
    output.line(&value)?;
    output.finish()?;
    let Some(verdict) = Verdict::read(&resp.words[0], &value) else { return Ok(Exit::Allowed) };
    say(&verdict.sentence);
    Ok(if verdict.is_limited { Exit::Denied } else { Exit::Allowed })
}

/// What shows a token.
pub(crate) fn auth(SecretText(token): &SecretText) -> Vec<u8> {
    command(&[b"AUTH", USER.as_bytes(), token.as_bytes()])
}

/// A command as it is sent.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// Sends a command and reads the reply. Refuses one that says that something is wrong.
fn ask(connection: &mut Connection, request: &[u8]) -> Result<Value, Failure> {
    let reply = connection.ask_value(request, REPLY_BYTES_MAX, value::length)?;
    match Value::read(&reply) {
        Some(Value::Error(text)) => {
            let (server, text) = (connection.server().clone(), shown(&text));
            Err(Failure::Refused { server, text })
        }
        Some(value) => Ok(value),
        None => Err(connection.strange(DOOR, &reply)),
    }
}

/// What a reply says about tokens.
struct Verdict {
    is_limited: bool,
    sentence: String,
}

impl Verdict {
    /// What five integers say, to a command that is answered with them.
    fn read(command: &[u8], value: &Value) -> Option<Self> {
        let commands: [&[u8]; 3] = [b"cl.throttle", b"throttle", b"throttle.transaction"];
        commands.iter().find(|it| command.eq_ignore_ascii_case(it))?;
        let Value::Array(values) = value else { return None };
        let number = |place: usize| match values.get(place) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        };
        let [limited, burst, left] = [number(0)?, number(1)?, number(2)?];
        let [retry, reset] = [number(3)?, number(4)?];
        let verdict = match (limited, retry) {
            (0, _) => "allowed".to_owned(),
            (_, -1) => "denied for ever, it costs more".to_owned(),
            _ => format!("denied, try again in {retry} s"),
        };
        let sentence = format!("{verdict}: {left} of {burst} are left, all again in {reset} s");
        Some(Self { is_limited: limited != 0, sentence })
    }
}
