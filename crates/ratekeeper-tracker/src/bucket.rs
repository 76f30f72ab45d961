//! A bucket: the budgets that a group of routes shares, and who holds and wants some of them.

use std::num::NonZeroU64;
use std::sync::Arc;

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::block::{Block, RefusalTerms, WaitBounds};
use crate::budget::{Budget, Heard, Open, Refill, Trip};
use crate::cost_estimate::Payer;
use crate::credit::Credit;
use crate::dialect::Dialect;
use crate::headers::{BUDGETS_MAX, Told, Unit, Wait};
use crate::length::Length;
use crate::lines::Lines;
use crate::refused_limit::RefusedLimit;
use crate::request::{Costs, Hold, Load};
use crate::verdict::Reason;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bucket {
    /// As people know it.
    #[serde(with = "crate::tracker::text")]
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
    #[serde(skip)]
    pub(crate) in_flight: Load,
    pub(crate) refused: RefusedLimit,
    /// When one more may go to find out, if nothing was heard until then.
    another_at: Moment,
    /// Until then there are more budgets than are kept: one request at a time.
    crowded_until: Moment,
    /// Only while somebody waits.
    #[serde(skip)]
    pub(crate) lines: Option<Box<Lines>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Knowledge {
    /// No response was had yet: one request finds out.
    None,
    /// A response was had, and said nothing of limits.
    Free,
    /// The budgets are known.
    Told,
}

/// What a request reserved whose response was had, and for which route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paid {
    pub(crate) hold: Hold,
    pub(crate) route: u64,
    pub(crate) is_refused: bool,
}

/// Why nobody passes, and which budget says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shut {
    pub(crate) reason: Reason,
    /// `None` if only an answer can open it.
    pub(crate) until: Option<Moment>,
    /// When that answer is so late that it is waited for no longer.
    pub(crate) late_at: Option<Moment>,
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
            refused: RefusedLimit::default(),
            another_at: Moment::EPOCH,
            crowded_until: Moment::EPOCH,
            lines: None,
        }
    }

    /// What to reserve for a request of a route: what was said that it costs, and what requests
    /// of the route take of what was not said.
    #[inline]
    pub(crate) fn hold(&self, costs: &Costs, route: u64) -> Hold {
        let mut hold = Hold::new(*costs);
        for budget in &self.budgets {
            // Mostly all is said, or nothing but requests counts.
            if let Some(estimate) = &budget.estimate
                && hold.is_unsaid(budget.unit)
            {
                hold.guess(budget.unit, estimate.of(route));
            }
        }
        hold
    }

    /// Whether a request may go, by this bucket alone; if not, why.
    #[inline]
    pub(crate) fn open(&mut self, hold: &Hold, now: Moment, credit: Length) -> Result<(), Shut> {
        if self.is_open(hold, now, credit) { Ok(()) } else { Err(self.shut(hold, now, credit)) }
    }

    /// Whether a request may go, by this bucket alone.
    #[inline]
    pub(crate) fn is_open(&mut self, hold: &Hold, now: Moment, credit: Length) -> bool {
        self.refused.is_open(now) && self.has_room(hold, now, credit)
    }

    /// Whether there is room for a request, whatever was refused.
    #[inline]
    pub(crate) fn has_room(&mut self, hold: &Hold, now: Moment, credit: Length) -> bool {
        match self.knowledge {
            Knowledge::Told if self.is_crowded(now) && self.in_flight.requests > 0 => false,
            Knowledge::Told => self.budgets.iter_mut().all(|budget| {
                let in_flight = self.in_flight.of(budget.unit);
                let cost = with_margin(budget, hold, &self.in_flight);
                match budget.open(cost, in_flight, now, credit) {
                    Open::Now => true,
                    Open::Probing => self.another_at <= now,
                    Open::Answered { window, from } => {
                        from <= now && self.another_at.after(window.into()) <= now
                    }
                    Open::At(..) | Open::Placed => false,
                }
            }),
            Knowledge::None => self.in_flight.requests == 0 || self.another_at <= now,
            Knowledge::Free => true,
        }
    }

    /// Why a request may not go.
    #[cold]
    fn shut(&mut self, hold: &Hold, now: Moment, credit: Length) -> Shut {
        if let Some(block) = self.refused.block().filter(|block| block.opens_at() > now) {
            return Shut::by_block(block);
        }
        if let Some(until) = self.refused.paced_until(now) {
            return Shut { until: Some(until), ..Shut::until_answered(Reason::Spent) };
        }
        if self.knowledge == Knowledge::None {
            let until = Some(self.another_at);
            return Shut { until, ..Shut::until_answered(Reason::Probing) };
        }
        let mut strictest: Option<Shut> = None;
        for (index, budget) in self.budgets.iter_mut().enumerate() {
            let in_flight = self.in_flight.of(budget.unit);
            let cost = with_margin(budget, hold, &self.in_flight);
            let shut = match budget.open(cost, in_flight, now, credit) {
                Open::Now => continue,
                Open::Probing if self.another_at <= now => continue,
                Open::At(until, truly_secs) => {
                    let shut = Shut::until_answered(Reason::Spent);
                    Shut { until: Some(until), budget: Some(index), truly_secs, ..shut }
                }
                Open::Probing => {
                    let shut = Shut::until_answered(Reason::InFlight);
                    Shut { until: Some(self.another_at), budget: Some(index), ..shut }
                }
                Open::Answered { window, from } => {
                    let late_at = self.another_at.after(window.into()).max(from);
                    if late_at <= now {
                        continue;
                    }
                    let shut = Shut::until_answered(Reason::InFlight);
                    Shut { budget: Some(index), late_at: Some(late_at), ..shut }
                }
                Open::Placed => {
                    Shut { budget: Some(index), ..Shut::until_answered(Reason::InFlight) }
                }
            };
            strictest = Some(strictest.map_or(shut, |other| other.strictest(shut)));
        }
        // There are more budgets than are kept.
        let crowded = self.is_crowded(now) && self.in_flight.requests > 0;
        let late_at = crowded.then_some(self.crowded_until);
        let crowd = Shut { late_at, ..Shut::until_answered(Reason::InFlight) };
        strictest.filter(|_| !crowded).unwrap_or(crowd)
    }

    /// When a request may go that joins the queue now; `None` if only answers can tell.
    pub(crate) fn predict(&self, hold: &Hold, now: Moment, trip: Trip) -> Option<Moment> {
        self.predict_after(|unit| (hold.of(unit), self.waiting(unit)), now, trip)
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
        let mut at = self.refused.predict(costs(Unit::Requests).1, now);
        for budget in &self.budgets {
            let (cost, before) = costs(budget.unit);
            let margin = budget.estimate.as_ref().map_or(0, |estimate| estimate.margin(1));
            let cost = cost.saturating_add(margin);
            let ahead = self.in_flight.of(budget.unit).saturating_add(before);
            at = at.max(budget.predict(cost, ahead, now, trip)?);
        }
        Some(at)
    }

    /// What those cost together who wait.
    pub(crate) fn waiting(&self, unit: Unit) -> u64 {
        self.lines.as_ref().map_or(0, |lines| lines.waiting(unit))
    }

    /// A request is let pass.
    #[inline]
    pub(crate) fn let_pass(&mut self, hold: &Hold, now: Moment, credit: &Credit) {
        if self.knowledge != Knowledge::Free {
            self.another_at = now.after(credit.patience());
        }
        self.refused.let_pass(self.in_flight.requests, now, credit.patience());
        self.in_flight.add(hold);
    }

    /// A request that was let pass was not sent.
    pub(crate) fn give_back(&mut self, hold: &Hold, sent: Moment) {
        self.land(hold, sent);
        self.refused.give_back(sent);
    }

    /// A request is no longer in flight.
    #[inline]
    pub(crate) fn land(&mut self, hold: &Hold, sent: Moment) {
        self.in_flight.remove(hold);
        for budget in &mut self.budgets {
            if let Some(estimate) = &mut budget.estimate {
                estimate.land(sent);
            }
        }
    }

    /// A request was refused; `learns` if the limit may be one that shows in nothing else.
    pub(crate) fn refuse(
        &mut self,
        refused: RefusalTerms,
        learns: bool,
        heard: &Heard,
        bounds: WaitBounds,
    ) {
        let (at, in_flight) = ((heard.sent, heard.now), self.in_flight.requests);
        self.refused.refuse(refused, learns, at, in_flight, bounds);
    }

    /// Whether nothing was taken of any budget: the next request begins their windows.
    pub(crate) fn is_untouched(&self, now: Moment) -> bool {
        self.in_flight.requests == 0 && self.budgets.iter().all(|budget| budget.is_full(now))
    }

    /// Learns what a response says of its budgets, and counts what it does not speak of.
    pub(crate) fn learn(
        &mut self,
        told: &[Told<'_>],
        payer: &Paid,
        refill: Refill,
        heard: &Heard,
        dialect: &mut Dialect,
    ) {
        let mut learnt = 0;
        let hold = &payer.hold;
        let is_other_spent = |than: &Told<'_>| {
            let is_other = |it: &Told<'_>| (it.unit, it.name) != (than.unit, than.name);
            told.iter().any(|it| it.remaining == Some(0) && is_other(it))
        };
        for told in told.iter().filter(|told| told.remaining.or(told.limit).is_some()) {
            let (cost, in_flight) = (hold.of(told.unit), self.in_flight.of(told.unit));
            let known = self.budgets.iter().position(|budget| budget.is(told));
            let known = known.or_else(|| self.add(told, refill, heard.now));
            if let Some(budget) = known.and_then(|place| self.budgets.get_mut(place)) {
                budget.learn(told, cost, in_flight, heard, dialect);
                learnt += 1;
                if budget.estimate.is_some() || hold.is_unsaid(told.unit) {
                    let is_stated = !hold.is_unsaid(told.unit);
                    let in_flight = self.in_flight.requests;
                    let Paid { route, is_refused, .. } = *payer;
                    let may_lack = is_refused && !is_other_spent(told);
                    let payer = Payer { route, is_stated, is_refused, may_lack, in_flight };
                    budget.learn_cost(told, payer, heard);
                }
            } else {
                self.crowd(told, heard);
            }
        }
        // Mostly a response speaks of all of them.
        if learnt < self.budgets.len() {
            for budget in &mut self.budgets {
                if !told.iter().any(|told| budget.is(told)) {
                    budget.spend(hold.of(budget.unit), heard);
                }
            }
        }
    }

    /// Learns what a response says that may speak of this bucket, or of another.
    pub(crate) fn doubt(&mut self, told: &[Told<'_>], hold: &Hold, heard: &Heard) {
        for budget in &mut self.budgets {
            let cost = hold.of(budget.unit);
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
        let until = heard.now.after(wait.length.min(heard.longest.into()));
        self.crowded_until = self.crowded_until.max(until);
        if told.remaining == Some(0) {
            let truly_secs = wait.truly_secs_beyond(heard.longest.into());
            self.refused.shut(heard.now, until, truly_secs);
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

    /// Whatever was said, one more request may find out after the longest wait from now on.
    pub(crate) fn wait_at_most(&mut self, longest: Nanos, now: Moment) {
        self.crowded_until = self.crowded_until.min(now.after(longest));
        self.budgets.iter_mut().for_each(|budget| budget.wait_at_most(longest, now));
        self.refused.wait_at_most(longest, now);
    }

    /// Forgets what refusals have said as well.
    pub(crate) fn forget(&mut self) {
        self.begin_anew();
        self.refused = RefusedLimit::default();
    }

    /// Counts a request that may have been sent and will not be answered.
    pub(crate) fn lose(&mut self, hold: &Hold, heard: &Heard) {
        self.land(hold, heard.sent);
        self.refused.lose(heard.sent);
        for budget in &mut self.budgets {
            budget.spend(hold.of(budget.unit), heard);
        }
    }

    /// Whether forgetting it lets nobody send more than is allowed. A bucket that is forgotten
    /// is asked about by one request; so it may go if one may pass.
    pub(crate) fn is_idle(&self, now: Moment) -> bool {
        let is_spent = |budget: &Budget| budget.left(now, Length::ZERO) == Some(0);
        self.in_flight.requests == 0
            && self.lines.is_none()
            && self.refused.is_open(now)
            && !self.budgets.iter().any(is_spent)
    }
}

/// What a request may take of a budget, if it and others that are in flight take more than is
/// reserved for them.
#[inline]
fn with_margin(budget: &Budget, hold: &Hold, in_flight: &Load) -> u64 {
    let cost = hold.of(budget.unit);
    budget.estimate.as_ref().map_or(cost, |estimate| {
        let guessed = in_flight.guessed(budget.unit) + u64::from(hold.is_guessed(budget.unit));
        cost.saturating_add(estimate.margin(guessed))
    })
}

impl Shut {
    fn by_block(block: &Block) -> Self {
        let (until, truly_secs) = (Some(block.opens_at()), block.truly_secs);
        Self { until, truly_secs, ..Self::until_answered(Reason::Refused) }
    }

    const fn until_answered(reason: Reason) -> Self {
        Self { reason, until: None, late_at: None, budget: None, truly_secs: None }
    }

    fn strictest(self, other: Self) -> Self {
        match (self.until, other.until) {
            (Some(known), Some(until)) if until > known => other,
            (Some(_), None) => other,
            _ => self,
        }
    }
}
