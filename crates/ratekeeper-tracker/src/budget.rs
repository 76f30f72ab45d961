//! One budget: what a server said is left of something, and what that allows.

mod fixed_end;
mod level;
mod untold;
mod whole_seconds;
mod window;

use std::sync::Arc;

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use crate::cost_estimate::{CostEstimate, Payer, Standing};
use crate::dialect::Dialect;
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
    /// Little by little; what is said is when it will be full. Where the answers show that all of
    /// it comes at one moment, they are believed.
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
    /// In which second of the server's clock it was made, where that was read.
    pub(crate) date_secs: Option<u64>,
    /// The longest wait that is believed: after it, one request finds out.
    pub(crate) longest: Length,
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
    /// When an answer comes, or is late: nobody knows how much there is.
    Probing,
    /// When an answer comes, or none has come so long after the patience with the last request, and not
    /// before that moment: it was counted in a window that is over.
    Answered {
        /// How long a window lasts.
        window: Length,
        /// When the window that is known ends.
        from: Moment,
    },
    /// Only when an answer comes.
    Placed,
}

/// One budget of a bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Budget {
    /// The name of its policy, mostly empty.
    #[serde(with = "crate::tracker::text")]
    pub(crate) name: Arc<str>,
    pub(crate) unit: Unit,
    pub(crate) limit: Option<u64>,
    /// What requests take of it that do not say what they cost, once there was one.
    pub(crate) estimate: Option<Box<CostEstimate>>,
    stock: Stock,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
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
        Self { name: Arc::from(told.name), unit: told.unit, limit: None, estimate: None, stock }
    }

    pub(crate) fn is(&self, told: &Told<'_>) -> bool {
        self.unit == told.unit && *self.name == *told.name
    }

    /// Learns what a response says. What is in flight is no longer the request it answers.
    pub(crate) fn learn(
        &mut self,
        told: &Told<'_>,
        cost: u64,
        in_flight: u64,
        heard: &Heard,
        dialect: &mut Dialect,
    ) {
        // A limit of nothing would never let anybody ask again.
        let limit = told.limit.map(|limit| limit.max(1));
        let known = limit.or(self.limit);
        if let Stock::Level(level) = &mut self.stock
            && level.is_window(told, known, heard)
        {
            self.stock = Stock::Window(Window::new(None));
        }
        match &mut self.stock {
            Stock::Window(window) => window.learn(told, known, cost, heard, dialect),
            Stock::Level(level) => level.learn(told, known, cost, heard),
            Stock::Places => {
                let seen = told.remaining.map(|left| left.saturating_add(in_flight).max(1));
                self.limit = limit.or(seen).or(self.limit);
                return;
            }
        }
        self.limit = known;
    }

    /// Learns from a response what its request took.
    #[cold]
    pub(crate) fn learn_cost(&mut self, told: &Told<'_>, payer: Payer, heard: &Heard) {
        let Some(left) = told.remaining else { return };
        let (refill, began) = match &self.stock {
            Stock::Window(window) if !window.is_current(told, heard) => return,
            Stock::Window(window) => (None, window.full_at()),
            Stock::Level(level) => (level.refill(self.limit), Moment::EPOCH),
            Stock::Places => return,
        };
        let standing = Standing { left, limit: self.limit, refill, began };
        self.estimate.get_or_insert_default().learn(payer, &standing, heard);
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
            Stock::Places => Open::Placed,
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

    /// Whatever was said, there is more after the longest wait from now on.
    pub(crate) fn wait_at_most(&mut self, longest: Nanos, now: Moment) {
        match &mut self.stock {
            Stock::Window(window) => window.end_by(now.after(longest)),
            Stock::Level(level) => level.wait_at_most(longest, self.limit, now),
            Stock::Places => {}
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
