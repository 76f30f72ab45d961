//! The embedded front: limits by name, asked directly.
//!
//! ```
//! use tollgate::limits::{Limits, Source};
//! use tollgate::{Limiter, Moment, Nanos};
//!
//! let limits = Limits::parse(
//!     &Source { name: "limits.yaml", text: "SearchesPerUser: {burst: 2, count: 1, period: 1s}" },
//!     None,
//! )?;
//! let limiter = Limiter::new(limits)?;
//! let now = Moment::from_nanos(0);
//!
//! assert!(limiter.spend("SearchesPerUser", "ada", 1, now)?.allowed);
//! assert!(limiter.spend("SearchesPerUser", "ada", 1, now)?.allowed);
//! let denied = limiter.spend("SearchesPerUser", "ada", 1, now)?;
//! assert!(!denied.allowed);
//! assert_eq!(denied.retry_in, Nanos::from_secs(1));
//!
//! // What a denial says is the truth: at the end of the wait it passes.
//! assert!(limiter.spend("SearchesPerUser", "ada", 1, now.after(denied.retry_in))?.allowed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod decisions;
mod explain;
mod mistake;
mod reload;
mod saved;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use smallvec::SmallVec;

pub use batch::{Answers, Batch};
pub use decisions::Decisions;
pub use explain::Explanation;
pub use mistake::Mistake;

use crate::algorithm::book::{Action, Ask, Gcra};
use crate::algorithm::gcra::{Outcome, Verdict};
use crate::limits::resolver::{Registry, Resolver, Unresolved};
use crate::limits::{Limit, Limits, NamedLimit};
use crate::store::{Held, MemoryStore, Question, Secret, Store};
use crate::{Moment, Nanos};

/// How many asks one transaction can have.
pub const TRANSACTION_ASKS_MAX: usize = 256;
/// How much memory [`Limiter::new`] uses at most: enough for 6 million buckets.
pub const MEMORY_DEFAULT: usize = 256 << 20;
/// The id of everybody together, for limits that are shared by all: by house convention `*`.
pub const EVERYBODY: &str = "*";

/// Decides whether one more may pass, by name and id.
///
/// Any number of threads may ask at once. Nothing here reads a clock: every ask says what time it
/// is, and [`Clock`](crate::Clock) is there to tell.
pub struct Limiter {
    resolver: ArcSwap<Resolver>,
    store: MemoryStore<Gcra>,
    secret: Secret,
    registry: Mutex<Registry>,
}

/// Whether an ask passes, and what the caller may want to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it passes. For a refund: whether anything was given back.
    pub allowed: bool,
    /// How many tokens are left.
    pub remaining: u64,
    /// How long until the same ask, repeated, would pass; zero if it would now.
    pub retry_in: Nanos,
    /// How long until the bucket is full.
    pub reset_in: Nanos,
}

/// What a transaction does with one of its asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It must be allowed; it is spent if the whole transaction is.
    #[default]
    CheckAndSpend,
    /// It must be allowed; it is never spent.
    CheckOnly,
    /// It is spent if there is room, and never denies the transaction.
    SpendOnly,
}

/// One ask: of a limit, for an id.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The name of the limit.
    pub limit: &'a str,
    /// Whom it counts for.
    pub id: &'a str,
    /// How many tokens.
    pub cost: u64,
    /// What a transaction does with it.
    pub mode: Mode,
}

impl<'a> Request<'a> {
    /// An ask for `cost` tokens that must be allowed.
    pub const fn new(limit: &'a str, id: &'a str, cost: u64) -> Self {
        Self { limit, id, cost, mode: Mode::CheckAndSpend }
    }

    /// An ask for `cost` tokens that all have in common, as those of a bucket are.
    pub const fn everybody(limit: &'a str, cost: u64) -> Self {
        Self::new(limit, EVERYBODY, cost)
    }

    /// The same ask in another mode.
    #[must_use]
    pub const fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

/// What a transaction was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The strictest of its answers: denied before allowed, then the longest wait, then the least
    /// remaining. Spend-only asks have no say.
    pub decision: Decision,
    /// Which ask that was.
    pub decided_by: usize,
    /// What each ask was answered, looking at its own bucket only.
    pub each: Decisions,
}

impl Limiter {
    /// A limiter with room for about 6 million buckets. Fails where the system will not reserve
    /// [`MEMORY_DEFAULT`] bytes.
    pub fn new(limits: Limits) -> io::Result<Self> {
        Self::with_memory(limits, MEMORY_DEFAULT)
    }

    /// A limiter whose buckets never take more than about `memory` bytes, of which each takes 46
    /// at most. Fails where the system will not reserve them.
    pub fn with_memory(limits: Limits, memory: usize) -> io::Result<Self> {
        Self::with_secret(limits, memory, Secret::random())
    }

    /// A limiter that keeps its buckets under a secret of the caller's choice.
    pub fn with_secret(limits: Limits, memory: usize, secret: Secret) -> io::Result<Self> {
        let mut registry = Registry::default();
        let resolver =
            Resolver::new(limits, &secret, &mut registry, None).map_err(io::Error::other)?;
        let store = MemoryStore::new(&registry.book(), memory)?;
        let resolver = ArcSwap::from_pointee(resolver);
        Ok(Self { resolver, store, secret, registry: Mutex::new(registry) })
    }

    /// Takes `cost` tokens if they are there. A cost of zero takes nothing and tells the state.
    #[inline]
    pub fn spend(
        &self,
        limit: &str,
        id: &str,
        cost: u64,
        now: Moment,
    ) -> Result<Decision, Mistake> {
        self.one(Request::new(limit, id, cost), Action::CheckAndSpend, now)
    }

    /// What [`spend`](Self::spend) would answer, without taking anything.
    #[inline]
    pub fn check(
        &self,
        limit: &str,
        id: &str,
        cost: u64,
        now: Moment,
    ) -> Result<Decision, Mistake> {
        self.one(Request::new(limit, id, cost), Action::CheckOnly, now)
    }

    /// Gives `cost` tokens back, at most as many as are missing; `allowed` says whether there were
    /// any.
    #[inline]
    pub fn refund(
        &self,
        limit: &str,
        id: &str,
        cost: u64,
        now: Moment,
    ) -> Result<Decision, Mistake> {
        self.one(Request::new(limit, id, cost), Action::Refund, now)
    }

    /// Fills the bucket.
    pub fn reset(&self, limit: &str, id: &str, now: Moment) -> Result<Decision, Mistake> {
        self.one(Request::new(limit, id, 0), Action::Reset, now)
    }

    /// Decides several asks as one: if one of them is denied, none of them is spent, and nobody
    /// sees them half done.
    ///
    /// ```
    /// use tollgate::limits::{Limits, Source};
    /// use tollgate::{Limiter, Mode, Moment, Request};
    ///
    /// let text = "
    /// PerUser: {burst: 1, count: 1, period: 1s}
    /// PerSite: {burst: 9, count: 9, period: 1s}
    /// ";
    /// let limiter = Limiter::new(Limits::parse(&Source { name: "limits.yaml", text }, None)?)?;
    /// let now = Moment::from_nanos(0);
    ///
    /// let asks = [Request::new("PerUser", "ada", 1), Request::new("PerSite", "example.org", 1)];
    /// assert!(limiter.transaction(&asks, now)?.decision.allowed);
    /// let second = limiter.transaction(&asks, now)?;
    /// assert!(!second.decision.allowed);
    /// assert_eq!(asks[second.decided_by].limit, "PerUser");
    /// // The site was not charged for what the user was denied.
    /// assert_eq!(limiter.check("PerSite", "example.org", 0, now)?.remaining, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transaction(&self, asks: &[Request<'_>], now: Moment) -> Result<Merged, Mistake> {
        self.joined(asks, |ask| Action::from(ask.mode), now)
    }

    /// Gives tokens back to several buckets at once.
    pub fn refund_all(&self, asks: &[Request<'_>], now: Moment) -> Result<Merged, Mistake> {
        self.joined(asks, |_| Action::Refund, now)
    }

    /// Fills several buckets at once.
    pub fn reset_all(&self, asks: &[Request<'_>], now: Moment) -> Result<Merged, Mistake> {
        self.joined(asks, |_| Action::Reset, now)
    }

    /// Decides many asks, each on its own, in order. This is the fast way: it waits for memory
    /// once where single asks wait each time.
    ///
    /// ```
    /// # use tollgate::limits::{Limits, Source};
    /// # use tollgate::{Limiter, Moment, Request};
    /// # let source = Source { name: "limits.yaml", text: "A: {burst: 1, count: 1, period: 1s}" };
    /// # let limiter = Limiter::new(Limits::parse(&source, None)?)?;
    /// let mut batch = tollgate::limiter::Batch::default();
    /// let asks = [Request::new("A", "x", 1), Request::new("A", "x", 1), Request::new("B", "x", 1)];
    /// let answers = limiter.batch(&mut batch, &asks, Moment::from_nanos(0));
    /// let allowed: Vec<_> = answers.iter().map(|answer| answer.map(|it| it.allowed)).collect();
    /// assert_eq!(allowed[..2], [Ok(true), Ok(false)]);
    /// assert!(allowed[2].is_err(), "there is no limit called B");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch<'b>(
        &self,
        batch: &'b mut Batch,
        asks: &[Request<'_>],
        now: Moment,
    ) -> Answers<'b> {
        let resolver = self.resolver.load();
        batch.resolve(&resolver, asks);
        self.store.decide(&batch.questions, &mut batch.outcomes, now);
        batch.blame_costs(&resolver, asks);
        Answers { batch }
    }

    /// What applies to an id and why, and the arithmetic of what an ask of `cost` would be
    /// answered. Changes nothing.
    pub fn explain(
        &self,
        limit: &str,
        id: &str,
        cost: u64,
        now: Moment,
    ) -> Result<Explanation, Mistake> {
        let resolver = self.resolver.load();
        let ask = Request::new(limit, id, cost);
        let question = question(&resolver, &ask, Action::CheckOnly)?;
        let peek = Question { ask: Ask { cost: 0, ..question.ask }, ..question };
        let mut outcomes = [Outcome::default(); 2];
        self.store.decide(&[peek, question], &mut outcomes, now);
        let answer = decision(&resolver, &ask, &outcomes[1])?;
        let applied = resolver.applied(limit, id).map_err(|e| mistake(&resolver, &ask, e))?;
        let terms = applied.limit().ok_or(Unresolved::NoDefault);
        let terms = *terms.map_err(|e| mistake(&resolver, &ask, e))?;
        let before = Decision::from(&outcomes[0]);
        Ok(Explanation::new(&applied, terms, cost, [before, answer]))
    }

    /// The limit that applies to an id: its override, else the default. Allocates nothing unless
    /// there is none.
    pub fn terms(&self, limit: &str, id: &str) -> Result<Limit, Mistake> {
        let resolver = self.resolver.load();
        let terms = resolver.terms(limit, id).copied();
        terms.map_err(|e| mistake(&resolver, &Request::new(limit, id, 0), e))
    }

    /// The key of the bucket that an id is counted in, such as `6:12345678`.
    pub fn bucket_key(&self, limit: &str, id: &str) -> Result<String, Mistake> {
        let resolver = self.resolver.load();
        let request = Request::new(limit, id, 0);
        let applied = resolver.applied(limit, id).map_err(|e| mistake(&resolver, &request, e))?;
        Ok(applied.bucket_key())
    }

    /// The names that can be asked for now. A reload waits for whoever holds them, so they are
    /// for looking up a few, not for keeping.
    #[inline]
    pub fn names(&self) -> Names {
        Names { resolver: self.resolver.load() }
    }

    /// How many buckets are in memory, and what was lost for want of it.
    pub fn held(&self) -> Held {
        self.store.held()
    }

    #[inline]
    fn one(&self, ask: Request<'_>, action: Action, now: Moment) -> Result<Decision, Mistake> {
        let resolver = self.resolver.load();
        let question = question(&resolver, &ask, action)?;
        let mut outcome = [Outcome::default()];
        self.store.decide(&[question], &mut outcome, now);
        decision(&resolver, &ask, &outcome[0])
    }

    fn joined(
        &self,
        asks: &[Request<'_>],
        action: impl Fn(&Request<'_>) -> Action,
        now: Moment,
    ) -> Result<Merged, Mistake> {
        if asks.is_empty() {
            return Err(Mistake::NoAsks);
        }
        if asks.len() > TRANSACTION_ASKS_MAX {
            return Err(Mistake::TooManyAsks { asks: asks.len() });
        }
        let resolver = self.resolver.load();
        let mut questions: SmallVec<[Question<Gcra>; TRANSACTION_ASKS_MAX]> = SmallVec::new();
        for ask in asks {
            let question = Question { joined: true, ..question(&resolver, ask, action(ask))? };
            if questions.iter().any(|other| other.bucket == question.bucket) {
                let bucket = self.bucket_key(ask.limit, ask.id)?;
                return Err(Mistake::SameBucketTwice { bucket });
            }
            questions.push(question);
        }
        let mut outcomes: SmallVec<[Outcome; TRANSACTION_ASKS_MAX]> = SmallVec::new();
        outcomes.resize(asks.len(), Outcome::default());
        self.store.decide(&questions, &mut outcomes, now);
        let mut each = Decisions::new();
        for (ask, outcome) in asks.iter().zip(&outcomes) {
            each.push(decision(&resolver, ask, outcome)?);
        }
        Ok(merge(&questions, each))
    }
}

/// The names of a limiter, as of one moment.
pub struct Names {
    resolver: Guard<Arc<Resolver>>,
}

impl Names {
    /// Whether there is a limit or bucket of this name.
    #[inline]
    pub fn contains(&self, name: &str) -> bool {
        self.resolver.entry(name).is_ok()
    }

    /// What is limited under this name.
    pub fn named(&self, name: &str) -> Option<&NamedLimit> {
        self.resolver.named(name)
    }
}

#[inline]
fn question(
    resolver: &Resolver,
    ask: &Request<'_>,
    action: Action,
) -> Result<Question<Gcra>, Mistake> {
    match resolver.entry(ask.limit).and_then(|entry| entry.resolve(ask.id)) {
        Ok((bucket, rule)) => {
            Ok(Question { bucket, ask: Ask { rule, action, cost: ask.cost }, joined: false })
        }
        Err(unresolved) => Err(mistake(resolver, ask, unresolved)),
    }
}

#[cold]
fn mistake(resolver: &Resolver, ask: &Request<'_>, unresolved: Unresolved) -> Mistake {
    let (limit, id) = (ask.limit.to_owned(), ask.id.to_owned());
    match unresolved {
        Unresolved::Name => mistake::unknown_limit(resolver.limits(), &limit),
        Unresolved::Id(source) => Mistake::Id { limit, id, source },
        Unresolved::NoDefault => Mistake::NoDefault { limit, id },
    }
}

#[inline]
fn decision(
    resolver: &Resolver,
    ask: &Request<'_>,
    outcome: &Outcome,
) -> Result<Decision, Mistake> {
    if outcome.verdict == Verdict::Never {
        return Err(cost_above_burst(resolver, ask));
    }
    Ok(outcome.into())
}

#[cold]
fn cost_above_burst(resolver: &Resolver, ask: &Request<'_>) -> Mistake {
    let burst = match resolver.applied(ask.limit, ask.id) {
        Ok(applied) => applied.limit().map_or(0, Limit::burst),
        Err(_) => 0,
    };
    Mistake::CostAboveBurst { limit: ask.limit.to_owned(), cost: ask.cost, burst }
}

/// Only those asks decide that can deny; if there is none, those that cannot.
fn merge(questions: &[Question<Gcra>], each: Decisions) -> Merged {
    let has_say = |at: &usize| questions[*at].ask.action != Action::SpendOnly;
    let stricter = |&a: &usize, &b: &usize| each[a].strictness().cmp(&each[b].strictness());
    // The first of several that are equally strict: `max_by` would take the last.
    let places = (0..each.len()).rev();
    let decided_by = match places.clone().filter(has_say).max_by(stricter) {
        Some(place) => place,
        None => places.max_by(stricter).unwrap_or_default(),
    };
    let mut decision = each[decided_by];
    decision.allowed |= !has_say(&decided_by);
    Merged { decision, decided_by, each }
}

impl From<&Outcome> for Decision {
    #[inline]
    fn from(outcome: &Outcome) -> Self {
        Self {
            allowed: outcome.verdict == Verdict::Allow,
            remaining: outcome.remaining,
            retry_in: outcome.retry_in,
            reset_in: outcome.reset_in,
        }
    }
}

impl Decision {
    /// Larger is stricter.
    fn strictness(&self) -> impl Ord {
        (!self.allowed, self.retry_in, std::cmp::Reverse(self.remaining))
    }
}

impl From<Mode> for Action {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::CheckAndSpend => Self::CheckAndSpend,
            Mode::CheckOnly => Self::CheckOnly,
            Mode::SpendOnly => Self::SpendOnly,
        }
    }
}
