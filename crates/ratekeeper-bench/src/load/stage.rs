//! What all connections of a run share, and what each of them has to do next.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ratekeeper::{Clock, Moment, Nanos};
use ratekeeper_client::Failure;
use tokio::sync::Notify;

use super::flight::Flight;
use super::keys::{Keys, seed_of};
use super::tally::{Asked, Tally, Window};
use super::target::{Step, Target};
use super::wire::Answer;

/// How many requests of one socket can have gone by since the oldest that was not answered.
const SPAN_MAX: usize = 1 << 16;

/// Of how many requests that were never sent it is told how long each waited; of more, some stand
/// for others that were due at about the same time.
const UNSENT_TOLD_APART: u64 = 1 << 20;

/// How often a connection that is alone looks for its answer before it sees to anything else: for less
/// than a millisecond.
const LOOKS: usize = 1 << 10;
/// How many answers in a row it finds so. Then it is told of one, and the conductor has its turn.
const LOOKS_IN_A_ROW: usize = 1 << 8;

/// A run that is going on.
pub(crate) struct Stage {
    pub(crate) clock: Clock,
    pub(crate) target: Target,
    pub(crate) step: Step,
    /// When the first requests are sent, to warm up.
    pub(crate) start: Moment,
    pub(crate) window: Window,
    pub(crate) tally: RefCell<Tally>,
    pub(crate) reconnects: Cell<u64>,
    /// How often in a row a connection that is alone has looked by itself.
    pub(crate) looked: Cell<usize>,
    /// Why a connection was lost for the first time.
    pub(crate) first_failure: RefCell<Option<Failure>>,
}

impl Stage {
    /// When the `index`-th request is due, if they come at a rate.
    pub(crate) fn due(&self, index: u64, rate: u64) -> Moment {
        let nanos = u128::from(index) * 1_000_000_000 / u128::from(rate);
        self.start.after(Nanos::new(nanos))
    }

    /// When the `nth` request of a connection is due, if they come at a rate: they go to one connection
    /// after the other.
    fn due_on(&self, connection: u64, nth: u64, rate: u64) -> Moment {
        self.due(connection + nth * self.connections(), rate)
    }

    /// How many requests of a connection are due before `moment`.
    fn count_before(&self, connection: u64, moment: Moment, rate: u64) -> u64 {
        let nanos = moment.since(self.start).get();
        // Rounded up: one that is due a moment earlier is before it.
        let all = (nanos * u128::from(rate)).div_ceil(1_000_000_000);
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        all.saturating_sub(connection).div_ceil(self.connections())
    }

    /// Counts what came due and was not sent by the end, `now`: whoever wanted to ask has waited for
    /// as long as that.
    pub(crate) fn count_unsent(&self, lines: &[Rc<Line>], now: Moment) {
        let Some(rate) = self.step.rate else { return };
        let mut tally = self.tally.borrow_mut();
        for (connection, line) in (0..).zip(lines) {
            let before = |moment| self.count_before(connection, moment, rate);
            // What comes due later was not held up by anybody.
            let end = before(self.window.end.min(now));
            let mut next = before(self.window.begin).max(line.sent.get());
            let together = end.saturating_sub(next) * self.connections() / UNSENT_TOLD_APART + 1;
            while next < end {
                let count = together.min(end - next);
                tally.leave(self.due_on(connection, next, rate), now, count);
                next += count;
            }
        }
    }

    fn connections(&self) -> u64 {
        u64::try_from(self.target.connections).unwrap_or(1)
    }

    pub(crate) fn is_over(&self, now: Moment) -> bool {
        now >= self.window.end
    }

    /// How often a connection is to look for its answer by itself, which is quicker than being told.
    /// Only one that is alone, and has nothing to do until the answer comes.
    pub(crate) fn looks(&self) -> usize {
        let Target { spin, connections, .. } = self.target;
        let looked = self.looked.get().wrapping_add(1) % LOOKS_IN_A_ROW;
        self.looked.set(looked);
        let is_alone = connections == 1 && self.step.rate.is_none();
        if spin && is_alone && looked > 0 { LOOKS } else { 0 }
    }

    /// A connection was lost.
    pub(crate) fn note(&self, failure: Failure) {
        self.first_failure.borrow_mut().get_or_insert(failure);
    }
}

/// What the conductor and a connection tell each other.
#[derive(Default)]
pub(crate) struct Line {
    /// There may be something to do.
    pub(crate) wake: Notify,
    /// How many requests have come due for it.
    pub(crate) arrived: Cell<u64>,
    /// How many requests were sent.
    pub(crate) sent: Cell<u64>,
    /// When the oldest request was sent that was not answered.
    pub(crate) oldest: Cell<Option<Moment>>,
}

/// One connection's part, whatever it is made of.
pub(crate) struct Asker {
    pub(crate) stage: Rc<Stage>,
    pub(crate) line: Rc<Line>,
    /// Which of all connections this is.
    index: u64,
    keys: Keys,
    pub(crate) flight: Flight,
    /// How many were answered.
    pub(crate) answered: u64,
}

impl Asker {
    pub(crate) fn new(stage: &Rc<Stage>, line: &Rc<Line>, index: u64) -> Self {
        let Target { keys, spread, seed, .. } = stage.target;
        Self {
            stage: Rc::clone(stage),
            line: Rc::clone(line),
            index,
            keys: Keys::new(keys, spread, seed_of(seed, index)),
            flight: Flight::new(stage.step.depth),
            answered: 0,
        }
    }

    /// How many requests are to be sent now.
    pub(crate) fn ready(&self, now: Moment) -> usize {
        let Step { depth, rate } = self.stage.step;
        if self.stage.is_over(now) {
            return 0;
        }
        match rate {
            None if self.flight.count() == 0 => depth,
            None => 0,
            Some(_) if self.flight.span() >= SPAN_MAX => 0,
            Some(_) => {
                let waiting = usize::try_from(self.line.arrived.get() - self.line.sent.get());
                let room = depth.saturating_sub(self.flight.count());
                waiting.unwrap_or(usize::MAX).min(room)
            }
        }
    }

    /// The next request, which is sent now.
    pub(crate) fn ask(&mut self, now: Moment) -> Asked {
        let sent = self.line.sent.get();
        let due = match self.stage.step.rate {
            None => now,
            Some(rate) => self.stage.due_on(self.index, sent, rate),
        };
        let (key, cost) = (self.keys.draw(), self.stage.target.door.cost());
        let asked = Asked { due, sent: now, key, cost };
        self.line.sent.set(sent + 1);
        self.stage.tally.borrow_mut().ask(&asked);
        self.flight.push(asked);
        asked
    }

    /// A request that is no longer in flight was answered.
    pub(crate) fn account(&mut self, asked: &Asked, received: Moment, answer: &Answer<'_>) {
        self.answered += 1;
        self.stage.tally.borrow_mut().account(asked, received, answer);
    }

    /// Nobody waits any more for what was sent too long ago.
    pub(crate) fn give_up(&mut self, now: Moment) {
        let until = self.patience(now);
        let Self { flight, stage, .. } = self;
        flight.give_up(until, |asked| stage.tally.borrow_mut().lose(asked));
    }

    /// Nobody waits for any answer any more.
    pub(crate) fn give_up_all(&mut self) {
        let Self { flight, stage, .. } = self;
        flight.clear(|asked| stage.tally.borrow_mut().lose(asked));
    }

    /// Tells the conductor for which request it has to look out.
    pub(crate) fn tell(&self) {
        self.line.oldest.set(self.flight.oldest().map(|asked| asked.sent));
    }

    /// The last moment whose requests are given up.
    fn patience(&self, now: Moment) -> Moment {
        now.before(self.stage.target.timeout)
    }

    /// Whether nobody waits for its next answer any more.
    pub(crate) fn is_late(&self, now: Moment) -> bool {
        self.flight.oldest().is_some_and(|asked| asked.sent <= self.patience(now))
    }

    /// Whether nothing is to be sent or received any more.
    pub(crate) fn is_done(&self, now: Moment) -> bool {
        self.stage.is_over(now) && self.flight.count() == 0
    }
}
