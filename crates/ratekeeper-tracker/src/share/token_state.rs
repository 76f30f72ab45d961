//! How many tokens this process has, when to ask the server, for how much, and what to do while it
//! is away. No clock, no socket.
//!
//! What a process *needs* is a token for each of its requests that is in flight, and for each whose
//! answer came less than a window ago. What it *has* is what the server counts for it. It sends a
//! request only when it has more than it needs; it gives back what it has beyond that; and if it has
//! less, because requests were sent anyway, or because the server forgot, the next tokens are for
//! these. Each term it takes what it has of the new bucket too.
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
//! - The server was started at `t`: it may have forgotten everything. Whoever needs tokens hears of
//!   it when the next term begins, and takes them again. Until [`kept_min`] after `t` nothing else
//!   is sent.
//!
//! Nobody knows whether the server did what was asked last when no answer came, nor what it remembers
//! when it is back. So a process then has nothing: it takes what it needs once more, and what is
//! missing meanwhile is there again [`kept_max`](super::terms::kept_max) later.

use std::collections::VecDeque;

use ratekeeper_time::{Moment, Nanos};

use super::ANSWER_MAX;
use super::clock::ServerClock;
use super::terms::{Terms, kept_min};
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
/// How many servers are known apart that answer at one address.
const STARTS_MAX: usize = 16;

/// What is asked of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenAsk {
    /// Whether it is there, and what time it is.
    Look,
    /// Takes as many tokens as are held also of terms that have begun.
    Renew { terms: Terms, tokens: u32 },
    /// Gives some back, then takes others: all that are asked for, or none.
    Exchange { terms: Terms, refund: u32, spend: u32 },
}

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenAnswer {
    /// Whether it gave what was asked for.
    pub(crate) is_granted: bool,
    /// How many are left.
    pub(crate) left: u32,
    /// What time it is there.
    pub(crate) there: Moment,
    /// When it was started.
    pub(crate) started: Moment,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ask(TokenAsk),
    /// Nothing, until then.
    Idle(Option<Moment>),
}

/// Stands for one request that needs a token until a window after its answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SharedToken(());

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

/// The tokens of a process.
#[derive(Debug)]
pub(crate) struct TokenState {
    /// What the API allows.
    pace: Pace,
    /// What was sent lately, and the own share of it; none if there is no own share.
    own: Option<Places>,
    mode: Mode,
    /// The terms that this process has its tokens of.
    terms: Option<Terms>,
    /// How many tokens it has: the server counts them for it in each of these terms.
    registered: u32,
    /// How many of them may be used, as the last answer gave them.
    in_hand: u32,
    /// Requests that are not settled yet.
    in_flight: u32,
    /// When a token is not needed any more, of each request that was settled lately.
    held: VecDeque<Moment>,
    /// How many tokens the server had left, and when it said so.
    left: Option<(Moment, u32)>,
    /// How many to ask for next, and when.
    wanted: u32,
    ask_at: Moment,
    clock: ServerClock,
    /// When those were started who have answered so far.
    starts: VecDeque<Moment>,
    is_closing: bool,
}

impl TokenState {
    /// For an API that allows so many requests in a window, and so many of them to this process
    /// while the server is away.
    pub(crate) fn new(pace: Pace, alone: u32) -> Self {
        let own = (alone > 0).then(|| Places::new(Pace::new(alone, pace.window)));
        Self {
            pace,
            own,
            mode: Mode::There,
            terms: None,
            registered: 0,
            in_hand: 0,
            in_flight: 0,
            held: VecDeque::new(),
            left: None,
            wanted: 1,
            ask_at: Moment::EPOCH,
            clock: ServerClock::default(),
            starts: VecDeque::new(),
            is_closing: false,
        }
    }

    /// Whether the server does not answer.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self.mode, Mode::Away { .. })
    }

    /// Until when nothing is sent, as the server has just been started, or is back.
    pub(crate) fn quiet_until(&self) -> Option<Moment> {
        match self.mode {
            Mode::Back { from } => Some(from),
            Mode::There | Mode::Away { .. } => None,
        }
    }

    /// From here on tokens are only given back.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Whether nothing is in flight, and nothing is left to give back.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closing && self.in_flight == 0 && self.registered == 0
    }

    /// How it stands now. What the server said longer ago than a window nobody knows any more.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        let in_flight = self.in_flight;
        let lately = |&(at, _): &(Moment, u32)| now < at.after(self.pace.window);
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
    pub(crate) fn take(&mut self, now: Moment) -> Option<SharedToken> {
        match self.mode {
            Mode::Back { from } if now < from => return None,
            Mode::There | Mode::Back { .. } => self.in_hand = self.in_hand.checked_sub(1)?,
            Mode::Away { alone_from, .. } => {
                let own = self.own.as_mut().filter(|_| alone_from <= now)?;
                if own.free(now, Length::ZERO) == 0 {
                    return None;
                }
            }
        }
        Some(self.take_anyway())
    }

    /// A token for a request that is sent whether there is one or not.
    pub(crate) fn take_anyway(&mut self) -> SharedToken {
        if let Some(own) = &mut self.own {
            own.take(1);
        }
        self.in_flight += 1;
        SharedToken(())
    }

    /// The request of a token was answered, or lost. The next one that uses it takes at least
    /// `credit` on its way.
    pub(crate) fn settle(&mut self, _: SharedToken, credit: Nanos, now: Moment) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(own) = &mut self.own {
            own.answer(1, now);
        }
        let window = self.pace.window;
        let at = now.after(window).before(credit.min(window));
        // Who sends anyway may hold more than there are; only the latest can matter.
        if self.held.len() >= self.pace.count as usize {
            self.held.pop_front();
        }
        // One that is later than those before may be it too late, which does no harm.
        self.held.push_back(self.held.back().map_or(at, |&last| last.max(at)));
    }

    /// The request of a token was never sent.
    pub(crate) fn give_back(&mut self, _: SharedToken) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(own) = &mut self.own {
            own.give_back(1);
        }
    }

    /// What to do now for `waiting` requests. Tokens in hand that nobody took go back.
    pub(crate) fn step(&mut self, waiting: usize, now: Moment) -> Step {
        self.in_hand = 0;
        while self.held.front().is_some_and(|&at| at <= now) {
            self.held.pop_front();
        }
        if let Mode::Away { alone_from, probe_at } = self.mode {
            return self.step_away(waiting, alone_from, probe_at, now);
        }
        let Some(there) = self.clock.at(now) else { return Step::Ask(TokenAsk::Look) };
        let current = Terms::at(there, self.pace.window);
        if let Some(ask) = self.renew(&current) {
            return Step::Ask(ask);
        }
        let terms = self.terms.get_or_insert(current).clone();
        self.exchange(waiting, terms, there, now)
    }

    fn step_away(
        &mut self,
        waiting: usize,
        alone_from: Moment,
        probe_at: Moment,
        now: Moment,
    ) -> Step {
        if probe_at <= now {
            // Until there is an answer, or none, the own share is sent as before.
            let probe_at = now.after(ANSWER_MAX.into()).after(PROBE);
            self.mode = Mode::Away { alone_from, probe_at };
            return Step::Ask(TokenAsk::Look);
        }
        let opens = (waiting > 0 && self.own.is_some()).then(|| self.opens_at(now));
        Step::Idle(opens.into_iter().chain([probe_at]).min())
    }

    /// What is held has to be held of the current terms too.
    fn renew(&mut self, current: &Terms) -> Option<TokenAsk> {
        let beyond = self.terms.as_ref().and_then(|terms| {
            let beyond = current.beyond(terms)?;
            Some((beyond, current.overlaps(terms)))
        });
        let (terms, is_in_time) = beyond?;
        if self.registered > 0 && is_in_time {
            return Some(TokenAsk::Renew { terms, tokens: self.registered });
        }
        // After so long nobody else counts what this process had.
        self.registered = 0;
        self.terms = None;
        None
    }

    fn exchange(&mut self, waiting: usize, terms: Terms, there: Moment, now: Moment) -> Step {
        let needed = self.needed();
        let lacking = needed.saturating_sub(self.registered);
        let refund = self.registered.saturating_sub(needed);
        let opens = match self.mode {
            Mode::Back { from } if now < from => Some(from),
            _ => {
                self.mode = Mode::There;
                None
            }
        };
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        let wants = match opens {
            _ if self.is_closing => 0,
            Some(_) => lacking,
            None => lacking.saturating_add(waiting),
        };
        let spend = if self.ask_at <= now { self.wanted.min(wants) } else { 0 };
        if spend > 0 || refund > 0 {
            return Step::Ask(TokenAsk::Exchange { terms, refund, spend });
        }
        let ask_at = (wants > 0).then_some(self.ask_at);
        let opens = opens.filter(|_| waiting > 0);
        let term_ends =
            (self.registered > 0).then(|| now.after(terms.end(self.pace.window).since(there)));
        let wakes = [ask_at, opens, term_ends, self.held.front().copied()];
        Step::Idle(wakes.into_iter().flatten().min())
    }

    /// How many tokens this process should have, so that others do not exceed the limit.
    fn needed(&self) -> u32 {
        self.in_flight.saturating_add(u32::try_from(self.held.len()).unwrap_or(u32::MAX))
    }

    /// When there may be a token for who comes now, as far as that can be said.
    pub(crate) fn opens_at(&self, now: Moment) -> Moment {
        match self.mode {
            Mode::There => self.ask_at.max(now),
            Mode::Back { from } => from.max(now),
            Mode::Away { alone_from, probe_at } => {
                let Some(own) = &self.own else { return probe_at.max(now) };
                let free = own.left(now.max(alone_from), Length::ZERO);
                let opens = if free > 0 { Some(alone_from) } else { own.opens_at(1, Length::ZERO) };
                // If only an answer can tell, a window is what it takes after that.
                opens.unwrap_or(now.after(self.pace.window)).max(alone_from).max(now)
            }
        }
    }

    /// The server answered what was asked of it at `asked`.
    pub(crate) fn answered(
        &mut self,
        ask: &TokenAsk,
        answer: TokenAnswer,
        asked: Moment,
        now: Moment,
    ) {
        self.clock.learn(answer.there, asked, now);
        if self.is_away() {
            let all_know = now.after(ANSWER_MAX.into()).after(PROBE);
            self.mode = Mode::Back { from: all_know.after(self.pace.window).after(LATE_MAX) };
        }
        if self.is_new(answer.started) {
            self.forget();
            let since_start = answer.there.since(answer.started);
            let from = now.after(kept_min(self.pace.window)).before(since_start);
            self.be_quiet_until(from, now);
            return;
        }
        match ask {
            TokenAsk::Look => {}
            TokenAsk::Renew { terms, .. } if answer.is_granted => {
                self.terms = Some(Terms::ending(terms.current()));
            }
            // It has forgotten what this process had.
            TokenAsk::Renew { .. } => self.forget(),
            TokenAsk::Exchange { refund, spend, .. } => {
                self.exchanged(*refund, *spend, answer, now);
            }
        }
    }

    fn exchanged(&mut self, refund: u32, spend: u32, answer: TokenAnswer, now: Moment) {
        let granted = if answer.is_granted { spend } else { 0 };
        self.registered = self.registered.saturating_sub(refund).saturating_add(granted);
        if spend == 0 {
            return;
        }
        self.in_hand = self.registered.saturating_sub(self.needed()).min(granted);
        self.left = Some((now, answer.left));
        let left = answer.left.clamp(1, TOKENS_MAX);
        let fewer_are_there = answer.left > 0 && left < spend;
        let at_once = answer.is_granted || fewer_are_there;
        self.wanted = if at_once { left } else { 1 };
        self.ask_at = if at_once { now } else { now.after(POLL) };
    }

    /// Whether who answers was started since, or has never answered before.
    fn is_new(&mut self, started: Moment) -> bool {
        if self.starts.contains(&started) {
            return false;
        }
        if self.starts.len() >= STARTS_MAX {
            self.starts.pop_front();
        }
        self.starts.push_back(started);
        true
    }

    fn be_quiet_until(&mut self, from: Moment, now: Moment) {
        match self.mode {
            Mode::Back { from: other } => self.mode = Mode::Back { from: from.max(other) },
            _ if from > now => self.mode = Mode::Back { from },
            _ => {}
        }
    }

    /// Nobody knows what the server counts for this process.
    fn forget(&mut self) {
        self.terms = None;
        self.registered = 0;
        self.in_hand = 0;
        self.wanted = 1;
    }

    /// The server did not answer.
    pub(crate) fn failed(&mut self, now: Moment) {
        let probe_at = now.after(PROBE);
        let alone_from = match self.mode {
            Mode::Away { alone_from, .. } => alone_from,
            Mode::There | Mode::Back { .. } => now.after(self.pace.window).after(LATE_MAX),
        };
        self.mode = Mode::Away { alone_from, probe_at };
        self.forget();
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
