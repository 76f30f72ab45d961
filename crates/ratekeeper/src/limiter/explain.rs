//! Why an ask is answered as it is.

use std::fmt;

use super::{Decision, Mistake, Request, decision, mistake};
use crate::Nanos;
use crate::algorithm::book::Gcra;
use crate::algorithm::gcra::Outcome;
use crate::limits::resolver::{Applied, Resolver, Unresolved};
use crate::limits::{IdBuffer, Limit, Origin};
use crate::store::Question;

/// Which limit applies to an id and why, where it is counted, and the arithmetic of an answer.
///
/// Its `Display` is for people.
#[must_use = "an explanation changes nothing: it is there to be looked at"]
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The name of the limit.
    pub limit: String,
    /// The id in its one spelling.
    pub id: String,
    /// The key of the bucket.
    pub bucket: String,
    /// What applies.
    pub terms: Limit,
    /// Whether that is an override.
    pub is_override: bool,
    /// Whether the limit is in shadow: it denies nobody.
    pub shadow: bool,
    /// Where it is written.
    pub origin: Option<Origin>,
    /// Why there is an override, if its file says so.
    pub comment: Option<String>,
    /// What would apply without the override.
    pub default: Option<(Limit, Origin)>,
    /// The cost that was asked about.
    pub cost: u64,
    /// How many tokens are owed besides what the bucket shows, because the limit was lowered after
    /// they were spent.
    pub hidden: u64,
    /// The bucket as it is.
    pub before: Decision,
    /// What the ask would be answered.
    pub answer: Decision,
    /// Whether that is because memory has no room for the bucket in the share of its limit.
    pub is_without_room: bool,
    /// How long the arithmetic has the ask wait, also where a shadow lets it pass.
    wait: Nanos,
}

impl Explanation {
    /// What the answers to a peek and to the ask itself come to.
    pub(super) fn of(
        resolver: &Resolver,
        ask: &Request<'_>,
        [peek, question]: &[Question<Gcra>; 2],
        [before, after]: &[Outcome; 2],
        hidden: u64,
    ) -> Result<Self, Mistake> {
        let answer = decision(resolver, ask, question, after)?;
        let unresolved = |unresolved| mistake(resolver, ask, unresolved);
        let mut buffer = IdBuffer::new();
        let applied = resolver.applied(ask.limit, ask.id, &mut buffer).map_err(unresolved)?;
        let terms = *applied.limit().ok_or(Unresolved::NoDefault).map_err(unresolved)?;
        let before = Decision::new(&peek.ask, before);
        let told = Self::new(&applied, terms, ask.cost, [before, answer], after.retry_in);
        Ok(Self { hidden, ..told })
    }

    fn new(
        applied: &Applied<'_>,
        terms: Limit,
        cost: u64,
        [before, answer]: [Decision; 2],
        wait: Nanos,
    ) -> Self {
        let default = applied.default.map(|default| (default.limit, default.origin.clone()));
        let of_default = default.as_ref().map(|(_, origin)| origin.clone());
        Self {
            limit: applied.named.name().to_owned(),
            id: applied.id.to_owned(),
            bucket: applied.bucket_key(),
            terms,
            is_override: applied.over.is_some(),
            shadow: applied.named.is_shadow(),
            origin: applied.over.map(|over| over.origin.clone()).or(of_default),
            comment: applied.over.and_then(|over| over.comment.as_deref()).map(str::to_owned),
            default,
            cost,
            hidden: 0,
            before,
            answer,
            is_without_room: false,
            wait,
        }
    }

    fn fmt_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = &self.terms;
        let kind = if self.is_override { "an override" } else { "the default" };
        write!(f, "  limit    {terms}: {kind}")?;
        if let Some(origin) = &self.origin {
            write!(f, " ({origin})")?;
        }
        if let Some(comment) = &self.comment {
            write!(f, ", \"{comment}\"")?;
        }
        if let (true, Some((default, origin))) = (self.is_override, &self.default) {
            write!(f, "; the default is {default} ({origin})")?;
        }
        writeln!(f)
    }

    fn fmt_arithmetic(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = &self.terms;
        let interval = Interval::of(terms);
        writeln!(
            f,
            "  refill   one token every {interval}; from empty to full in {}",
            interval.times(terms.burst()).brief()
        )?;
        writeln!(
            f,
            "  now      {} of {} tokens left; full in {}",
            self.before.remaining,
            terms.burst(),
            self.before.reset_in.brief()
        )?;
        if self.hidden > 0 {
            writeln!(
                f,
                "  besides  {} more tokens are owed, from before the limit was lowered; they come \
                 back once it is full, in {}",
                self.hidden,
                interval.times(self.hidden).brief()
            )?;
        }
        let (price, depth) =
            (interval.times(self.cost).brief(), interval.times(terms.burst()).brief());
        if self.is_without_room {
            writeln!(
                f,
                "  memory   no room for a new id in the share of {}; see its `share` and `on_full`",
                self.limit
            )?;
        }
        write!(f, "  cost {:<3} ", self.cost)?;
        let Decision { allowed, shadow, remaining, reset_in, .. } = &self.answer;
        let (wait, reset_in) = (self.wait.brief(), reset_in.brief());
        match (*allowed, *shadow) {
            (true, false) => {
                writeln!(f, "allowed: it would owe {reset_in} of at most {depth}; {remaining} left")
            }
            (true, true) if self.is_without_room => {
                writeln!(f, "allowed: denied for {wait} if it were not for the shadow")
            }
            (false, _) if self.is_without_room => {
                writeln!(f, "denied: {wait} until a bucket nearby is full, and so makes room")
            }
            (true, true) => {
                write!(f, "allowed: {price} more is {wait} too much; ")?;
                writeln!(f, "denied for {wait} if it were not for the shadow")
            }
            (false, _) => {
                writeln!(f, "denied: {price} more is {wait} too much; allowed in {wait}")
            }
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} for {}", self.limit, self.id)?;
        writeln!(f, "  bucket   {}", self.bucket)?;
        self.fmt_limit(f)?;
        if self.shadow {
            writeln!(f, "  shadow   it decides and counts, but denies nobody")?;
        }
        self.fmt_arithmetic(f)
    }
}

/// How long one token takes: not always a whole number of nanoseconds.
struct Interval {
    nanos: u64,
    per: u64,
}

impl Interval {
    fn of(limit: &Limit) -> Self {
        let (nanos, per) = limit.rule().emission_interval();
        Self { nanos, per }
    }

    /// Rounded up, as every wait is.
    fn times(&self, tokens: u64) -> Nanos {
        Nanos::new((u128::from(self.nanos) * u128::from(tokens)).div_ceil(self.per.into()))
    }
}

/// `18s`, or, where it is no whole number of nanoseconds, `333.4ms (1000000000/3 ns)`.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.times(1).brief())?;
        if self.per == 1 { Ok(()) } else { write!(f, " ({}/{} ns)", self.nanos, self.per) }
    }
}
