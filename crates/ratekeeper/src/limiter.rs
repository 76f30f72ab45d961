//! The embedded front: limits by name, asked directly.
//!
//! ```
//! use ratekeeper::limits::{Limits, Source};
//! use ratekeeper::{Limiter, Moment, Nanos};
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

mod asking;
mod batch;
mod decisions;
mod explain;
mod mistake;
mod recent;
mod reload;
mod saved;
mod snapshot;
#[cfg(test)]
mod tests;
mod transaction;
mod wherever;
mod witness;

use std::io;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

pub use asking::{Asking, Entitled};
pub use batch::{Answers, Batch};
pub use decisions::Decisions;
pub use explain::Explanation;
pub use mistake::Mistake;
pub use saved::Owed;
use snapshot::Snapshot;
pub use transaction::{Merged, Mode, TRANSACTION_ASKS_MAX};
pub use wherever::{AlreadyShared, Wherever};
pub use witness::{Act, Decided, INLINE_RULES, Ruling, Seen, Witness};

use crate::algorithm::Share;
use crate::algorithm::book::{Action, Ask, Book, Gcra};
use crate::algorithm::gcra::{Outcome, Verdict};
pub use crate::limits::resolver::ASK_TIME_MAX;
use crate::limits::resolver::{Entry, Registry, Resolver, Unresolved};
use crate::limits::{IdBuffer, Limit, Limits};
use crate::store::shared::SharedStore;
use crate::store::{Held, Holding, MemoryStore, Question, Seal, Secret, Store};
use crate::{Moment, Nanos};

/// How much memory [`Limiter::new`] uses at most: enough for 6 million buckets.
pub const MEMORY_DEFAULT: usize = 256 << 20;
/// The id of everybody together, for limits that are shared by all: by house convention `*`.
pub const EVERYBODY: &str = "*";

/// Decides whether one more may pass, by name and id.
///
/// Any number of threads may ask at once. Nothing here reads a clock: every ask says what time it
/// is, and [`Clock`](crate::Clock) is there to tell.
pub struct Limiter {
    core: Arc<Core>,
    witness: Option<Arc<dyn Witness>>,
}

/// What limiters with different witnesses have in common.
struct Core {
    resolver: Snapshot,
    store: MemoryStore<Gcra>,
    seal: Seal,
    registry: Mutex<Registry>,
    /// What decides in place of `store`, if the buckets are shared.
    shared: OnceLock<Arc<dyn SharedStore<Gcra>>>,
}

impl Core {
    /// How many tokens a bucket owes besides what it shows.
    fn hidden(&self, question: &Question<Gcra>, now: Moment) -> u64 {
        self.store.look(question.bucket, |book, cell| {
            book.owed(cell, question.ask.rule, now).map_or(0, |(_, debt)| debt.hidden)
        })
    }
}

/// Whether an ask passes, and what the caller may want to know.
///
/// A caller that does not look at it lets everybody pass, so the compiler warns of that, also behind
/// a `?`:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// use ratekeeper::{Limiter, Mistake, Moment};
///
/// fn log_in(limiter: &Limiter, user: &str, now: Moment) -> Result<(), Mistake> {
///     limiter.spend("LoginsPerUser", user, 1, now)?;
///     Ok(())
/// }
/// ```
#[must_use = "a denial is no error: whoever does not look at `allowed` lets everybody pass"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it passes. For a refund: whether anything was given back.
    pub allowed: bool,
    /// Whether it would have been denied, had its limit not been in shadow.
    pub shadow: bool,
    /// How many tokens are left.
    pub remaining: u64,
    /// How long until the same ask, repeated, would pass; zero if it would now.
    pub retry_in: Nanos,
    /// How long until the bucket is full.
    pub reset_in: Nanos,
}

/// What a limit holds of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitHolding {
    /// The limit; none for keys of a limit that has gone and that nobody remembers.
    pub limit: Option<Box<str>>,
    /// What it may have once memory is full.
    pub share: Share,
    /// What it has.
    pub holding: Holding,
}

/// What applies to an id, and where it is counted.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its override, else the default.
    pub terms: Limit,
    /// Whether the limit is in shadow.
    pub shadow: bool,
    /// The id in its one spelling.
    pub id: String,
    /// What stands for the limit in the key of its bucket: with a colon and the id behind it, such
    /// as `6:12345678`, that is the key.
    pub prefix: String,
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
        let (mut registry, seal) = (Registry::default(), secret.seal());
        let resolver =
            Resolver::new(limits, &seal, &mut registry, None).map_err(io::Error::other)?;
        let store = MemoryStore::new(&registry.book(), memory)?;
        Ok(Self::of(resolver, store, seal, registry))
    }

    fn of(resolver: Resolver, store: MemoryStore<Gcra>, seal: Seal, registry: Registry) -> Self {
        let shared = OnceLock::new();
        let (resolver, registry) = (Snapshot::new(resolver), Mutex::new(registry));
        let core = Core { resolver, store, seal, registry, shared };
        Self { core: Arc::new(core), witness: None }
    }

    /// Times may step back from now on, as recorded ones do. A bucket that is full is usually forgotten
    /// for whoever comes next; at an earlier moment it was not full, so then it stays until memory is.
    pub fn expect_steps_back(&self) {
        self.core.store.expect_steps_back();
    }

    /// A limiter over the same limits and buckets that tells `witness` of what is asked through it.
    /// What is asked through this one is not told.
    ///
    /// A reload or a save through either is the same.
    #[must_use]
    pub fn witnessed(&self, witness: Arc<dyn Witness>) -> Self {
        Self { core: Arc::clone(&self.core), witness: Some(witness) }
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

    /// Decides many asks, each on its own, in order. This is the fast way: it waits for memory
    /// once where single asks wait each time.
    ///
    /// ```
    /// # use ratekeeper::limits::{Limits, Source};
    /// # use ratekeeper::{Limiter, Moment, Request};
    /// # let source = Source { name: "limits.yaml", text: "A: {burst: 1, count: 1, period: 1s}" };
    /// # let limiter = Limiter::new(Limits::parse(&source, None)?)?;
    /// let mut batch = ratekeeper::limiter::Batch::default();
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
        self.asking().batch_with(batch, asks, |place| asks[place].mode.into(), now)
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
        let resolver = self.core.resolver.load();
        let ask = Request::new(limit, id, cost);
        let question = question(&resolver, &ask, Action::CheckOnly)?;
        let peek = Question { ask: Ask { cost: 0, ..question.ask }, ..question };
        let mut outcomes = [Outcome::default(); 2];
        self.core.store.decide(&[peek, question], &mut outcomes, now);
        let hidden = self.core.hidden(&question, now);
        let mut told = Explanation::of(&resolver, &ask, &[peek, question], &outcomes, hidden)?;
        // The bucket has the tokens, so it is not what denies.
        let [before, after] = outcomes;
        told.is_without_room = after.verdict == Verdict::Deny && before.remaining >= cost;
        Ok(told)
    }

    /// The limit that applies to an id: its override, else the default. Allocates nothing unless
    /// there is none.
    pub fn terms(&self, limit: &str, id: &str) -> Result<Limit, Mistake> {
        let resolver = self.core.resolver.load();
        let terms = resolver.terms(limit, id).copied();
        terms.map_err(|e| mistake(&resolver, &Request::new(limit, id, 0), e))
    }

    /// What applies to an id, and the bucket that it is counted in, looked up at once.
    pub fn account(&self, limit: &str, id: &str) -> Result<Account, Mistake> {
        let asking = self.asking();
        let mut buffer = IdBuffer::new();
        let Entitled { terms, shadow, id, prefix } = asking.entitled(limit, id, &mut buffer)?;
        let (id, prefix) = (id.to_owned(), prefix.to_owned());
        Ok(Account { terms: *terms, shadow, id, prefix })
    }

    /// The key of the bucket that an id is counted in, such as `6:12345678`.
    pub fn bucket_key(&self, limit: &str, id: &str) -> Result<String, Mistake> {
        let resolver = self.core.resolver.load();
        let request = Request::new(limit, id, 0);
        let mut buffer = IdBuffer::new();
        let applied = resolver.applied(limit, id, &mut buffer);
        Ok(applied.map_err(|e| mistake(&resolver, &request, e))?.bucket_key())
    }

    /// How many buckets are in memory, and what was lost for want of it.
    pub fn held(&self) -> Held {
        self.core.store.held()
    }

    /// What each limit holds of memory now, and what became of its buckets for want of memory; limits
    /// that hold nothing and were refused nothing are left out.
    pub fn holdings(&self) -> Vec<LimitHolding> {
        let registry = self.core.registry.lock();
        let names = registry.names();
        let of_limit = |holding: Holding| LimitHolding {
            limit: names.get(holding.owner.number() as usize).copied().flatten().map(Into::into),
            share: registry.share_of(holding.owner),
            holding,
        };
        self.core.store.holdings().into_iter().map(of_limit).collect()
    }

    #[inline]
    fn one(&self, ask: Request<'_>, action: Action, now: Moment) -> Result<Decision, Mistake> {
        if self.witness.is_none() {
            let edition = self.core.resolver.edition();
            if let Some(question) = recent::question(edition, &self.core.seal, &ask, action)
                && let Some(decision) = self.decide_by(edition, &question, now)
            {
                return Ok(decision);
            }
        }
        self.one_of_all(ask, action, now)
    }

    /// Nothing if the limits are of another edition, or if the ask can never pass, which is told
    /// elsewhere.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "returned through memory it takes half as long again")]
    fn decide_by(&self, edition: u64, question: &Question<Gcra>, now: Moment) -> Option<Decision> {
        let store = &self.core.store;
        store.touch_one(question);
        let is_current = |book: &Book| book.edition() == edition;
        store.decide_if(question, now, is_current, |outcome| {
            let is_answer = outcome.verdict != Verdict::Never || question.ask.is_shadow;
            is_answer.then(|| Decision::new(&question.ask, &outcome))
        })?
    }

    /// [`Self::one`] where there may be a mistake or a witness to tell of it, or new limits.
    #[inline(never)]
    fn one_of_all(
        &self,
        ask: Request<'_>,
        action: Action,
        now: Moment,
    ) -> Result<Decision, Mistake> {
        let resolver = self.core.resolver.load();
        let question = [question(&resolver, &ask, action)?];
        if let (None, Some(excerpt)) = (&self.witness, resolver.excerpt(ask.limit)) {
            recent::remember(resolver.edition(), ask.limit, excerpt);
        }
        let mut outcome = [Outcome::default()];
        self.core.store.decide(&question, &mut outcome, now);
        let decision = decision(&resolver, &ask, &question[0], &outcome[0])?;
        if let Some(witness) = &self.witness {
            witness.decided(&Decided::new(&resolver, &[ask], &question, &outcome));
        }
        Ok(decision)
    }
}

#[inline]
fn question(
    resolver: &Resolver,
    ask: &Request<'_>,
    action: Action,
) -> Result<Question<Gcra>, Mistake> {
    let question = |entry: &Entry| entry.question(ask.id, action, ask.cost);
    match resolver.entry(ask.limit).and_then(question) {
        Ok(question) => Ok(question),
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
    question: &Question<Gcra>,
    outcome: &Outcome,
) -> Result<Decision, Mistake> {
    if outcome.verdict == Verdict::Never && !question.ask.is_shadow {
        return Err(cost_above_burst(resolver, ask));
    }
    Ok(Decision::new(&question.ask, outcome))
}

#[cold]
fn cost_above_burst(resolver: &Resolver, ask: &Request<'_>) -> Mistake {
    let mut buffer = IdBuffer::new();
    let applied = resolver.applied(ask.limit, ask.id, &mut buffer);
    let burst = applied.ok().and_then(|it| it.limit()).map_or(0, Limit::burst);
    Mistake::CostAboveBurst { limit: ask.limit.to_owned(), cost: ask.cost, burst }
}

impl Decision {
    /// What an ask is told of what was found. A shadow always passes, so there is nothing to wait for.
    #[inline]
    fn new(ask: &Ask, outcome: &Outcome) -> Self {
        let decision = Self::from(outcome);
        if ask.is_shadow {
            return Self {
                allowed: true,
                shadow: !decision.allowed,
                retry_in: Nanos::ZERO,
                ..decision
            };
        }
        decision
    }
}

/// What an ask is told that no shadow is over.
impl From<&Outcome> for Decision {
    #[inline]
    fn from(outcome: &Outcome) -> Self {
        Self {
            allowed: outcome.verdict == Verdict::Allow,
            shadow: false,
            remaining: outcome.remaining,
            retry_in: outcome.retry_in,
            reset_in: outcome.reset_in,
        }
    }
}
