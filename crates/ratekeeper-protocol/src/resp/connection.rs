//! What clients and tools say to the connection itself, when they come and while they stay.

use super::access::{Gatekeeper, Pass};
use super::codec::{self, Bounds};
use super::command::{self, Verb};
use super::inline_rule::WrittenRule;
use super::reply::{self, Protocol};
use super::shape::Shape;
use super::transaction::Queue;
use crate::Flow;

/// The Redis whose clients are at home here.
const REDIS_VERSION: &str = "7.4.0";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the name of a connection can be.
const NAME_BYTES_MAX: usize = 64;

/// What tools ask for, with what is true here: nothing is saved as Redis saves.
const PARAMETERS: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];

const NO_AUTH: &[u8] = b"NOAUTH Authentication required.";
const WRONG_PASS: &[u8] = b"WRONGPASS invalid username-password pair or user is disabled.";
/// Whoever watches a key relies on `EXEC` doing nothing if another changes it. That cannot be kept.
const NO_WATCH: &[u8] = b"ERR WATCH is not supported: a limit decides by itself, and \
    THROTTLE.TRANSACTION spends of several limits or of none";
const SYNTAX: &[u8] = b"ERR syntax error";
pub(super) const NO_INTEGER: &[u8] = b"ERR value is not an integer or out of range";

/// What is known of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// Which connection this is, from 1; zero before anybody wanted to know.
    pub(super) number: u64,
    pub(super) protocol: Protocol,
    name: Option<Box<[u8]>>,
    pub(super) pass: Option<Pass>,
    /// The rule that its last ask brought along.
    pub(super) rule: Option<WrittenRule>,
    pub(super) shape: Shape,
    /// What came behind `MULTI`, if it has come.
    pub(super) queue: Option<Box<Queue>>,
    /// What is to be done now, because `EXEC` has come.
    pub(super) due: Vec<u8>,
}

/// The words of a request, its client, and where the reply goes.
pub(super) struct Talk<'t, 'w> {
    pub(super) client: &'t mut Client,
    /// Who knows the tokens, if some are asked for.
    pub(super) keeper: Option<&'t dyn Gatekeeper>,
    /// Behind the name of the command.
    pub(super) words: &'t [&'w [u8]],
    pub(super) out: &'t mut Vec<u8>,
}

impl Client {
    /// How much it may send, where `keeper` asks for tokens.
    #[inline]
    pub(super) fn bounds(&self, keeper: Option<&dyn Gatekeeper>) -> &'static Bounds {
        if keeper.is_some() && self.pass.is_none() { &Bounds::STRANGER } else { &Bounds::KNOWN }
    }

    /// Why it may not use a command, if it may not.
    #[inline]
    pub(super) fn refusal(
        &self,
        verb: Verb,
        keeper: Option<&dyn Gatekeeper>,
    ) -> Option<&'static [u8]> {
        keeper?;
        match self.pass {
            _ if verb.is_for_strangers() => None,
            None => Some(NO_AUTH),
            Some(Pass { may_decide: false, .. }) if verb.decides() => {
                Some(b"NOPERM this token may not decide: use one with the role `decide`")
            }
            Some(_) => None,
        }
    }
}

impl Talk<'_, '_> {
    /// Replies to what is no ask.
    pub(super) fn answer(self, verb: Verb) -> Flow {
        match verb {
            Verb::Ping => self.ping(),
            Verb::Echo => reply::bulk(self.words.first().copied().unwrap_or_default(), self.out),
            Verb::Hello => self.hello(),
            Verb::Auth => self.auth(),
            Verb::Select => self.select(),
            Verb::Client => self.client(),
            Verb::Command => self.command(),
            Verb::Info => self.info(),
            Verb::Config => self.config(),
            Verb::Watch => self.refuse(NO_WATCH),
            Verb::Unwatch => reply::status("OK", self.out),
            Verb::Reset => self.reset(),
            Verb::Quit => {
                reply::status("OK", self.out);
                return Flow::Close;
            }
            // Those are asks, which are gathered, or say when others are.
            Verb::Multi
            | Verb::Exec
            | Verb::Discard
            | Verb::ClThrottle
            | Verb::ClReset
            | Verb::Throttle
            | Verb::ThrottleReset
            | Verb::ThrottleTransaction => {}
        }
        Flow::Open
    }

    fn ping(self) {
        match self.words {
            [] => reply::status("PONG", self.out),
            [text] => reply::bulk(text, self.out),
            _ => self.refuse(b"ERR wrong number of arguments for 'ping' command"),
        }
    }

    /// `HELLO [2|3 [AUTH name token] [SETNAME name]]`
    fn hello(self) {
        let Self { client, keeper, words, out } = self;
        let (protocol, mut options) = match words {
            [] => (client.protocol, words),
            [b"2", options @ ..] => (Protocol::Two, options),
            [b"3", options @ ..] => (Protocol::Three, options),
            _ => return reply::error(&[b"NOPROTO unsupported protocol version"], out),
        };
        let (mut pass, mut name) = (client.pass, None);
        while let [option, rest @ ..] = options {
            options = match rest {
                [_, token, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                    pass = keeper.and_then(|keeper| keeper.admit(token));
                    if keeper.is_some() && pass.is_none() {
                        return reply::error(&[WRONG_PASS], out);
                    }
                    rest
                }
                [text, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                    let Ok(text) = checked_name(text) else { return reply::error(&[NAME], out) };
                    name = Some(text);
                    rest
                }
                _ => {
                    return reply::error(
                        &[b"ERR syntax error in HELLO option '", option, b"'"],
                        out,
                    );
                }
            };
        }
        if keeper.is_some() && pass.is_none() {
            let how: &[u8] = b"NOAUTH HELLO must be called with the client already authenticated, \
                otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate \
                the client and select the RESP protocol version at the same time";
            return reply::error(&[how], out);
        }
        client.pass = pass;
        client.protocol = protocol;
        if let Some(name) = name {
            client.name = name;
        }
        welcome(client, out);
    }

    /// `AUTH token`, or `AUTH name token`, whatever the name.
    fn auth(self) {
        let token = match (self.keeper, self.words) {
            (None, [_]) => {
                let what: &[u8] = b"ERR AUTH <password> called without any password configured \
                    for the default user. Are you sure your configuration is correct?";
                return self.refuse(what);
            }
            (_, [token] | [_, token]) => token,
            _ => return self.refuse(SYNTAX),
        };
        if let Some(keeper) = self.keeper {
            let pass = keeper.admit(token);
            if pass.is_none() {
                return self.refuse(WRONG_PASS);
            }
            self.client.pass = pass;
        }
        reply::status("OK", self.out);
    }

    fn select(self) {
        match self.words.first().and_then(|word| codec::integer(word)) {
            Some(0) => reply::status("OK", self.out),
            Some(_) => self.refuse(b"ERR DB index is out of range"),
            None => self.refuse(NO_INTEGER),
        }
    }

    fn client(self) {
        let Self { client, words, out, .. } = self;
        let [what, words @ ..] = words else { return };
        match (what.to_ascii_lowercase().as_slice(), words) {
            (b"setname", [name]) => match checked_name(name) {
                Ok(name) => {
                    client.name = name;
                    reply::status("OK", out);
                }
                Err(Unfit) => reply::error(&[NAME], out),
            },
            (b"getname", []) => match &client.name {
                Some(name) => reply::bulk(name, out),
                None => client.protocol.null(out),
            },
            // What library it is matters to nobody here.
            (b"setinfo", [_, _]) => reply::status("OK", out),
            (b"id", []) => {
                reply::integer(i64::try_from(client.number).unwrap_or(i64::MAX), out);
            }
            _ => refuse_subcommand(b"CLIENT", what, out),
        }
    }

    fn command(self) {
        let protocol = self.client.protocol;
        let [what, names @ ..] = self.words else {
            return command::describe(&[], protocol, self.out);
        };
        match what.to_ascii_lowercase().as_slice() {
            b"count" if names.is_empty() => command::count(self.out),
            b"info" => command::describe(names, protocol, self.out),
            b"docs" => command::document(names, protocol, self.out),
            _ => refuse_subcommand(b"COMMAND", what, self.out),
        }
    }

    /// `INFO [section ..]`: there is one section.
    fn info(self) {
        let ours: [&[u8]; 4] = [b"server", b"default", b"all", b"everything"];
        let is_ours = |word: &&[u8]| ours.iter().any(|it| word.eq_ignore_ascii_case(it));
        if !self.words.is_empty() && !self.words.iter().any(is_ours) {
            return reply::bulk(b"", self.out);
        }
        let lines = [
            ["# Server", ""],
            ["redis_version:", REDIS_VERSION],
            ["redis_mode:", "standalone"],
            ["ratekeeper_version:", VERSION],
        ];
        let text = lines.map(|line| line.concat() + "\r\n").concat();
        reply::bulk(text.as_bytes(), self.out);
    }

    /// `CONFIG GET name ..`: names, or `*` for all.
    fn config(self) {
        let [what, names @ ..] = self.words else { return };
        if !what.eq_ignore_ascii_case(b"get") || names.is_empty() {
            return refuse_subcommand(b"CONFIG", what, self.out);
        }
        let is_asked = |(parameter, _): &&(&str, &str)| {
            let is_it = |name: &&[u8]| name.eq_ignore_ascii_case(parameter.as_bytes());
            names.iter().any(|name| *name == b"*" || is_it(name))
        };
        let asked = || PARAMETERS.iter().filter(is_asked);
        self.client.protocol.map(asked().count(), self.out);
        for (parameter, value) in asked() {
            reply::bulk(parameter.as_bytes(), self.out);
            reply::bulk(value.as_bytes(), self.out);
        }
    }

    fn reset(self) {
        *self.client = Client { number: self.client.number, ..Client::default() };
        reply::status("RESET", self.out);
    }

    fn refuse(self, why: &[u8]) {
        reply::error(&[why], self.out);
    }
}

/// What `HELLO` is answered with.
fn welcome(client: &Client, out: &mut Vec<u8>) {
    let text = |text: &str, out: &mut Vec<u8>| reply::bulk(text.as_bytes(), out);
    client.protocol.map(7, out);
    for (field, value) in [("server", "ratekeeper"), ("version", REDIS_VERSION)] {
        text(field, out);
        text(value, out);
    }
    text("proto", out);
    reply::integer(client.protocol.number(), out);
    text("id", out);
    reply::integer(i64::try_from(client.number).unwrap_or(i64::MAX), out);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        text(field, out);
        text(value, out);
    }
    text("modules", out);
    reply::array(0, out);
}

struct Unfit;

const NAME: &[u8] = b"ERR Client names cannot contain spaces, newlines or special characters, and \
    have at most 64 bytes.";

/// The name of a connection; an empty one takes the name away.
fn checked_name(name: &[u8]) -> Result<Option<Box<[u8]>>, Unfit> {
    if name.len() > NAME_BYTES_MAX || !name.iter().all(u8::is_ascii_graphic) {
        return Err(Unfit);
    }
    Ok((!name.is_empty()).then(|| name.into()))
}

fn refuse_subcommand(of: &[u8], what: &[u8], out: &mut Vec<u8>) {
    let text: [&[u8]; 5] =
        [b"ERR unknown subcommand or wrong number of arguments for '", of, b" ", what, b"'"];
    reply::error(&text, out);
}
