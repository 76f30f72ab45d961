//! When to ask the server, for how much, and what to do while it is away. No clock, no socket.
//!
//! While the server is there, a request needs a token of it. While it is away, each process has a
//! share of its own. Between the two is a quiet time, because what others sent is still counted by
//! the API for a window: nobody may send on the strength of one rule what others have just sent on
//! the strength of the other.
//!
//! - The server does not answer at `t`: whoever had tokens had them before `t`. So until a window
//!   after `t` nothing is sent, and then the own share.
//! - The server answers again at `t`: others may just have asked in vain, which takes them up to
//!   [`ANSWER_MAX`], and ask again [`PROBE`] after that. They send their share until then. So until
//!   a window after that nothing is sent, and then by tokens.
//!
//! What was held when the server went away has to go back, or it is missing until the term ends.
//! But how much is that? The server may have forgotten all of it, and others may have begun anew:
//! then whatever is given back is one too many. It may have saved its memory a while before. And
//! what was asked last, it may have done or not. Only the server knows. So tokens are taken of two
//! buckets as one: the one that all share, and a ledger that this process alone uses, and only for
//! as long as the server answers, its life. What the ledger lacks is what this process still
//! holds, whatever happened. When the server is there again, a new life begins, with a new ledger;
//! and once the API has forgotten all that was sent in the old one, what its ledger lacks, and no
//! more, is given back to both.

use tollgate::{Moment, Nanos};

use super::ANSWER_MAX;
use super::clock::ServerClock;
use super::fresh::Freshness;
use super::held::{Held, Refunds, Terms};
use super::past::Past;
use crate::length::Length;
use crate::pace::{Pace, Places};

/// How long after a try in vain a server that is away is tried again.
pub(crate) const PROBE: Nanos = Nanos::new(250_000_000);
/// How late anything may be that was sent just before the server went away.
const LATE_MAX: Nanos = Nanos::new(250_000_000);
/// How often to ask for tokens that somebody else may give back.
const POLL: Nanos = Nanos::new(8_000_000);
/// The most tokens that are asked for at once.
pub(super) const TOKENS_MAX: u32 = 64;

/// The most requests that were sent anyway and are not paid for. More than that nobody waits for.
const OWED_MAX: u32 = 1 << 10;

/// What becomes of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They are held until a window after the answer, and then given back.
    Held,
    /// They are spent, and time brings new ones.
    Spent,
}

/// What is asked of the server. Nothing of all this asks whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// How many tokens, and of which terms.
    pub(crate) spend: u32,
    pub(crate) terms: Terms,
    pub(crate) refunds: Refunds,
    /// In whose ledger both are written down.
    pub(crate) life: u64,
    /// A life that is over: what its ledger lacks goes back.
    pub(crate) over: Option<u64>,
}

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// How many tokens it gave.
    pub(crate) granted: u32,
    /// How many are left.
    pub(crate) left: u32,
    /// How many fewer than in a full bucket that is, if it said.
    pub(crate) lacks: u32,
    /// When there are more, as far as it says.
    pub(crate) retry_in: Nanos,
    /// In which second of its clock it said so, if it told.
    pub(crate) second: Option<Moment>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ask(Ask),
    /// Nothing, until then.
    Idle(Option<Moment>),
}

/// What lets one request pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// In which of the server's lives it was had, and of which terms; none if it is of the own
    /// share.
    of: Option<(u64, Terms)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    There,
    Away { alone_from: Moment, probe_at: Moment },
    Back { from: Moment },
}

/// How it stands, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) is_away: bool,
    /// How many there are in all, if they are of the own share.
    pub(crate) share: Option<u32>,
    /// How many are left, as far as that is known.
    pub(crate) left: Option<u64>,
    pub(crate) in_flight: u32,
    /// When there are more, if that is known.
    pub(crate) opens_at: Option<Moment>,
}

/// Where tokens come from.
#[derive(Debug)]
pub(crate) struct Till {
    kind: Kind,
    window: Nanos,
    /// What was sent lately, and the own share of it; none if there is no own share.
    own: Option<Places>,
    mode: Mode,
    /// Counts how often the server went away.
    life: u64,
    /// Requests of this life that are not settled yet.
    flying: u32,
    /// Requests with a token of any kind that are not settled yet.
    in_flight: u32,
    /// How many tokens the server had left, and when it said so.
    left: Option<(Moment, u32)>,
    past: Past,
    /// Requests that were sent without a token, and are paid for with the next.
    owed: u32,
    in_hand: u32,
    /// The terms of those in hand.
    terms: Terms,
    /// How many to ask for next, and when.
    wanted: u32,
    ask_at: Moment,
    held: Held,
    clock: ServerClock,
    freshness: Freshness,
}

impl Till {
    /// For tokens of which one comes by itself every `spacing`, or less often.
    pub(crate) fn new(kind: Kind, window: Nanos, alone: u32, spacing: Nanos) -> Self {
        let own = (alone > 0).then(|| Places::new(Pace { count: alone, window }));
        Self {
            kind,
            window,
            own,
            mode: Mode::There,
            life: 0,
            flying: 0,
            in_flight: 0,
            left: None,
            past: Past::default(),
            owed: 0,
            in_hand: 0,
            terms: Terms { current: 0, other: None },
            wanted: 1,
            ask_at: Moment::EPOCH,
            held: Held::default(),
            clock: ServerClock::default(),
            freshness: Freshness::new(spacing),
        }
    }

    /// Whether the server answers.
    pub(crate) fn is_there(&self) -> bool {
        self.mode == Mode::There
    }

    /// How it stands now. What the server said longer ago than a window nobody knows any more.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        let in_flight = self.in_flight;
        let lately = |&(at, _): &(Moment, u32)| now < at.after(self.window);
        let left = self.left.filter(lately).map(|(_, left)| left.into());
        let there = Standing { is_away: false, share: None, left, in_flight, opens_at: None };
        match self.mode {
            Mode::There => there,
            Mode::Back { from } => Standing { left: Some(0), opens_at: Some(from), ..there },
            Mode::Away { alone_from, .. } => {
                let own = self.own.as_ref();
                let left =
                    own.filter(|_| alone_from <= now).map_or(0, |own| own.left(now, Length::ZERO));
                Standing {
                    is_away: true,
                    share: Some(own.map_or(0, |own| own.pace().count)),
                    left: Some(left as u64),
                    in_flight,
                    opens_at: own.map(|_| self.opens_at(now)),
                }
            }
        }
    }

    /// A token, if there is one now.
    pub(crate) fn take(&mut self, now: Moment) -> Option<Token> {
        let token = self.find(now)?;
        self.in_flight += 1;
        Some(token)
    }

    fn find(&mut self, now: Moment) -> Option<Token> {
        match self.mode {
            Mode::There if self.in_hand > 0 => {
                self.in_hand -= 1;
                self.flying += 1;
                if let Some(own) = &mut self.own {
                    own.take();
                }
                Some(Token { of: Some((self.life, self.terms)) })
            }
            Mode::Away { alone_from, .. } if alone_from <= now => {
                let own = self.own.as_mut()?;
                if own.free(now, Length::ZERO) == 0 {
                    return None;
                }
                own.take();
                Some(Token { of: None })
            }
            _ => None,
        }
    }

    /// A request is sent now that did not wait for a token.
    pub(crate) fn owe(&mut self, now: Moment) {
        if let Some(own) = &mut self.own {
            own.take();
            own.answer(now);
        }
        if !matches!(self.mode, Mode::Away { .. }) {
            self.owed = OWED_MAX.min(self.owed + 1);
        }
    }

    /// The request of a token was answered, or lost. The next one that uses it takes at least
    /// `credit` on its way.
    pub(crate) fn settle(&mut self, token: Token, credit: Nanos, now: Moment) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(own) = &mut self.own {
            own.answer(now);
        }
        let Some((life, terms)) = token.of else { return };
        let at = now.after(self.window).before(credit.min(self.window));
        if !self.land(life) {
            self.past.settle(life, at);
        } else if self.kind == Kind::Held {
            self.held.until(at, terms);
        }
    }

    /// The request of a token was never sent.
    pub(crate) fn give_back(&mut self, token: Token) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(own) = &mut self.own {
            own.give_back();
        }
        let Some((life, terms)) = token.of else { return };
        if !self.land(life) {
            self.past.settle(life, Moment::EPOCH);
        } else if self.kind == Kind::Held {
            self.held.release(terms);
        }
    }

    /// A request is settled. Whether it was sent in this life.
    fn land(&mut self, life: u64) -> bool {
        let is_current = life == self.life;
        self.flying = self.flying.saturating_sub(u32::from(is_current));
        is_current
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
        self.put_back();
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(self.owed);
        if let Mode::Away { alone_from, probe_at } = self.mode {
            if probe_at <= now {
                // Until there is an answer, or none, the own share is sent as before.
                let probe_at = now.after(ANSWER_MAX.into()).after(PROBE);
                self.mode = Mode::Away { alone_from, probe_at };
                return Step::Ask(self.ask(0, Refunds::new(), now));
            }
            let opens = (waiting > 0 && self.own.is_some()).then(|| self.opens_at(now));
            return Step::Idle(opens.into_iter().chain([probe_at]).min());
        }
        if self.kind == Kind::Held && !self.clock.is_asked {
            // Without the server's time nobody knows which term it is.
            return Step::Ask(self.ask(0, Refunds::new(), now));
        }
        if let Some(life) = self.past.due(now) {
            return Step::Ask(Ask { over: Some(life), ..self.ask(0, Refunds::new(), now) });
        }
        let spend = if self.ask_at <= now { self.wanted.min(waiting) } else { 0 };
        let refunds = self.held.due(now);
        if spend > 0 || !refunds.is_empty() {
            return Step::Ask(self.ask(spend, refunds, now));
        }
        let ask_at = (waiting > 0).then_some(self.ask_at);
        let wakes = [ask_at, self.held.next(), self.past.next()];
        Step::Idle(wakes.into_iter().flatten().min())
    }

    fn ask(&self, spend: u32, refunds: Refunds, now: Moment) -> Ask {
        let terms = Terms::at(self.clock.at(now), self.window);
        Ask { spend, terms, refunds, life: self.life, over: None }
    }

    /// When there may be a token for who comes now, as far as that can be said.
    pub(crate) fn opens_at(&self, now: Moment) -> Moment {
        match self.mode {
            Mode::There => self.ask_at.max(now),
            Mode::Back { from } => from.max(now),
            Mode::Away { alone_from, probe_at } => {
                let Some(own) = &self.own else { return probe_at.max(now) };
                let free = own.left(now.max(alone_from), Length::ZERO);
                let opens = if free > 0 { Some(alone_from) } else { own.opens_at(Length::ZERO) };
                // If only an answer can tell, a window is what it takes after that.
                opens.unwrap_or(now.after(self.window)).max(alone_from).max(now)
            }
        }
    }

    /// The server answered what was asked of it at `asked`.
    pub(crate) fn answered(&mut self, ask: &Ask, answer: Answer, asked: Moment, now: Moment) {
        self.clock.learn(answer.second, asked, now);
        if let Mode::Away { .. } = self.mode {
            let all_know = now.after(ANSWER_MAX.into()).after(PROBE);
            self.mode = Mode::Back { from: all_know.after(self.window).after(LATE_MAX) };
            return;
        }
        if let Some(life) = ask.over {
            self.past.forget(life);
        }
        if ask.spend == 0 {
            return;
        }
        self.left = Some((now, answer.left));
        let is_fresh = self.freshness.judge(&answer, asked, now);
        if self.kind == Kind::Spent && answer.granted > 0 && !is_fresh {
            // It counts from when the server gave it, and that was perhaps too long ago.
            self.ask_at = now;
            return;
        }
        (self.in_hand, self.terms) = (answer.granted, ask.terms);
        self.pay(now);
        let granted_all = answer.granted == ask.spend;
        let left = answer.left.clamp(1, TOKENS_MAX);
        let fewer_are_there = answer.left > 0 && left < ask.spend;
        self.wanted = if granted_all || fewer_are_there { left } else { 1 };
        let at_once = granted_all || fewer_are_there;
        self.ask_at = match self.kind {
            _ if at_once => now,
            Kind::Held => now.after(POLL),
            Kind::Spent => now.after(answer.retry_in),
        };
    }

    /// Those who were sent anyway come first: the API counts them already.
    fn pay(&mut self, now: Moment) {
        let paid = self.owed.min(self.in_hand);
        self.owed -= paid;
        self.in_hand -= paid;
        if self.kind == Kind::Held {
            for _ in 0..paid {
                self.held.until(now.after(self.window), self.terms);
            }
        }
    }

    /// The server did not answer.
    pub(crate) fn failed(&mut self, now: Moment) {
        let probe_at = now.after(PROBE);
        let alone_from = match self.mode {
            Mode::Away { alone_from, .. } => alone_from,
            Mode::There | Mode::Back { .. } => now.after(self.window).after(LATE_MAX),
        };
        if self.kind == Kind::Held && self.is_there() {
            // What was asked just now it may still do, and what is held now is so for a window.
            self.past.add(self.life, std::mem::take(&mut self.flying), alone_from);
            self.life += 1;
        }
        self.mode = Mode::Away { alone_from, probe_at };
        self.held.clear();
        self.owed = 0;
        self.in_hand = 0;
        self.wanted = 1;
    }

    /// Tokens in hand that nobody took go back.
    fn put_back(&mut self) {
        for _ in 0..std::mem::take(&mut self.in_hand) {
            if self.kind == Kind::Held {
                self.held.release(self.terms);
            }
        }
    }
}

#[cfg(test)]
mod tests;
