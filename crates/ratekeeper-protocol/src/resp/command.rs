//! The commands there are, and what the door tells of them.

use super::reply::{self, Protocol};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    ClThrottle,
    ClReset,
    Throttle,
    ThrottleReset,
    ThrottleTransaction,
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Client,
    Command,
    Info,
    Config,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Reset,
    Quit,
}

impl Verb {
    /// Whether it asks a limit, for which a token must be good.
    pub(super) const fn decides(self) -> bool {
        matches!(
            self,
            Self::ClThrottle
                | Self::ClReset
                | Self::Throttle
                | Self::ThrottleReset
                | Self::ThrottleTransaction
        )
    }

    /// Whether it needs no token at all.
    pub(super) const fn is_for_strangers(self) -> bool {
        matches!(self, Self::Hello | Self::Auth | Self::Reset | Self::Quit)
    }
}

/// One command.
#[derive(Debug)]
pub(super) struct Command {
    /// In small letters.
    pub(super) name: &'static str,
    pub(super) verb: Verb,
    /// How many words it has, with its name; if negative, at least so many.
    arity: i8,
    summary: &'static str,
}

/// What is asked most often comes first.
const COMMANDS: [Command; 21] = [
    command("cl.throttle", Verb::ClThrottle, -5, "Spends tokens by the rule that comes with it"),
    command("throttle", Verb::Throttle, -3, "Spends tokens of a named limit"),
    command("cl.reset", Verb::ClReset, 2, "Fills the bucket of a key"),
    command("throttle.reset", Verb::ThrottleReset, 3, "Fills a bucket of a named limit"),
    command(
        "throttle.transaction",
        Verb::ThrottleTransaction,
        -4,
        "Spends tokens of several limits, of all or of none",
    ),
    command("ping", Verb::Ping, -1, "Answers"),
    command("echo", Verb::Echo, 2, "Answers with what was sent"),
    command("hello", Verb::Hello, -1, "Chooses the version of the protocol"),
    command("auth", Verb::Auth, -2, "Shows a token"),
    command("select", Verb::Select, 2, "Chooses the one database there is"),
    command("client", Verb::Client, -2, "Names the connection"),
    command("command", Verb::Command, -1, "Tells which commands there are"),
    command("info", Verb::Info, -1, "Tells what server this is"),
    command("config", Verb::Config, -2, "Tells what tools want to know"),
    command("multi", Verb::Multi, 1, "Queues the requests behind it"),
    command("exec", Verb::Exec, 1, "Does what is queued, one request after the other"),
    command("discard", Verb::Discard, 1, "Forgets what is queued"),
    command("watch", Verb::Watch, -2, "Refuses: no key can be watched"),
    command("unwatch", Verb::Unwatch, 1, "Says that no key is watched"),
    command("reset", Verb::Reset, 1, "Makes the connection a new one"),
    command("quit", Verb::Quit, -1, "Closes the connection"),
];

const fn command(name: &'static str, verb: Verb, arity: i8, summary: &'static str) -> Command {
    Command { name, verb, arity, summary }
}

impl Command {
    /// The command of this name, in letters of any size.
    #[inline]
    pub(super) fn named(name: &[u8]) -> Option<&'static Self> {
        let [cl_throttle, throttle, ..] = &COMMANDS;
        match name {
            // What is asked most often, as most spell it.
            b"CL.THROTTLE" => Some(cl_throttle),
            b"THROTTLE" => Some(throttle),
            _ => COMMANDS.iter().find(|it| name.eq_ignore_ascii_case(it.name.as_bytes())),
        }
    }

    /// Whether it can have so many words, with its name.
    #[inline]
    pub(super) fn takes(&self, words: usize) -> bool {
        let bound = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { words >= bound } else { words == bound }
    }

    const fn group(&self) -> &'static str {
        match self.verb {
            _ if self.verb.decides() => "generic",
            Verb::Command | Verb::Info | Verb::Config => "server",
            Verb::Multi | Verb::Exec | Verb::Discard | Verb::Watch | Verb::Unwatch => {
                "transactions"
            }
            _ => "connection",
        }
    }

    /// What `COMMAND` tells of it: six elements, as of old, which every client can read.
    fn describe(&self, out: &mut Vec<u8>) {
        reply::array(6, out);
        reply::bulk(self.name.as_bytes(), out);
        reply::integer(self.arity.into(), out);
        let flags: &[&str] = if self.verb.decides() { &["write", "fast"] } else { &["fast"] };
        reply::array(flags.len(), out);
        for flag in flags {
            reply::status(flag, out);
        }
        // Where its first and last key are, and how far from each other.
        let key = i64::from(matches!(self.verb, Verb::ClThrottle | Verb::ClReset));
        (0..3).for_each(|_| reply::integer(key, out));
    }

    fn document(&self, protocol: Protocol, out: &mut Vec<u8>) {
        reply::bulk(self.name.as_bytes(), out);
        let fields = [
            ("summary", self.summary),
            ("since", env!("CARGO_PKG_VERSION")),
            ("group", self.group()),
        ];
        protocol.map(fields.len(), out);
        for (field, text) in fields {
            reply::bulk(field.as_bytes(), out);
            reply::bulk(text.as_bytes(), out);
        }
    }
}

/// How many there are.
pub(super) fn count(out: &mut Vec<u8>) {
    reply::integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX), out);
}

/// What each of them is like; of those that are named, if some are.
pub(super) fn describe(names: &[&[u8]], protocol: Protocol, out: &mut Vec<u8>) {
    if names.is_empty() {
        reply::array(COMMANDS.len(), out);
        for command in &COMMANDS {
            command.describe(out);
        }
        return;
    }
    reply::array(names.len(), out);
    for name in names {
        match Command::named(name) {
            Some(command) => command.describe(out),
            None => protocol.null(out),
        }
    }
}

/// What each of them is for; of those that are named, if some are.
pub(super) fn document(names: &[&[u8]], protocol: Protocol, out: &mut Vec<u8>) {
    let is_asked = |command: &&Command| {
        let is_named = |name: &&[u8]| name.eq_ignore_ascii_case(command.name.as_bytes());
        names.is_empty() || names.iter().any(is_named)
    };
    let asked = || COMMANDS.iter().filter(is_asked);
    protocol.map(asked().count(), out);
    asked().for_each(|command| command.document(protocol, out));
}

#[cfg(test)]
mod tests;
