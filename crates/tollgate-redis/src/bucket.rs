//! Asks of buckets: what is sent to the script, and what its answer means.

use redis::{Pipeline, Value};
use tollgate::algorithm::book::Action;
use tollgate::algorithm::gcra::{Outcome, Verdict};
use tollgate::{Moment, Nanos};

use crate::failure::Failure;
use crate::key::{Kind, slot};
use crate::rule::Rule;
use crate::script::{Call, GCRA, Script};

const NANOS_PER_MICRO: u64 = 1_000;
/// What the script calls a spend that denies its transaction.
const SPEND: &str = "1";

/// One question to one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The bucket, such as `6:ada`. None occurs twice in one transaction.
    pub bucket: &'a [u8],
    /// The rule to decide by.
    pub rule: &'a Rule,
    /// Since when the rule is in force for this bucket: what was spent under another is carried
    /// over as of then.
    pub since: Moment,
    /// What is wanted.
    pub action: Action,
    /// Whether its limit is in shadow: its denial is told, but denies no transaction.
    pub is_shadow: bool,
    /// How many tokens.
    pub cost: u64,
    /// Whether this belongs to the same transaction as the ask before it.
    pub joined: bool,
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What a store would have answered.
    pub outcome: Outcome,
    /// When it was decided, by the clock that decided.
    pub now: Moment,
}

impl Ask<'_> {
    /// Whether this ask, so answered, forbids the transaction that it is part of.
    pub fn vetoes(&self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Allow => false,
            Verdict::Deny => {
                matches!(self.action, Action::CheckAndSpend | Action::CheckOnly) && !self.is_shadow
            }
            Verdict::Never => !self.is_shadow,
        }
    }

    /// The outcome, where `debt` ticks were owed before.
    pub(crate) fn outcome(&self, debt: u64) -> Outcome {
        let rule = self.rule;
        match self.action {
            Action::Reset => answer(rule, Verdict::Allow, 0, Nanos::ZERO),
            _ if self.cost > rule.burst() => answer(rule, Verdict::Never, debt, Nanos::ZERO),
            Action::Refund => {
                let left = debt.saturating_sub(rule.price(self.cost));
                let verdict = if left < debt { Verdict::Allow } else { Verdict::Deny };
                answer(rule, verdict, left, Nanos::ZERO)
            }
            Action::CheckAndSpend | Action::CheckOnly | Action::SpendOnly => {
                let (depth, price) = (rule.depth(), rule.price(self.cost));
                // At most three times 2^53.
                let owed = debt + price;
                if owed > depth {
                    return answer(rule, Verdict::Deny, debt, rule.length(owed - depth));
                }
                let again = (owed + price).saturating_sub(depth);
                answer(rule, Verdict::Allow, owed, rule.length(again))
            }
        }
    }

    /// What the script is to do: see `scripts/gcra.lua`.
    fn what(&self) -> &'static str {
        let is_never = self.cost > self.rule.burst() && self.action != Action::Reset;
        match (is_never, self.is_shadow, self.action) {
            (true, false, _) => "6",
            (true, true, _) | (false, true, Action::CheckOnly) => "7",
            (false, false, Action::CheckAndSpend) => SPEND,
            (false, false, Action::CheckOnly) => "2",
            (false, _, Action::SpendOnly | Action::CheckAndSpend) => "3",
            (false, _, Action::Refund) => "4",
            (false, _, Action::Reset) => "5",
        }
    }

    /// The ask's six arguments.
    pub(crate) fn write(&self, to: &mut Pipeline) {
        let rule = self.rule;
        to.arg(self.what()).arg(rule.text()).arg(rule.rate_text()).arg(rule.depth_text());
        to.arg(rule.price(self.cost)).arg(micros(self.since));
    }

    /// The arguments of the script's shorter form, with the moment.
    fn write_alone(&self, now: Option<Moment>, to: &mut Pipeline) {
        let rule = self.rule;
        to.arg(rule.text()).arg(rule.depth_text());
        to.arg(rule.price(self.cost)).arg(micros(self.since));
        if now.is_some() || rule.emission_interval().1 != 1 {
            to.arg(rule.rate_text());
        }
        if let Some(now) = now {
            to.arg(micros(now));
        }
    }
}

fn answer(rule: &Rule, verdict: Verdict, debt: u64, retry_in: Nanos) -> Outcome {
    let (remaining, reset_in) = (rule.tokens_left(debt), rule.length(debt));
    Outcome { verdict, remaining, retry_in, reset_in }
}

/// A transaction whose buckets are all in one slot.
pub(crate) struct Transaction<'a> {
    pub(crate) asks: &'a [Ask<'a>],
    pub(crate) now: Option<Moment>,
}

impl Call for Transaction<'_> {
    fn script(&self) -> &'static Script {
        &GCRA
    }

    fn slot(&self) -> u16 {
        self.asks.first().map_or(0, |ask| slot(&Kind::Bucket.key(ask.bucket)))
    }

    fn write(&self, to: &mut Pipeline) {
        to.arg(self.asks.len());
        for ask in self.asks {
            to.arg(Kind::Bucket.key(ask.bucket));
        }
        if let [ask] = self.asks
            && ask.what() == SPEND
        {
            return ask.write_alone(self.now, to);
        }
        write_moment(self.now, to);
        for ask in self.asks {
            ask.write(to);
        }
    }
}

impl Transaction<'_> {
    /// Puts an answer for each ask into `answers`. Fails if the reply is not one to this
    /// transaction.
    pub(crate) fn read(&self, reply: &Value, answers: &mut [Result<Answer, Failure>]) {
        match integers(reply).as_deref() {
            Some([now, debts @ ..]) if debts.len() == self.asks.len() => {
                let now = moment(*now);
                for ((ask, &debt), answer) in self.asks.iter().zip(debts).zip(answers) {
                    *answer = read_debt(ask, debt).map(|outcome| Answer { outcome, now });
                }
            }
            _ => answers.fill(Err(nonsense(reply))),
        }
    }
}

/// The outcome of an ask whose bucket owed so much.
pub(crate) fn read_debt(ask: &Ask<'_>, debt: u64) -> Result<Outcome, Failure> {
    if debt > ask.rule.depth() {
        let (depth, rule) = (ask.rule.depth(), ask.rule);
        let text = format!("{debt} ticks owed of {depth}, by the rule {rule}");
        return Err(Failure::Nonsense(text));
    }
    Ok(ask.outcome(debt))
}

/// The numbers of a reply, none of which is negative.
pub(crate) fn integers(reply: &Value) -> Option<Vec<u64>> {
    let Value::Array(items) = reply else { return None };
    let number = |item: &Value| match item {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    items.iter().map(number).collect()
}

/// How much of a reply that makes no sense is shown.
const SHOWN_CHARS_MAX: usize = 120;

pub(crate) fn nonsense(reply: &Value) -> Failure {
    Failure::Nonsense(format!("{reply:?}").chars().take(SHOWN_CHARS_MAX).collect())
}

/// Whole microseconds; what is beyond them has not come yet.
pub(crate) fn micros(moment: Moment) -> u64 {
    moment.as_nanos() / NANOS_PER_MICRO
}

pub(crate) fn moment(micros: u64) -> Moment {
    Moment::from_nanos(micros.saturating_mul(NANOS_PER_MICRO))
}

/// The moment, or nothing for the server's own clock.
pub(crate) fn write_moment(now: Option<Moment>, to: &mut Pipeline) {
    match now {
        Some(now) => to.arg(micros(now)),
        None => to.arg(""),
    };
}
