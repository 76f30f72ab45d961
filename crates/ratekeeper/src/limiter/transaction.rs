//! Several asks that are decided as one.

use smallvec::SmallVec;

use super::{Decided, Decision, Decisions, Limiter, Mistake, Request, decision, mistake, question};
use crate::Moment;
use crate::algorithm::book::{Action, Gcra};
use crate::algorithm::gcra::Outcome;
use crate::limits::IdBuffer;
use crate::limits::resolver::Resolver;
use crate::store::{Question, Store};

/// How many asks one transaction can have.
pub const TRANSACTION_ASKS_MAX: usize = 256;

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

/// What a transaction was answered.
#[must_use = "a denial is no error: whoever does not look at `allowed` lets everybody pass"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The strictest of its answers: denied before allowed, then the longest wait, then the least
    /// remaining. Spend-only asks and shadows have no say, unless there are no others.
    pub decision: Decision,
    /// Which ask that was.
    pub decided_by: usize,
    /// What each ask was answered, looking at its own bucket only.
    pub each: Decisions,
}

impl Limiter {
    /// Decides several asks as one: if one of them is denied, none of them is spent, and nobody
    /// sees them half done.
    ///
    /// ```
    /// use ratekeeper::limits::{Limits, Source};
    /// use ratekeeper::{Limiter, Mode, Moment, Request};
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

    pub(super) fn joined(
        &self,
        asks: &[Request<'_>],
        action: impl Fn(&Request<'_>) -> Action,
        now: Moment,
    ) -> Result<Merged, Mistake> {
        let resolver = self.core.resolver.load();
        let mut questions = Questions::new();
        gather(&resolver, asks, action, &mut questions)?;
        let mut outcomes: SmallVec<[Outcome; TRANSACTION_ASKS_MAX]> = SmallVec::new();
        outcomes.resize(asks.len(), Outcome::default());
        self.core.store.decide(&questions, &mut outcomes, now);
        let merged = conclude(&resolver, asks, &questions, &outcomes)?;
        if let Some(witness) = &self.witness {
            witness.decided(&Decided::new(&resolver, asks, &questions, &outcomes));
        }
        Ok(merged)
    }
}

/// The questions of one transaction.
pub(super) type Questions = SmallVec<[Question<Gcra>; TRANSACTION_ASKS_MAX]>;

/// The asks of a transaction as `questions`, filled where they stand: what is returned is copied,
/// with all its room. Refuses it if one of them is a mistake.
pub(super) fn gather(
    resolver: &Resolver,
    asks: &[Request<'_>],
    action: impl Fn(&Request<'_>) -> Action,
    questions: &mut Questions,
) -> Result<(), Mistake> {
    if asks.is_empty() {
        return Err(Mistake::NoAsks);
    }
    if asks.len() > TRANSACTION_ASKS_MAX {
        return Err(Mistake::TooManyAsks { asks: asks.len() });
    }
    for ask in asks {
        let question = Question { joined: true, ..question(resolver, ask, action(ask))? };
        if questions.iter().any(|other| other.bucket == question.bucket) {
            return Err(Mistake::SameBucketTwice { bucket: bucket_key(resolver, ask)? });
        }
        questions.push(question);
    }
    Ok(())
}

#[cold]
fn bucket_key(resolver: &Resolver, ask: &Request<'_>) -> Result<String, Mistake> {
    let mut buffer = IdBuffer::new();
    let applied = resolver.applied(ask.limit, ask.id, &mut buffer);
    applied.map(|applied| applied.bucket_key()).map_err(|e| mistake(resolver, ask, e))
}

/// What the answers to the questions of a transaction come to.
pub(super) fn conclude(
    resolver: &Resolver,
    asks: &[Request<'_>],
    questions: &[Question<Gcra>],
    outcomes: &[Outcome],
) -> Result<Merged, Mistake> {
    let mut each = Decisions::new();
    for (ask, (question, outcome)) in asks.iter().zip(questions.iter().zip(outcomes)) {
        each.push(decision(resolver, ask, question, outcome)?);
    }
    Ok(merge(questions, each))
}

/// Only those asks decide that can deny; if there is none, those that cannot.
fn merge(questions: &[Question<Gcra>], each: Decisions) -> Merged {
    let has_say = |at: &usize| {
        let ask = &questions[*at].ask;
        ask.action != Action::SpendOnly && !ask.is_shadow
    };
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

impl Decision {
    /// Larger is stricter.
    fn strictness(&self) -> impl Ord {
        (!self.allowed, self.shadow, self.retry_in, std::cmp::Reverse(self.remaining))
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
