//! Named limits: their buckets in Redis, the denials that are remembered, and what is done while
//! Redis is away.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::RwLock;
use tollgate::algorithm::Algorithm as _;
use tollgate::algorithm::book::{self, Action, Book, BucketCell, Gcra};
use tollgate::algorithm::gcra::{Outcome, Verdict};
use tollgate::store::shared::{Names, OnFailure, Sharing, SharedStore, Visit, Visiting};
use tollgate::store::{Fingerprint, MemoryStore, Question, Secret, Store as _};
use tollgate::{Moment, Nanos};

use super::Home;
use super::health::add;
use super::rules::{Known, Rules};
use crate::bucket::{Answer, Ask};
use crate::failure::Failure;
use crate::link;

/// How much memory remembered denials take at most: enough for 300,000.
const DENIALS_BYTES: usize = 16 << 20;
/// How many buckets are remembered whose rule has changed.
const MOVED_MAX: usize = tollgate::limits::OVERRIDES_MAX;
/// What who is denied because Redis is away is told to wait: by then it is known to be back.
const AWAY: Nanos = Nanos::from_secs(1);

/// Buckets that are known to be empty. While one is, nobody need ask for it: a denial changes
/// nothing, and nobody but a refund, a reset or a new limit makes it end earlier.
pub(super) struct Denials {
    secret: Secret,
    cells: ArcSwap<MemoryStore<Gcra>>,
    book: ArcSwap<Book>,
    /// How often something was forgotten. What was under way meanwhile may be out of date.
    forgotten: AtomicU64,
}

impl Denials {
    pub(super) fn new() -> io::Result<Self> {
        let book = Arc::new(Book::default());
        let cells = MemoryStore::new(&book, DENIALS_BYTES)?;
        Ok(Self {
            secret: Secret::random(),
            cells: ArcSwap::from_pointee(cells),
            book: ArcSwap::new(book),
            forgotten: AtomicU64::new(0),
        })
    }

    /// Forgets what is known of one bucket, or of all.
    pub(super) fn forget(&self, name: Option<&[u8]>) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        match name {
            Some(name) => {
                self.cells.load().learn(self.secret.fingerprint(name), None, Moment::EPOCH);
            }
            // Where the system gives no memory, they stay until they end by themselves.
            None => {
                if let Ok(cells) = MemoryStore::new(&self.book.load(), DENIALS_BYTES) {
                    self.cells.store(Arc::new(cells));
                }
            }
        }
    }

    /// The answer to an ask whose bucket is known to be empty.
    fn find(&self, name: &[u8], ask: &book::Ask, now: Moment) -> Option<Outcome> {
        let is_spend =
            matches!(ask.action, Action::CheckAndSpend | Action::CheckOnly | Action::SpendOnly);
        if !is_spend || ask.cost == 0 {
            return None;
        }
        let ask = book::Ask { action: Action::CheckOnly, ..*ask };
        let bucket = self.secret.fingerprint(name);
        let mut outcome = [Outcome::default()];
        self.cells.load().decide(&[Question { bucket, ask, joined: false }], &mut outcome, now);
        let [outcome] = outcome;
        (outcome.verdict == Verdict::Deny).then_some(outcome)
    }

    /// Remembers a bucket, unless something was forgotten since `forgotten` was read.
    fn remember(&self, name: &[u8], cell: BucketCell, forgotten: u64, now: Moment) {
        if self.forgotten.load(Ordering::SeqCst) == forgotten {
            self.cells.load().learn(self.secret.fingerprint(name), Some(cell), now);
        }
    }

    fn install(&self, book: &Arc<Book>) {
        self.book.store(Arc::clone(book));
        self.cells.load().install(book);
    }
}

/// The buckets of named limits.
pub(super) struct Buckets {
    home: Arc<Home>,
    rules: ArcSwap<Rules>,
    /// Since when buckets have another rule than before, other than by a new default.
    moved: RwLock<HashMap<Fingerprint, Moment>>,
    /// By how many nanoseconds the clock of Redis is ahead of ours, as far as is known.
    ahead: AtomicI64,
}

/// What goes to Redis in one trip.
#[derive(Default)]
struct Trip<'a> {
    asks: Vec<Ask<'a>>,
    /// The rule of each.
    rules: Vec<&'a Known>,
    /// Where in the visit each transaction is.
    places: Vec<Range<usize>>,
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
    fn carry_over(&self, _: &[Question<Gcra>], names: &Names, at: Moment) {
        let denials = &self.home.denials;
        denials.cells.load().carry_over(&[], at);
        let mut moved = self.moved.write();
        if moved.len().saturating_add(names.len()) > MOVED_MAX {
            moved.clear();
        }
        for (name, _) in names.iter().filter(|(name, _)| !name.is_empty()).take(MOVED_MAX) {
            moved.insert(denials.secret.fingerprint(name), at);
            denials.forget(Some(name));
        }
    }
}

impl Buckets {
    pub(super) fn new(home: Arc<Home>) -> Self {
        let (rules, moved) = (ArcSwap::default(), RwLock::default());
        Self { home, rules, moved, ahead: AtomicI64::new(0) }
    }

    async fn visit(&self, visit: Visit<'_, Gcra>) {
        let Visit { local, questions, names, outcomes, now } = visit;
        let names: Vec<(&[u8], Sharing)> = names.iter().collect();
        let rules = self.rules.load_full();
        let mut stay = Stay { store: self, local, names: &names, now };
        let mut trip = Trip::default();
        for place in transactions(questions) {
            let chunk = &questions[place.clone()];
            let name = names[place.start].0;
            if name.is_empty() {
                continue;
            }
            let known = match chunk {
                [question] => self.home.denials.find(name, &question.ask, now),
                _ => None,
            };
            if let Some(outcome) = known {
                outcomes[place.start] = outcome;
                add(&self.home.tally.remembered, 1);
            } else if !trip.add(self, &rules, chunk, &names, place.clone()) {
                let failure = Failure::Refused("it cannot count a limit that slow".to_owned());
                stay.without(&failure, chunk, place, outcomes);
            }
        }
        if trip.asks.is_empty() {
            return;
        }
        let forgotten = self.home.denials.forgotten.load(Ordering::SeqCst);
        let answers = self.ask(&trip).await;
        let mut first = 0;
        let mut all = true;
        for place in &trip.places {
            let range = first..first + place.len();
            first = range.end;
            let chunk = &questions[place.clone()];
            let failed = answers[range.clone()].iter().find_map(|answer| answer.as_ref().err());
            if let Some(failure) = failed {
                all = false;
                stay.without(failure, chunk, place.clone(), outcomes);
                continue;
            }
            let answered = answers[range.clone()].iter().flatten().copied();
            let answered: Vec<Answer> = answered.collect();
            for (outcome, answer) in outcomes[place.clone()].iter_mut().zip(&answered) {
                *outcome = answer.outcome;
            }
            stay.learn(chunk, &trip.rules[range], &answered, place.start, forgotten);
        }
        if all {
            self.home.tally.succeeded(now);
        }
    }

    async fn ask(&self, trip: &Trip<'_>) -> Vec<Result<Answer, Failure>> {
        let mut answers = Vec::new();
        match self.home.link() {
            Ok(link) => {
                add(&self.home.tally.trips, 1);
                let visit = link::Visit::within(self.home.within);
                link.gcra(&trip.asks, &visit, &mut answers).await;
            }
            Err(error) => {
                answers.resize(trip.asks.len(), Err(Failure::Refused(error.to_string())));
            }
        }
        answers
    }

    /// Since when a rule is in force for a bucket, by our clock.
    fn since(&self, bucket: &[u8], known: &Known) -> Moment {
        let moved = self.moved.read();
        if moved.is_empty() {
            return known.since;
        }
        let moved = moved.get(&self.home.denials.secret.fingerprint(bucket));
        moved.map_or(known.since, |&at| at.max(known.since))
    }

    /// A moment of ours by the clock of Redis.
    fn there(&self, moment: Moment) -> Moment {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let length = Nanos::new(ahead.unsigned_abs().into());
        if ahead < 0 { moment.before(length) } else { moment.after(length) }
    }
}

impl<'a> Trip<'a> {
    /// Adds a transaction, unless Redis cannot count one of its rules.
    fn add(
        &mut self,
        store: &Buckets,
        rules: &'a Rules,
        questions: &[Question<Gcra>],
        names: &[(&'a [u8], Sharing)],
        place: Range<usize>,
    ) -> bool {
        let before = self.asks.len();
        for (index, question) in questions.iter().enumerate() {
            let known = rules.in_force(question.ask.rule);
            let Some((known, rule)) = known.and_then(|it| Some((it, it.in_redis.as_ref()?))) else {
                self.asks.truncate(before);
                self.rules.truncate(before);
                return false;
            };
            let book::Ask { action, is_shadow, cost, .. } = question.ask;
            let bucket = names[place.start + index].0;
            let since = store.there(store.since(bucket, known));
            let joined = index > 0;
            self.asks.push(Ask { bucket, rule, since, action, is_shadow, cost, joined });
            self.rules.push(known);
        }
        self.places.push(place);
        true
    }
}

/// What a visit has at hand.
struct Stay<'a> {
    store: &'a Buckets,
    local: &'a MemoryStore<Gcra>,
    names: &'a [(&'a [u8], Sharing)],
    now: Moment,
}

impl Stay<'_> {
    /// Decides a transaction that Redis did not answer. The strictest of its limits says how.
    fn without(
        &mut self,
        failure: &Failure,
        questions: &[Question<Gcra>],
        place: Range<usize>,
        outcomes: &mut [Outcome],
    ) {
        let tally = &self.store.home.tally;
        tally.failed(failure, self.now);
        let named = &self.names[place.clone()];
        let says = |what| named.iter().any(|(_, sharing)| sharing.on_failure == what);
        let strictest = [OnFailure::Deny, OnFailure::Local].into_iter().find(|&what| says(what));
        let what = strictest.unwrap_or(OnFailure::Allow);
        tally.instead(what, questions.len());
        let outcomes = &mut outcomes[place];
        match what {
            OnFailure::Local => self.local.decide(questions, outcomes, self.now),
            OnFailure::Allow | OnFailure::Deny => {
                for (question, outcome) in questions.iter().zip(outcomes) {
                    *outcome = self.guess(&question.ask, what == OnFailure::Allow);
                }
            }
        }
    }

    /// An answer that does not look at the bucket.
    fn guess(&self, ask: &book::Ask, is_allowed: bool) -> Outcome {
        let rules = self.store.rules.load();
        let burst = rules.in_force(ask.rule).map_or(0, |known| known.rule.burst());
        if ask.cost > burst && ask.action != Action::Reset {
            return Outcome { verdict: Verdict::Never, ..Outcome::default() };
        }
        if is_allowed {
            let remaining = burst.saturating_sub(ask.cost);
            return Outcome { verdict: Verdict::Allow, remaining, ..Outcome::default() };
        }
        Outcome { verdict: Verdict::Deny, remaining: 0, retry_in: AWAY, reset_in: AWAY }
    }

    /// Keeps in mind what Redis said, for when it is away, and denials for as long as they last.
    fn learn(
        &self,
        questions: &[Question<Gcra>],
        rules: &[&Known],
        answers: &[Answer],
        first: usize,
        forgotten: u64,
    ) {
        let home = &self.store.home;
        add(&home.tally.decided, questions.len());
        let mut asked = questions.iter().zip(answers);
        let is_vetoed = asked.any(|(it, answer)| Gcra::vetoes(&it.ask, &answer.outcome));
        for (index, ((question, known), answer)) in
            questions.iter().zip(rules).zip(answers).enumerate()
        {
            let (outcome, name) = (&answer.outcome, self.names[first + index].0);
            let is_denied = outcome.verdict == Verdict::Deny;
            let gives = matches!(question.ask.action, Action::Refund | Action::Reset);
            let takes = matches!(question.ask.action, Action::CheckAndSpend | Action::SpendOnly);
            let full_in = outcome.reset_in;
            let cell = BucketCell::filling(known.id, &known.rule, full_in, self.now);
            // What an ask that changed nothing is told of the time after it, is not so.
            if is_denied || !is_vetoed && (gives || takes) || question.ask.cost == 0 {
                let cell = (!full_in.is_zero()).then_some(cell);
                self.local.learn(question.bucket, cell, self.now);
            }
            if gives && !is_vetoed {
                home.denials.forget(Some(name));
            } else if is_denied && !gives {
                home.denials.remember(name, cell, forgotten, self.now);
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
