//! A bucket: the budgets that a group of routes shares, and who holds and wants some of them.

use std::num::NonZeroU64;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::Moment;

use crate::arena::Slot;
use crate::budget::{Budget, Heard, Open, Refill, Trip};
use crate::headers::{BUDGETS_MAX, Scope, Told, Unit, Wait};
use crate::length::Length;
use crate::request::{Costs, Load};
use crate::verdict::Reason;

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// As people know it.
    pub(crate) name: Arc<str>,
    /// The key under which it is known, once the server has named it.
    pub(crate) named: Option<NonZeroU64>,
    /// The same of the name before, if there was one.
    pub(crate) was_named: Option<NonZeroU64>,
    /// When it got that name. Responses to requests sent before may speak of another.
    pub(crate) named_at: Moment,
    knowledge: Knowledge,
    /// Mostly one.
    pub(crate) budgets: SmallVec<[Budget; 1]>,
    pub(crate) in_flight: Load,
    pub(crate) block: Option<Block>,
    /// Until then there are more budgets than are kept: one request at a time.
    crowded_until: Moment,
    /// Refusals one after the other that did not say for how long.
    pub(crate) strikes: u32,
    /// Only while somebody waits.
    pub(crate) line: Option<Box<Line>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// No response was had yet: one request finds out.
    None,
    /// A response was had, and said nothing of limits.
    Free,
    /// The budgets are known.
    Told,
}

/// Nobody may pass until then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) until: Moment,
    pub(crate) truly_secs: Option<f64>,
    pub(crate) scope: Scope,
}

/// Those who wait, the first and the last, and where the bucket stands among the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) first: Option<Slot>,
    pub(crate) last: Option<Slot>,
    pub(crate) waiting: Load,
    pub(crate) stand: Stand,
}

/// Where a bucket that somebody waits for stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Nobody waits.
    #[default]
    Empty,
    /// An answer must come first.
    Aside,
    /// Its first may go as soon as the limits on everything allow; by the number of its ticket.
    Ready { number: u64, exempt: bool },
    /// At that moment.
    Timed(Moment),
}

/// Why nobody passes, and which budget says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shut {
    pub(crate) reason: Reason,
    /// `None` if only an answer can open it.
    pub(crate) until: Option<Moment>,
    pub(crate) budget: Option<usize>,
    pub(crate) truly_secs: Option<f64>,
}

impl Bucket {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            named: None,
            was_named: None,
            named_at: Moment::EPOCH,
            knowledge: Knowledge::None,
            budgets: SmallVec::new(),
            in_flight: Load::default(),
            block: None,
            crowded_until: Moment::EPOCH,
            strikes: 0,
            line: None,
        }
    }

    /// Whether a request may go, by this bucket alone; if not, why.
    #[inline]
    pub(crate) fn open(&mut self, costs: &Costs, now: Moment, credit: Length) -> Result<(), Shut> {
        if self.is_open(costs, now, credit) { Ok(()) } else { Err(self.shut(costs, now, credit)) }
    }

    /// Whether a request may go, by this bucket alone.
    #[inline]
    pub(crate) fn is_open(&mut self, costs: &Costs, now: Moment, credit: Length) -> bool {
        if let Some(block) = &self.block {
            if block.until > now {
                return false;
            }
            self.block = None;
        }
        match self.knowledge {
            Knowledge::Told if self.is_crowded(now) && self.in_flight.requests > 0 => false,
            Knowledge::Told => self.budgets.iter_mut().all(|budget| {
                let (cost, in_flight) = (costs.of(budget.unit), self.in_flight.of(budget.unit));
                budget.open(cost, in_flight, now, credit) == Open::Now
            }),
            Knowledge::None => self.in_flight.requests == 0,
            Knowledge::Free => true,
        }
    }

    /// Why a request may not go.
    #[cold]
    fn shut(&mut self, costs: &Costs, now: Moment, credit: Length) -> Shut {
        if let Some(Block { until, truly_secs, .. }) = self.block {
            return Shut {
                until: Some(until),
                truly_secs,
                ..Shut::until_answered(Reason::Refused)
            };
        }
        if self.knowledge == Knowledge::None {
            return Shut::until_answered(Reason::Probing);
        }
        let mut strictest: Option<Shut> = None;
        for (index, budget) in self.budgets.iter_mut().enumerate() {
            let in_flight = self.in_flight.of(budget.unit);
            let shut = match budget.open(costs.of(budget.unit), in_flight, now, credit) {
                Open::Now => continue,
                Open::At(until, truly_secs) => {
                    let shut = Shut::until_answered(Reason::Spent);
                    Shut { until: Some(until), budget: Some(index), truly_secs, ..shut }
                }
                Open::Answered => {
                    Shut { budget: Some(index), ..Shut::until_answered(Reason::InFlight) }
                }
            };
            strictest = Some(strictest.map_or(shut, |other| other.strictest(shut)));
        }
        // There are more budgets than are kept.
        let crowded = self.is_crowded(now) && self.in_flight.requests > 0;
        strictest.filter(|_| !crowded).unwrap_or(Shut::until_answered(Reason::InFlight))
    }

    /// When a request may go that joins the queue now; `None` if only answers can tell.
    pub(crate) fn predict(&self, costs: &Costs, now: Moment, trip: Trip) -> Option<Moment> {
        self.predict_after(|unit| (costs.of(unit), self.waiting(unit)), now, trip)
    }

    /// When the one may go that has so many before it in line; all are taken to cost the same.
    pub(crate) fn predict_nth(&self, nth: u64, now: Moment, trip: Trip) -> Option<Moment> {
        let requests = self.waiting(Unit::Requests).max(1);
        let cost = |unit| self.waiting(unit) / requests;
        self.predict_after(|unit| (cost(unit), cost(unit).saturating_mul(nth)), now, trip)
    }

    /// When something may go, by what it costs and what goes before it.
    fn predict_after(
        &self,
        costs: impl Fn(Unit) -> (u64, u64),
        now: Moment,
        trip: Trip,
    ) -> Option<Moment> {
        let one_by_one = self.knowledge == Knowledge::None || self.is_crowded(now);
        let requests_before = self.in_flight.requests.saturating_add(costs(Unit::Requests).1);
        if one_by_one && requests_before > 0 {
            return None;
        }
        let mut at = self.block.map_or(now, |block| block.until.max(now));
        for budget in &self.budgets {
            let (cost, before) = costs(budget.unit);
            let ahead = self.in_flight.of(budget.unit).saturating_add(before);
            at = at.max(budget.predict(cost, ahead, now, trip)?);
        }
        Some(at)
    }

    /// What those cost together who wait.
    pub(crate) fn waiting(&self, unit: Unit) -> u64 {
        self.line.as_ref().map_or(0, |line| line.waiting.of(unit))
    }

    /// Who is first in line, if anybody waits.
    pub(crate) fn first(&self) -> Option<Slot> {
        self.line.as_ref()?.first
    }

    /// Whether nothing was taken of any budget: the next request begins their windows.
    pub(crate) fn is_untouched(&self, now: Moment) -> bool {
        self.in_flight.requests == 0 && self.budgets.iter().all(|budget| budget.is_full(now))
    }

    /// Learns what a response says of its budgets, and counts what it does not speak of.
    pub(crate) fn learn(
        &mut self,
        told: &[Told<'_>],
        costs: &Costs,
        refill: Refill,
        heard: &Heard,
    ) {
        let mut learnt = 0;
        for told in told.iter().filter(|told| told.remaining.or(told.limit).is_some()) {
            let (cost, in_flight) = (costs.of(told.unit), self.in_flight.of(told.unit));
            let known = self.budgets.iter().position(|budget| budget.is(told));
            let known = known.or_else(|| self.add(told, refill, heard.now));
            if let Some(budget) = known.and_then(|place| self.budgets.get_mut(place)) {
                budget.learn(told, cost, in_flight, heard);
                learnt += 1;
            } else {
                self.crowd(told, heard);
            }
        }
        // Mostly a response speaks of all of them.
        if learnt < self.budgets.len() {
            for budget in &mut self.budgets {
                if !told.iter().any(|told| budget.is(told)) {
                    budget.spend(costs.of(budget.unit), heard);
                }
            }
        }
    }

    /// Learns what a response says that may speak of this bucket, or of another.
    pub(crate) fn doubt(&mut self, told: &[Told<'_>], costs: &Costs, heard: &Heard) {
        for budget in &mut self.budgets {
            let cost = costs.of(budget.unit);
            match told.iter().find(|told| budget.is(told)) {
                Some(told) => budget.doubt(told, cost, heard),
                None => budget.spend(cost, heard),
            }
        }
    }

    /// Makes room for a budget that was not told of before. Where there are [`BUDGETS_MAX`], one
    /// that is full again makes way; where none is, there is no room.
    #[cold]
    fn add(&mut self, told: &Told<'_>, refill: Refill, now: Moment) -> Option<usize> {
        self.knowledge = Knowledge::Told;
        let budget = Budget::new(told, refill);
        if self.budgets.len() < BUDGETS_MAX {
            self.budgets.push(budget);
            return Some(self.budgets.len() - 1);
        }
        let index = self.budgets.iter().position(|budget| budget.is_full(now))?;
        self.budgets[index] = budget;
        Some(index)
    }

    /// There is a budget of which no account can be kept. Until its reset each answer is waited for,
    /// which tells whether one more may go.
    #[cold]
    fn crowd(&mut self, told: &Told<'_>, heard: &Heard) {
        let length = told.window.unwrap_or(heard.unsaid.into());
        let wait = told.reset_in.unwrap_or(Wait { length, truly_secs: None });
        let until = heard.now.after(wait.length);
        self.crowded_until = self.crowded_until.max(until);
        if told.remaining == Some(0) {
            self.block(Block { until, truly_secs: wait.truly_secs, scope: Scope::User });
        }
    }

    fn is_crowded(&self, now: Moment) -> bool {
        self.crowded_until > now
    }

    /// The server answered and said nothing of limits.
    pub(crate) fn is_free(&mut self) {
        if self.knowledge == Knowledge::None {
            self.knowledge = Knowledge::Free;
        }
    }

    /// Forgets what the server said, which now counts anew; what is in flight stays so.
    pub(crate) fn begin_anew(&mut self) {
        self.budgets.clear();
        self.crowded_until = Moment::EPOCH;
        self.knowledge = Knowledge::None;
    }

    /// Counts a request that may have been sent and will not be answered.
    pub(crate) fn lose(&mut self, costs: &Costs, heard: &Heard) {
        for budget in &mut self.budgets {
            budget.spend(costs.of(budget.unit), heard);
        }
    }

    pub(crate) fn block(&mut self, block: Block) {
        self.block = Some(block.or_longer(self.block));
    }

    /// Whether forgetting it lets nobody send more than is allowed. A bucket that is forgotten
    /// is asked about by one request; so it may go if one may pass.
    pub(crate) fn is_idle(&self, now: Moment) -> bool {
        let is_spent = |budget: &Budget| budget.left(now, Length::ZERO) == Some(0);
        self.in_flight.requests == 0
            && self.line.is_none()
            && self.block.is_none_or(|block| block.until <= now)
            && !self.budgets.iter().any(is_spent)
    }
}

impl Block {
    /// The longer of this one and one that is there.
    pub(crate) fn or_longer(self, known: Option<Self>) -> Self {
        known.filter(|known| known.until >= self.until).unwrap_or(self)
    }
}

impl Shut {
    const fn until_answered(reason: Reason) -> Self {
        Self { reason, until: None, budget: None, truly_secs: None }
    }

    fn strictest(self, other: Self) -> Self {
        match (self.until, other.until) {
            (Some(known), Some(until)) if until > known => other,
            (Some(_), None) => other,
            _ => self,
        }
    }
}
