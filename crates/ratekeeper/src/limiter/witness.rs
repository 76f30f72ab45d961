//! Being told of what was decided.

use super::Request;
use crate::algorithm::Algorithm;
use crate::algorithm::book::{Action, Ask, Gcra, RuleId};
use crate::algorithm::gcra::{Outcome, Verdict};
use crate::limits::IdBuffer;
use crate::limits::resolver::{Entry, Resolver};
use crate::store::{Fingerprint, Question};

/// Told of every ask that a limiter decided, on the thread that asked.
///
/// It is part of every ask's way, so it should take little time and wait for nobody. A reload
/// waits until it returns, so it must not reload.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use ratekeeper::limiter::{Decided, Ruling, Witness};
/// use ratekeeper::limits::{Limits, Source};
/// use ratekeeper::{Limiter, Moment};
///
/// #[derive(Default)]
/// struct Denials(AtomicUsize);
///
/// impl Witness for Denials {
///     fn decided(&self, decided: &Decided<'_>) {
///         let denied = decided.iter().filter(|seen| seen.ruling() == Ruling::Denied).count();
///         self.0.fetch_add(denied, Ordering::Relaxed);
///     }
/// }
///
/// let source = Source { name: "limits.yaml", text: "A: {burst: 1, count: 1, period: 1s}" };
/// let denials = Arc::new(Denials::default());
/// let limiter = Limiter::new(Limits::parse(&source, None)?)?.witnessed(denials.clone());
/// assert!(limiter.spend("A", "ada", 1, Moment::EPOCH)?.allowed);
/// assert!(!limiter.spend("A", "ada", 1, Moment::EPOCH)?.allowed);
/// assert_eq!(denials.0.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Witness: Send + Sync {
    /// What one call of the limiter decided: one ask, a transaction or a batch. A call that was a
    /// mistake decided nothing, and is not told.
    fn decided(&self, decided: &Decided<'_>);
}

/// What one call decided.
#[derive(Clone, Copy)]
pub struct Decided<'a> {
    resolver: &'a Resolver,
    asks: &'a [Request<'a>],
    questions: &'a [Question<Gcra>],
    outcomes: &'a [Outcome],
}

/// One ask that was decided, looking at its own bucket only.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    request: &'a Request<'a>,
    question: &'a Question<Gcra>,
    outcome: &'a Outcome,
    /// Whether its transaction was denied.
    is_vetoed: bool,
    resolver: &'a Resolver,
}

/// What an ask is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// To take tokens.
    Spend,
    /// To know whether they could be taken.
    Check,
    /// To give tokens back.
    Refund,
    /// To fill the bucket.
    Reset,
}

/// How an ask was decided. Refunds and resets deny nobody, so they are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// The tokens were there.
    Allowed,
    /// They were not.
    Denied,
    /// They were not, but the limit is in shadow, so it passed.
    Shadow,
}

impl<'a> Decided<'a> {
    pub(super) fn new(
        resolver: &'a Resolver,
        asks: &'a [Request<'a>],
        questions: &'a [Question<Gcra>],
        outcomes: &'a [Outcome],
    ) -> Self {
        Self { resolver, asks, questions, outcomes }
    }

    /// Every ask that was decided, in order. In a batch, mistakes are left out.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Seen<'a>> + use<'a> {
        let Self { resolver, asks, questions, outcomes } = *self;
        let is_vetoed = self.is_vetoed();
        let answered = questions.iter().zip(outcomes);
        asks.iter().zip(answered).filter_map(move |(request, (question, outcome))| {
            let is_never = outcome.verdict == Verdict::Never && !question.ask.is_shadow;
            let is_mistake = is_never || question.ask.rule == RuleId::NONE;
            let seen = Seen { request, question, outcome, is_vetoed, resolver };
            (!is_mistake).then_some(seen)
        })
    }

    /// Whether it is a transaction that one of its asks denied.
    fn is_vetoed(&self) -> bool {
        let vetoes = |(question, outcome): (&Question<_>, _)| Gcra::vetoes(&question.ask, outcome);
        // All asks of a transaction are joined, and none of a batch.
        self.questions.first().is_some_and(|question| question.joined)
            && self.questions.iter().zip(self.outcomes).any(vetoes)
    }
}

impl<'a> Seen<'a> {
    /// The name of the limit; [`CARRIED`](super::CARRIED) for all asks that bring their rule along.
    #[inline]
    pub fn limit(&self) -> &'a str {
        self.request.limit
    }

    /// What stands for the limit and the id, however the id was spelled. It is the same for all
    /// that share a limiter's buckets, also after a reload or a restart.
    #[inline]
    pub fn bucket(&self) -> Fingerprint {
        self.question.bucket
    }

    /// What was asked for.
    #[inline]
    pub fn act(&self) -> Act {
        self.question.ask.action.into()
    }

    /// How many tokens.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.question.ask.cost
    }

    /// How many tokens it took: none if they were not there, or if another ask had its transaction
    /// denied.
    pub fn spent(&self) -> u64 {
        let takes = self.act() == Act::Spend && self.ruling() == Ruling::Allowed;
        if takes && !self.is_vetoed { self.cost() } else { 0 }
    }

    /// Whether it passed.
    #[inline]
    pub fn ruling(&self) -> Ruling {
        Ruling::new(&self.question.ask, self.outcome)
    }

    /// Appends the id in its one spelling.
    pub fn write_id(&self, to: &mut String) {
        let Request { limit, id, carried, .. } = *self.request;
        if carried.is_some() {
            return to.push_str(id);
        }
        let mut buffer = IdBuffer::new();
        let format = self.resolver.entry(limit).map(Entry::id_format);
        // It was decided, so there is such a limit and the id is one of it.
        let written = format.map(|format| format.canonical(id, &mut buffer));
        to.push_str(written.ok().and_then(Result::ok).unwrap_or(id));
    }
}

impl Ruling {
    #[inline]
    fn new(ask: &Ask, outcome: &Outcome) -> Self {
        match (outcome.verdict, ask.action) {
            (Verdict::Allow, _) | (_, Action::Refund | Action::Reset) => Self::Allowed,
            _ if ask.is_shadow => Self::Shadow,
            _ => Self::Denied,
        }
    }
}

impl From<Action> for Act {
    #[inline]
    fn from(action: Action) -> Self {
        match action {
            Action::CheckAndSpend | Action::SpendOnly => Self::Spend,
            Action::CheckOnly => Self::Check,
            Action::Refund => Self::Refund,
            Action::Reset => Self::Reset,
        }
    }
}
