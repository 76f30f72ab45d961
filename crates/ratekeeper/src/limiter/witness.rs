//! Being told of what was decided.

use super::Request;
use crate::algorithm::Algorithm;
use crate::algorithm::book::{Action, Gcra, RuleId};
use crate::algorithm::gcra::{Outcome, Verdict};
use crate::algorithm::inline_rule::InlineGcra;
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

/// The name under which asks are told of that bring their rule along: that of the command which does so.
pub const INLINE_RULES: &str = "CL.THROTTLE";

/// What one call decided.
#[derive(Clone, Copy)]
pub struct Decided<'a>(Asked<'a>);

#[derive(Clone, Copy)]
enum Asked<'a> {
    Named {
        resolver: &'a Resolver,
        asks: &'a [Request<'a>],
        questions: &'a [Question<Gcra>],
        outcomes: &'a [Outcome],
    },
    Inline {
        keys: &'a [&'a [u8]],
        questions: &'a [Question<InlineGcra>],
        outcomes: &'a [Outcome],
    },
}

/// One ask that was decided, looking at its own bucket only.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    whose: Whose<'a>,
    bucket: Fingerprint,
    action: Action,
    cost: u64,
    verdict: Verdict,
    is_shadow: bool,
    /// Whether its transaction was denied.
    is_vetoed: bool,
}

/// Whom an ask counts for.
#[derive(Clone, Copy)]
enum Whose<'a> {
    Named(&'a Request<'a>, &'a Resolver),
    Key(&'a [u8]),
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
        Self(Asked::Named { resolver, asks, questions, outcomes })
    }

    /// What was decided by rules that came with the asks, for a caller who asks a
    /// [`Keyed`](crate::Keyed) and has a witness: the keys, the questions to them, and the outcomes. Each
    /// question stands for itself.
    pub fn by_inline_rules(
        keys: &'a [&'a [u8]],
        questions: &'a [Question<InlineGcra>],
        outcomes: &'a [Outcome],
    ) -> Self {
        Self(Asked::Inline { keys, questions, outcomes })
    }

    /// Every ask that was decided, in order. In a batch, mistakes are left out.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Seen<'a>> + use<'a> {
        let (named, inline) = match self.0 {
            Asked::Named { resolver, asks, questions, outcomes } => {
                (Some(named(resolver, asks, questions, outcomes)), None)
            }
            Asked::Inline { keys, questions, outcomes } => {
                (None, Some(by_inline_rules(keys, questions, outcomes)))
            }
        };
        named.into_iter().flatten().chain(inline.into_iter().flatten())
    }
}

#[inline]
fn named<'a>(
    resolver: &'a Resolver,
    asks: &'a [Request<'a>],
    questions: &'a [Question<Gcra>],
    outcomes: &'a [Outcome],
) -> impl Iterator<Item = Seen<'a>> + use<'a> {
    let vetoes = |(question, outcome): (&Question<_>, _)| Gcra::vetoes(&question.ask, outcome);
    // All asks of a transaction are joined, and none of a batch.
    let is_vetoed = questions.first().is_some_and(|question| question.joined)
        && questions.iter().zip(outcomes).any(vetoes);
    let answered = questions.iter().zip(outcomes);
    asks.iter().zip(answered).filter_map(move |(request, (question, outcome))| {
        let Question { bucket, ask, .. } = question;
        let is_never = outcome.verdict == Verdict::Never && !ask.is_shadow;
        let is_mistake = is_never || ask.rule == RuleId::NONE;
        let seen = Seen {
            whose: Whose::Named(request, resolver),
            bucket: *bucket,
            action: ask.action,
            cost: ask.cost,
            verdict: outcome.verdict,
            is_shadow: ask.is_shadow,
            is_vetoed,
        };
        (!is_mistake).then_some(seen)
    })
}

#[inline]
fn by_inline_rules<'a>(
    keys: &'a [&'a [u8]],
    questions: &'a [Question<InlineGcra>],
    outcomes: &'a [Outcome],
) -> impl Iterator<Item = Seen<'a>> + use<'a> {
    let answered = questions.iter().zip(outcomes);
    keys.iter().zip(answered).filter_map(|(key, (question, outcome))| {
        let seen = Seen {
            whose: Whose::Key(key),
            bucket: question.bucket,
            action: question.ask.action,
            cost: question.ask.cost,
            verdict: outcome.verdict,
            is_shadow: false,
            is_vetoed: false,
        };
        (outcome.verdict != Verdict::Never).then_some(seen)
    })
}

impl<'a> Seen<'a> {
    /// The name of the limit; [`INLINE_RULES`] for all asks that bring their rule along.
    #[inline]
    pub fn limit(&self) -> &'a str {
        match self.whose {
            Whose::Named(request, _) => request.limit,
            Whose::Key(_) => INLINE_RULES,
        }
    }

    /// What stands for the limit and the id, however the id was spelled. It is the same for all
    /// that share a limiter's buckets, also after a reload or a restart.
    #[inline]
    pub fn bucket(&self) -> Fingerprint {
        self.bucket
    }

    /// What was asked for.
    #[inline]
    pub fn act(&self) -> Act {
        self.action.into()
    }

    /// How many tokens.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// How many tokens it took: none if they were not there, or if another ask had its transaction
    /// denied.
    pub fn spent(&self) -> u64 {
        let takes = self.act() == Act::Spend && self.ruling() == Ruling::Allowed;
        if takes && !self.is_vetoed { self.cost } else { 0 }
    }

    /// Whether it passed.
    #[inline]
    pub fn ruling(&self) -> Ruling {
        match (self.verdict, self.action) {
            (Verdict::Allow, _) | (_, Action::Refund | Action::Reset) => Ruling::Allowed,
            _ if self.is_shadow => Ruling::Shadow,
            _ => Ruling::Denied,
        }
    }

    /// Appends the id in its one spelling. Of a key, bytes that are no text are written as `\xff`.
    pub fn write_id(&self, to: &mut String) {
        match self.whose {
            Whose::Named(request, resolver) => {
                let mut buffer = IdBuffer::new();
                let format = resolver.entry(request.limit).map(Entry::id_format);
                // It was decided, so there is such a limit and the id is one of it.
                let written = format.map(|format| format.canonical(request.id, &mut buffer));
                to.push_str(written.ok().and_then(Result::ok).unwrap_or(request.id));
            }
            Whose::Key(key) => {
                for chunk in key.utf8_chunks() {
                    to.push_str(chunk.valid());
                    for byte in chunk.invalid() {
                        to.extend(std::ascii::escape_default(*byte).map(char::from));
                    }
                }
            }
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
