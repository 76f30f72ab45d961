//! Named limits: their buckets in Redis, and what is done while Redis is away.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use ratekeeper::algorithm::Algorithm as _;
use ratekeeper::algorithm::book::{self, Action, Book, BucketCell, Gcra};
use ratekeeper::algorithm::gcra::{Outcome, Verdict};
use ratekeeper::store::shared::{BucketNames, OnFailure, SharedStore, Sharing, Visit, Visiting};
use ratekeeper::store::{Fingerprint, MemoryStore, Question, Store as _};
use ratekeeper::{Moment, Nanos};

use super::Home;
use super::health::add;
use super::lease::{Leases, Take};
use super::rules::{Known, Rules};
use crate::bucket::{Answer, Ask};
use crate::failure::Failure;
use crate::link;

/// How many buckets are remembered whose rule has changed.
const MOVED_MAX: usize = ratekeeper::limits::OVERRIDES_MAX;
/// What who is denied because Redis is away is told to wait: by then it is known to be back.
const AWAY: Nanos = Nanos::from_secs(1);
/// What who is denied because other transactions hold the bucket is told to wait: a few of them.
const HELD: Nanos = Nanos::new(100_000_000);

/// The buckets of named limits.
pub(super) struct Buckets {
    home: Arc<Home>,
    rules: ArcSwap<Rules>,
    /// Since when buckets have another rule than before, other than by a new default.
    moved: RwLock<HashMap<Fingerprint, Moment>>,
    leases: Leases,
    /// By how many nanoseconds the clock of Redis is ahead of ours, as far as is known.
    ahead: AtomicI64,
}

impl SharedStore<Gcra> for Buckets {
    fn decide<'a>(&'a self, visit: Visit<'a, Gcra>) -> Visiting<'a> {
        Box::pin(self.visit(visit))
    }

    fn install(&self, book: &Arc<Book>, at: Moment) {
        self.home.denials.install(book);
        self.rules.store(Arc::new(self.rules.load().next(book, at)));
    }

    /// Nobody is asked: each is carried over in Redis by the first ask of it, as of `at`.
    fn carry_over(&self, _: &[Question<Gcra>], names: &BucketNames, at: Moment) {
        let denials = &self.home.denials;
        denials.carry_over(at);
        let mut moved = self.moved.write();
        if moved.len().saturating_add(names.len()) > MOVED_MAX {
            moved.clear();
        }
        for (name, _) in names.iter().filter(|(name, _)| !name.is_empty()).take(MOVED_MAX) {
            moved.insert(denials.seal.fingerprint(name), at);
            denials.forget(name);
        }
    }
}

impl Buckets {
    pub(super) fn new(home: Arc<Home>) -> Self {
        let (rules, moved) = (ArcSwap::default(), RwLock::default());
        Self { home, rules, moved, leases: Leases::new(), ahead: AtomicI64::new(0) }
    }

    async fn visit(&self, visit: Visit<'_, Gcra>) {
        let Visit { local, questions, names, outcomes, now } = visit;
        let rules = self.rules.load_full();
        let names: Vec<(&[u8], Sharing)> = names.iter().collect();
        let (store, rules) = (self, &*rules);
        let mut stay = Stay { store, rules, local, questions, names, outcomes, now };
        let mut trip = Trip::default();
        // Asks of buckets that this visit is taking tokens of in advance.
        let mut behind = Vec::new();
        for place in transactions(questions) {
            stay.plan(place, &mut trip, &mut behind);
        }
        // Tokens that cannot be taken in advance make for a second trip.
        let within = self.home.left() / if trip.leased.is_empty() { 1 } else { 2 };
        let mut again = stay.go(trip, within).await;
        behind.retain(|place: &Range<usize>| !stay.take_leased(place.start));
        again.append(&mut behind);
        let mut trip = Trip::default();
        for place in again {
            stay.add(place, None, &mut trip);
        }
        // Nothing is taken in advance now, so nothing is left to be asked again.
        stay.go(trip, within).await;
    }

    /// Since when a rule is in force for a bucket, by our clock.
    fn since(&self, bucket: &[u8], known: &Known) -> Moment {
        let moved = self.moved.read();
        if moved.is_empty() {
            return known.since;
        }
        let moved = moved.get(&self.home.denials.seal.fingerprint(bucket));
        moved.map_or(known.since, |&at| at.max(known.since))
    }

    /// A moment of ours by the clock of Redis.
    fn there(&self, moment: Moment) -> Moment {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let length = Nanos::new(ahead.unsigned_abs().into());
        if ahead < 0 { moment.before(length) } else { moment.after(length) }
    }
}

/// What goes to Redis in one trip.
#[derive(Default)]
struct Trip<'a> {
    asks: Vec<Ask<'a>>,
    /// The rule of each, and how often something of its bucket had been forgotten before.
    rules: Vec<(&'a Known, u64)>,
    errands: Vec<Errand>,
    /// The buckets that tokens are taken of in advance.
    leased: Vec<&'a [u8]>,
    /// The buckets that tokens are given back to.
    given: HashSet<Fingerprint>,
}

/// One transaction of a trip.
struct Errand {
    /// Where it is in the visit.
    place: Range<usize>,
    /// How many tokens it takes, if more than it is asked for.
    lease: Option<u64>,
}

/// What a visit has at hand.
struct Stay<'a> {
    store: &'a Buckets,
    rules: &'a Rules,
    local: &'a MemoryStore<Gcra>,
    questions: &'a [Question<Gcra>],
    names: Vec<(&'a [u8], Sharing)>,
    outcomes: &'a mut [Outcome],
    now: Moment,
}

impl<'a> Stay<'a> {
    /// Answers a transaction by what is known, or adds it to the trip, or to those that come behind.
    fn plan(&mut self, place: Range<usize>, trip: &mut Trip<'a>, behind: &mut Vec<Range<usize>>) {
        let (name, sharing) = self.names[place.start];
        if name.is_empty() {
            // A mistake. What was answered in its place before is not to be taken for its answer.
            return self.outcomes[place].fill(Outcome::default());
        }
        let [question] = &self.questions[place.clone()] else {
            return self.add(place, None, trip);
        };
        let home = &self.store.home;
        let bucket = home.denials.seal.fingerprint(name);
        if matches!(question.ask.action, Action::Refund | Action::Reset) {
            trip.given.insert(bucket);
        }
        if trip.given.contains(&bucket) {
            // What is known of it is known of the time before.
            if trip.leased.contains(&name) {
                return behind.push(place);
            }
            return self.add(place, None, trip);
        }
        let leasable = self.leasable(&question.ask, sharing);
        let take = leasable.map_or(Take::Exact, |(most, length)| {
            self.store.leases.take(bucket, question.ask.cost, most, length, self.now)
        });
        // Tokens that were taken are there, even if the bucket has no more.
        if let Take::Here(left) = take {
            return self.pass(place.start, left);
        }
        if let Some(outcome) = home.denials.find(bucket, &question.ask, self.now) {
            if matches!(take, Take::Fetch(_)) {
                self.store.leases.postpone(bucket);
            }
            self.outcomes[place.start] = outcome;
            return add(&home.tally.remembered, 1);
        }
        match take {
            Take::Fetch(size) => self.add(place, Some(size), trip),
            _ if leasable.is_some() && trip.leased.contains(&name) => behind.push(place),
            _ => self.add(place, None, trip),
        }
    }

    /// How many tokens may be taken in advance for an ask, and for how long.
    fn leasable(&self, ask: &book::Ask, sharing: Sharing) -> Option<(u64, Nanos)> {
        let length = sharing.lease?;
        if ask.action != Action::CheckAndSpend || ask.cost == 0 {
            return None;
        }
        let most = sharing.leased(&self.rules.in_force(ask.rule)?.rule);
        (most > ask.cost).then_some((most, length))
    }

    /// Answers an ask from a lease, if there is enough of it.
    fn take_leased(&mut self, place: usize) -> bool {
        let (question, (name, sharing)) = (&self.questions[place], self.names[place]);
        let Some((most, length)) = self.leasable(&question.ask, sharing) else { return false };
        let bucket = self.store.home.denials.seal.fingerprint(name);
        match self.store.leases.take(bucket, question.ask.cost, most, length, self.now) {
            Take::Here(left) => {
                self.pass(place, left);
                true
            }
            Take::Fetch(_) => {
                self.store.leases.postpone(bucket);
                false
            }
            Take::Exact => false,
        }
    }

    /// Allows an ask from a lease, of which so many tokens are left. What is left of the bucket
    /// besides is as this process knows it.
    fn pass(&mut self, place: usize, left: u64) {
        let question = self.questions[place];
        let ask = book::Ask { action: Action::CheckOnly, cost: 0, ..question.ask };
        let mut outcome = [Outcome::default()];
        self.local.decide(&[Question { ask, ..question }], &mut outcome, self.now);
        let [outcome] = outcome;
        let remaining = outcome.remaining.saturating_add(left);
        self.outcomes[place] =
            Outcome { verdict: Verdict::Allow, remaining, retry_in: Nanos::ZERO, ..outcome };
        add(&self.store.home.tally.leased, 1);
    }

    /// Adds a transaction to a trip, unless Redis cannot count one of its rules.
    fn add(&mut self, place: Range<usize>, lease: Option<u64>, trip: &mut Trip<'a>) {
        let before = trip.asks.len();
        for index in place.clone() {
            let book::Ask { rule, action, is_shadow, cost } = self.questions[index].ask;
            let known = self.rules.in_force(rule).and_then(|it| Some((it, it.in_redis.as_ref()?)));
            let Some((known, rule)) = known else {
                trip.asks.truncate(before);
                trip.rules.truncate(before);
                return self.instead(place, false);
            };
            let bucket = self.names[index].0;
            let since = self.store.there(self.store.since(bucket, known));
            let (cost, joined) = (lease.unwrap_or(cost), index > place.start);
            trip.asks.push(Ask { bucket, rule, since, action, is_shadow, cost, joined });
            let denials = &self.store.home.denials;
            let bucket = denials.seal.fingerprint(bucket);
            trip.rules.push((known, denials.forgotten(bucket)));
        }
        if lease.is_some() {
            trip.leased.push(self.names[place.start].0);
        }
        trip.errands.push(Errand { place, lease });
    }

    /// Asks Redis. Returns what is to be asked again, because tokens could not be taken in advance.
    async fn go(&mut self, trip: Trip<'a>, within: Duration) -> Vec<Range<usize>> {
        let mut again = Vec::new();
        if trip.asks.is_empty() {
            return again;
        }
        let mut answers = Vec::new();
        match self.store.home.link() {
            // Whatever was sent now would come too late.
            _ if within.is_zero() => answers.resize(trip.asks.len(), Err(Failure::Timeout)),
            Ok(link) => {
                add(&self.store.home.tally.trips, 1);
                link.gcra(&trip.asks, &link::Visit::within(within), &mut answers).await;
            }
            Err(error) => answers.resize(trip.asks.len(), Err(Failure::Refused(error.to_string()))),
        }
        let (mut first, mut is_well) = (0, true);
        for Errand { place, lease } in trip.errands {
            let range = first..first + place.len();
            first = range.end;
            let answered: Result<Vec<Answer>, &Failure> =
                answers[range.clone()].iter().map(|it| it.as_ref().copied()).collect();
            match (answered, lease) {
                (Ok(answered), None) => self.settle(place, &trip.rules[range], &answered),
                (Ok(answered), Some(size)) => {
                    let (known, _) = trip.rules[range.start];
                    if !self.settle_lease(place.start, size, known, &answered) {
                        again.push(place);
                    }
                }
                (Err(failure), lease) => {
                    is_well = false;
                    if lease.is_some() {
                        let name = self.names[place.start].0;
                        let bucket = self.store.home.denials.seal.fingerprint(name);
                        self.store.leases.refused(bucket);
                    }
                    self.without(failure, place);
                }
            }
        }
        if is_well {
            self.store.home.tally.succeeded(self.now);
        }
        again
    }

    /// Takes Redis at its word.
    fn settle(&mut self, place: Range<usize>, rules: &[(&Known, u64)], answers: &[Answer]) {
        for (outcome, answer) in self.outcomes[place.clone()].iter_mut().zip(answers) {
            *outcome = answer.outcome;
        }
        add(&self.store.home.tally.decided, place.len());
        self.learn(place, rules, answers);
    }

    /// Whether tokens could be taken in advance; then the ask has passed.
    fn settle_lease(&mut self, place: usize, size: u64, known: &Known, answers: &[Answer]) -> bool {
        let (question, (name, sharing)) = (self.questions[place], self.names[place]);
        let home = &self.store.home;
        let bucket = home.denials.seal.fingerprint(name);
        let Some(Answer { outcome, hidden, .. }) = answers.first().copied() else { return false };
        if outcome.verdict != Verdict::Allow {
            self.store.leases.refused(bucket);
            return false;
        }
        let length = sharing.lease.unwrap_or_default();
        let left = self.store.leases.granted(bucket, size, question.ask.cost, length, self.now);
        let cell = BucketCell::filling(known.id, &known.rule, outcome.reset_in, hidden, self.now);
        self.local.learn(question.bucket, Some(cell), self.now);
        add(&home.tally.decided, 1);
        let remaining = outcome.remaining.saturating_add(left);
        self.outcomes[place] = Outcome { remaining, retry_in: Nanos::ZERO, ..outcome };
        true
    }

    /// Decides a transaction that Redis did not answer.
    fn without(&mut self, failure: &Failure, place: Range<usize>) {
        self.store.home.tally.failed(failure, self.now);
        self.instead(place, *failure == Failure::Held);
    }

    /// Decides a transaction without Redis. The strictest of its limits says how; unless Redis
    /// answers, but others are in the way: then the tokens they hold would be spent twice.
    fn instead(&mut self, place: Range<usize>, is_held: bool) {
        let named = &self.names[place.clone()];
        let says = |what| named.iter().any(|(_, sharing)| sharing.on_failure == what);
        let what = if is_held || says(OnFailure::Deny) {
            OnFailure::Deny
        } else if says(OnFailure::Local) {
            OnFailure::Local
        } else {
            OnFailure::Allow
        };
        self.store.home.tally.instead(what, place.len());
        let questions = &self.questions[place.clone()];
        if what == OnFailure::Local {
            return self.local.decide(questions, &mut self.outcomes[place], self.now);
        }
        for (question, index) in questions.iter().zip(place) {
            let wait = if is_held { HELD } else { AWAY };
            self.outcomes[index] = self.guess(&question.ask, what == OnFailure::Allow, wait);
        }
    }

    /// An answer that does not look at the bucket.
    fn guess(&self, ask: &book::Ask, is_allowed: bool, wait: Nanos) -> Outcome {
        let burst = self.rules.in_force(ask.rule).map_or(0, |known| known.rule.burst());
        if ask.cost > burst && ask.action != Action::Reset {
            return Outcome { verdict: Verdict::Never, ..Outcome::default() };
        }
        if is_allowed {
            let remaining = burst.saturating_sub(ask.cost);
            return Outcome { verdict: Verdict::Allow, remaining, ..Outcome::default() };
        }
        Outcome { verdict: Verdict::Deny, remaining: 0, retry_in: wait, reset_in: wait }
    }

    /// Keeps in mind what Redis said, for when it is away, and denials for as long as they last.
    fn learn(&self, place: Range<usize>, rules: &[(&Known, u64)], answers: &[Answer]) {
        let denials = &self.store.home.denials;
        let questions = &self.questions[place.clone()];
        let mut asked = questions.iter().zip(answers);
        let is_vetoed = asked.any(|(it, answer)| Gcra::vetoes(&it.ask, &answer.outcome));
        let asked = questions.iter().zip(rules).zip(answers).zip(place);
        for (((question, (known, forgotten)), answer), index) in asked {
            let Answer { outcome, is_held, hidden, .. } = *answer;
            let (name, full_in) = (self.names[index].0, outcome.reset_in);
            let is_denied = outcome.verdict == Verdict::Deny;
            let gives = matches!(question.ask.action, Action::Refund | Action::Reset);
            let takes = matches!(question.ask.action, Action::CheckAndSpend | Action::SpendOnly);
            let cell = BucketCell::filling(known.id, &known.rule, full_in, hidden, self.now);
            // What an ask that changed nothing is told of the time after it, is not so.
            if is_denied || !is_vetoed && (gives || takes) || question.ask.cost == 0 {
                let cell = (!full_in.is_zero() || hidden > 0).then_some(cell);
                self.local.learn(question.bucket, cell, self.now);
            }
            if gives && !is_vetoed {
                denials.forget(name);
                self.store.leases.forget(denials.seal.fingerprint(name));
            } else if is_denied && !gives && !is_held {
                denials.remember(name, cell, *forgotten, self.now);
            }
        }
        if let Some(answer) = answers.first() {
            let nanos = |moment: Moment| i64::try_from(moment.as_nanos()).unwrap_or(i64::MAX);
            let ahead = nanos(answer.now).saturating_sub(nanos(self.now));
            self.store.ahead.store(ahead, Ordering::Relaxed);
        }
    }
}

/// Where each transaction is.
fn transactions(questions: &[Question<Gcra>]) -> impl Iterator<Item = Range<usize>> {
    let mut first = 0;
    questions.chunk_by(|_, next| next.joined).map(move |chunk| {
        let place = first..first + chunk.len();
        first = place.end;
        place
    })
}
