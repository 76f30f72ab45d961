//! A command, as clients of Redis send it.

mod value;

use ratekeeper::Nanos;
use ratekeeper_console::shown;
use ratekeeper_server::settings::SecretText;

use crate::connection::Connection;
use crate::{Failure, Server};
pub use value::Value;

const DOOR: &str = "a server for clients of Redis";
/// No reply is longer.
const REPLY_BYTES_MAX: usize = 2 << 20;
/// Whoever the token belongs to: servers of ours do not ask, and Redis has one of this name.
const USER: &str = "default";

/// What to ask, and whom.
#[derive(Debug)]
pub struct RespCommand {
    /// Who is asked.
    pub server: Server,
    /// How long to wait for each reply.
    pub timeout: Nanos,
    /// What is shown first, if there is one.
    pub token: Option<SecretText>,
    /// The command and its arguments.
    pub words: Vec<Vec<u8>>,
}

impl RespCommand {
    /// The reply. Refuses one that says that something is wrong.
    pub fn ask(&self) -> Result<Value, Failure> {
        let mut connection = Connection::open(&self.server, self.timeout)?;
        if let Some(token) = &self.token {
            ask(&mut connection, &auth(token))?;
        }
        let words: Vec<&[u8]> = self.words.iter().map(Vec::as_slice).collect();
        ask(&mut connection, &command(&words))
    }

    /// What its reply says about tokens, if it says something of the kind.
    pub fn verdict(&self, reply: &Value) -> Option<RespVerdict> {
        RespVerdict::read(self.words.first()?, reply)
    }
}

/// What shows a token.
pub fn auth(SecretText(token): &SecretText) -> Vec<u8> {
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
pub struct RespVerdict {
    /// Whether the ask was denied.
    pub is_limited: bool,
    /// The same, and the numbers, for people.
    pub sentence: String,
}

impl RespVerdict {
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
