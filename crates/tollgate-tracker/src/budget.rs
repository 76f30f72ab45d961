//! One budget: what a server said is left of something, and what that allows.

mod level;
mod untold;
mod window;

use std::sync::Arc;

use tollgate::{Moment, Nanos};

use crate::headers::{Told, Unit};
use crate::length::Length;
use level::Level;
use window::Window;

/// How a budget fills up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// All of it at one moment, which stays the same while the window lasts. Each response then
    /// says the same moment, but for the rounding; the earliest upper bound is the best one.
    Fixed {
        /// How exactly the moment is told.
        precision: Nanos,
    },
    /// All of it at one moment, which may move: the latest that was said counts. Where a server says
    /// only when there is more, as in `RateLimit`, one request finds out how much that is.
    Moving,
    /// Little by little; what is said is when it will be full.
    Continuously,
}

/// When a response was had, and to what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// When its request was allowed to be sent: the server counted it later than this.
    pub(crate) sent: Moment,
    /// When it was received: the server counted it earlier than this.
    pub(crate) now: Moment,
    /// How much sooner than said something may be sent.
    pub(crate) credit: Length,
    /// How long to wait where nothing says how long.
    pub(crate) unsaid: Length,
}

/// What is known of round trips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trip {
    /// How much sooner than said something may be sent.
    pub(crate) credit: Length,
    /// How long an answer usually takes.
    pub(crate) usual: Nanos,
}

/// Whether something may be taken from a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Open {
    /// Now.
    Now,
    /// At that moment, if nothing else happens; and what a server said that was longer than
    /// anybody waits.
    At(Moment, Option<f64>),
    /// Only when an answer comes.
    Answered,
}

/// One budget of a bucket.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// The name of its policy, mostly empty.
    pub(crate) name: Arc<str>,
    pub(crate) unit: Unit,
    pub(crate) limit: Option<u64>,
    stock: Stock,
}

#[derive(Clone, Debug)]
enum Stock {
    Window(Window),
    Level(Level),
    /// As many at the same time as the limit says.
    Places,
}

impl Budget {
    /// A budget of which nothing was said yet.
    pub(crate) fn new(told: &Told<'_>, refill: Refill) -> Self {
        let stock = match (told.unit, refill) {
            (Unit::Concurrent, _) => Stock::Places,
            (_, Refill::Continuously) => Stock::Level(Level::new()),
            (_, Refill::Fixed { precision }) => Stock::Window(Window::new(Some(precision.into()))),
            (_, Refill::Moving) => Stock::Window(Window::new(None)),
        };
        Self { name: Arc::from(told.name), unit: told.unit, limit: None, stock }
    }

    pub(crate) fn is(&self, told: &Told<'_>) -> bool {
        self.unit == told.unit && *self.name == *told.name
    }

    /// Learns what a response says. What is in flight is no longer the request it answers.
    pub(crate) fn learn(&mut self, told: &Told<'_>, cost: u64, in_flight: u64, heard: &Heard) {
        // A limit of nothing would never let anybody ask again.
        let limit = told.limit.map(|limit| limit.max(1));
        let known = limit.or(self.limit);
        match &mut self.stock {
            Stock::Window(window) => window.learn(told, known, cost, heard),
            Stock::Level(level) => level.learn(told, known, cost, heard),
            Stock::Places => {
                let seen = told.remaining.map(|left| left.saturating_add(in_flight).max(1));
                self.limit = limit.or(seen).or(self.limit);
                return;
            }
        }
        self.limit = known;
    }

    /// Learns what a response says that may speak of another budget of that name.
    pub(crate) fn doubt(&mut self, told: &Told<'_>, cost: u64, heard: &Heard) {
        match &mut self.stock {
            Stock::Window(window) => window.doubt(told, self.limit, cost, heard),
            Stock::Level(_) | Stock::Places => self.spend(cost, heard),
        }
    }

    /// A request was counted, or may have been, and its response says nothing of this budget.
    pub(crate) fn spend(&mut self, cost: u64, heard: &Heard) {
        match &mut self.stock {
            Stock::Window(window) => window.spend(cost, self.limit, heard),
            Stock::Level(level) => level.spend(cost, self.limit, heard),
            Stock::Places => {}
        }
    }

    /// Whether `cost` may be taken while `in_flight` is, after `queued` that comes first.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "on the way of every request, and short")]
    pub(crate) fn open(&mut self, cost: u64, in_flight: u64, now: Moment, credit: Length) -> Open {
        match &mut self.stock {
            Stock::Window(window) => window.open(self.limit, cost, in_flight, now, credit),
            Stock::Level(level) => level.open(self.limit, cost, in_flight, now, credit),
            Stock::Places if in_flight < self.limit.unwrap_or(1) => Open::Now,
            Stock::Places => Open::Answered,
        }
    }

    /// When `cost` can be taken if `ahead` is taken first; `None` if only answers can tell.
    pub(crate) fn predict(&self, cost: u64, ahead: u64, now: Moment, trip: Trip) -> Option<Moment> {
        match &self.stock {
            Stock::Window(window) => window.predict(self.limit, cost, ahead, now, trip),
            Stock::Level(level) => level.predict(self.limit, cost, ahead, trip.credit),
            Stock::Places => None,
        }
    }

    /// What the server has left, as far as it said so.
    pub(crate) fn left(&self, now: Moment, credit: Length) -> Option<u64> {
        match &self.stock {
            Stock::Window(window) => window.left(self.limit, now, credit),
            Stock::Level(level) => level.left(self.limit, now, credit),
            Stock::Places => self.limit,
        }
    }

    /// Whether forgetting it loses nothing: all of it is there.
    pub(crate) fn is_full(&self, now: Moment) -> bool {
        let is_counted = !matches!(self.stock, Stock::Places);
        is_counted && self.limit.is_some() && self.left(now, Length::ZERO) == self.limit
    }

    /// When it is full again, if that was said.
    pub(crate) fn reset_at(&self) -> Option<Moment> {
        match &self.stock {
            Stock::Window(window) => window.reset_at(),
            Stock::Level(level) => level.reset_at(),
            Stock::Places => None,
        }
    }
}
