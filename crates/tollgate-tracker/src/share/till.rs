//! When to ask the server, for how much, and what to do while it is away. No clock, no socket.
//!
//! While the server is there, a request needs a token of it. While it is away, each process has a
//! share of its own. Between the two is a quiet time, because what others sent is still counted by
//! the API for a window: nobody may send on the strength of one rule what others have just sent on
//! the strength of the other.
//!
//! - The server does not answer at `t`: whoever had tokens had them before `t`. So until a window
//!   after `t` nothing is sent, and then the own share.
//! - The server answers again at `t`: others may notice as late as [`PROBE`] after it, and send
//!   their share until then. So until a window after that nothing is sent, and then by tokens.

use tollgate::{Moment, Nanos};

use crate::pace::{Pace, Places};

/// How often a server that is away is tried.
pub(crate) const PROBE: Nanos = Nanos::new(250_000_000);
/// How late anything may be that was sent just before the server went away.
const LATE_MAX: Nanos = Nanos::new(250_000_000);
/// The most tokens that are asked for at once.
const TOKENS_MAX: u32 = 64;

/// What is asked of the server. Nothing of either asks whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) spend: u32,
    pub(crate) refund: u32,
}

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// How many tokens it gave.
    pub(crate) granted: u32,
    /// How many are left.
    pub(crate) left: u32,
    /// When there are more, as far as it says.
    pub(crate) retry_in: Nanos,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ask(Ask),
    /// Nothing, until then.
    Idle(Option<Moment>),
}

/// What lets one request pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Since when the server has been there, as a number; none if it is of the own share.
    epoch: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    There,
    Away { alone_from: Moment, probe_at: Moment },
    Back { from: Moment },
}

/// Where tokens come from.
#[derive(Debug)]
pub(crate) struct Till {
    window: Nanos,
    /// What was sent lately, and the own share of it; none if there is no own share.
    own: Option<Places>,
    mode: Mode,
    epoch: u64,
    in_hand: u32,
    /// How many to ask for next, and when.
    wanted: u32,
    ask_at: Moment,
    /// Tokens to give back, as nothing was sent for them.
    unused: u32,
    /// The shortest round trip to the server lately.
    shortest: Nanos,
}

impl Till {
    pub(crate) fn new(window: Nanos, alone: u32) -> Self {
        let own = (alone > 0).then(|| Places::new(Pace { count: alone, window }));
        Self {
            window,
            own,
            mode: Mode::There,
            epoch: 0,
            in_hand: 0,
            wanted: 1,
            ask_at: Moment::EPOCH,
            unused: 0,
            shortest: Nanos::new(u128::MAX),
        }
    }

    /// Whether the server answers.
    pub(crate) fn is_there(&self) -> bool {
        self.mode == Mode::There
    }

    /// A token, if there is one now.
    pub(crate) fn take(&mut self, now: Moment) -> Option<Token> {
        match self.mode {
            Mode::There if self.in_hand > 0 => {
                self.in_hand -= 1;
                if let Some(own) = &mut self.own {
                    own.take();
                }
                Some(Token { epoch: Some(self.epoch) })
            }
            Mode::Away { alone_from, .. } if alone_from <= now => {
                let own = self.own.as_mut()?;
                if own.free(now, Nanos::ZERO) == 0 {
                    return None;
                }
                own.take();
                Some(Token { epoch: None })
            }
            _ => None,
        }
    }

    /// The request of a token was answered, or lost.
    pub(crate) fn settle(&mut self, now: Moment) {
        if let Some(own) = &mut self.own {
            own.answer(now);
        }
    }

    /// The request of a token was never sent.
    pub(crate) fn give_back(&mut self, token: Token) {
        if let Some(own) = &mut self.own {
            own.give_back();
        }
        if token.epoch == Some(self.epoch) {
            self.unused += 1;
        }
    }

    /// What to do now for `waiting` requests. Tokens in hand that nobody took go back.
    pub(crate) fn step(&mut self, waiting: usize, now: Moment) -> Step {
        if let Mode::Back { from } = self.mode {
            if now < from {
                return Step::Idle(Some(from));
            }
            self.mode = Mode::There;
            self.ask_at = now;
        }
        self.unused += std::mem::take(&mut self.in_hand);
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        if let Mode::Away { probe_at, .. } = self.mode {
            if probe_at <= now {
                return Step::Ask(Ask { spend: 0, refund: 0 });
            }
            let opens = (waiting > 0 && self.own.is_some()).then(|| self.opens_at(now));
            return Step::Idle(opens.into_iter().chain([probe_at]).min());
        }
        let spend = if self.ask_at <= now { self.wanted.min(waiting) } else { 0 };
        if spend > 0 || self.unused > 0 {
            return Step::Ask(Ask { spend, refund: self.unused });
        }
        Step::Idle((waiting > 0).then_some(self.ask_at))
    }

    /// When there may be a token for who comes now, as far as that can be said.
    pub(crate) fn opens_at(&self, now: Moment) -> Moment {
        match self.mode {
            Mode::There => self.ask_at.max(now),
            Mode::Back { from } => from.max(now),
            Mode::Away { alone_from, probe_at } => {
                let Some(own) = &self.own else { return probe_at.max(now) };
                let free = own.left(now.max(alone_from), Nanos::ZERO);
                let opens = if free > 0 { Some(alone_from) } else { own.opens_at(Nanos::ZERO) };
                // If only an answer can tell, a window is what it takes after that.
                opens.unwrap_or(now.after(self.window)).max(alone_from).max(now)
            }
        }
    }

    /// The server answered what was asked of it at `asked`.
    pub(crate) fn answered(&mut self, ask: Ask, answer: Answer, asked: Moment, now: Moment) {
        if let Mode::Away { .. } = self.mode {
            let quiet = Nanos::new(PROBE.get() + self.window.get() + LATE_MAX.get());
            self.mode = Mode::Back { from: now.after(quiet) };
            return;
        }
        self.unused = self.unused.saturating_sub(ask.refund);
        if ask.spend == 0 {
            return;
        }
        let is_stale = self.is_stale(now.since(asked));
        if answer.granted > 0 && is_stale {
            // It counts from when the server gave it, and that was perhaps too long ago.
            self.unused += answer.granted;
            self.ask_at = now;
            return;
        }
        self.in_hand += answer.granted;
        let granted_all = answer.granted == ask.spend;
        let left = answer.left.clamp(1, TOKENS_MAX);
        let fewer_are_there = answer.left > 0 && left < ask.spend;
        self.wanted = if granted_all || fewer_are_there { left } else { 1 };
        let at_once = granted_all || fewer_are_there;
        self.ask_at = if at_once { now } else { now.after(answer.retry_in) };
    }

    /// The server did not answer.
    pub(crate) fn failed(&mut self, now: Moment) {
        let probe_at = now.after(PROBE);
        let alone_from = match self.mode {
            Mode::Away { alone_from, .. } => alone_from,
            Mode::There | Mode::Back { .. } => now.after(self.window).after(LATE_MAX),
        };
        self.mode = Mode::Away { alone_from, probe_at };
        // A server that comes back may have forgotten all; then nothing is owed to it.
        self.epoch += 1;
        (self.unused, self.in_hand) = (0, 0);
        self.wanted = 1;
    }

    /// Whether an answer took so much longer than they do that what it grants is not for now.
    fn is_stale(&mut self, took: Nanos) -> bool {
        const STALE: u128 = 8_000_000;
        // It rises slowly, so that a way that has become longer is not taken for delay for ever.
        let risen = self.shortest.get().saturating_add(self.shortest.get() / 64);
        self.shortest = Nanos::new(risen).min(took);
        took.get() > self.shortest.get().saturating_add(STALE)
    }
}

#[cfg(test)]
mod tests;
