//! Asks of buckets: what is sent to the script, and what its answer means.

use std::ops::Range;

use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::gcra::{Outcome, Verdict};
use ratekeeper::{Moment, Nanos};
use redis::{Pipeline, Value};

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
#[must_use = "a denial is no error: whoever does not look at it lets everybody pass"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What a store would have answered.
    pub outcome: Outcome,
    /// When it was decided, by the clock that decided.
    pub now: Moment,
    /// Whether tokens are missing that a transaction across slots holds, and may give back.
    pub is_held: bool,
    /// How many tokens are owed besides after it, because the limit was lowered.
    pub hidden: u64,
}

/// What a bucket owed before an ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    /// In ticks of the rule that is asked by.
    pub(crate) debt: u64,
    /// Tokens that are owed besides.
    pub(crate) hidden: u64,
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

    /// How many tokens are owed besides after it, where so much was owed before.
    fn hidden(&self, owed: Owed) -> u64 {
        match self.action {
            Action::Reset => 0,
            Action::Refund if self.cost <= self.rule.burst() => {
                let rest = self.rule.price(self.cost).saturating_sub(owed.debt);
                owed.hidden.saturating_sub(rest / self.rule.emission_interval().0)
            }
            _ => owed.hidden,
        }
    }

    /// The outcome, where so much was owed before.
    pub(crate) fn outcome(&self, owed: Owed) -> Outcome {
        let (rule, debt) = (self.rule, owed.debt);
        match self.action {
            Action::Reset => answer(rule, Verdict::Allow, 0, Nanos::ZERO),
            _ if self.cost > rule.burst() => answer(rule, Verdict::Never, debt, Nanos::ZERO),
            Action::Refund => {
                let left = debt.saturating_sub(rule.price(self.cost));
                let is_given = left < debt || self.hidden(owed) < owed.hidden;
                let verdict = if is_given { Verdict::Allow } else { Verdict::Deny };
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
}

fn answer(rule: &Rule, verdict: Verdict, debt: u64, retry_in: Nanos) -> Outcome {
    let (remaining, reset_in) = (rule.tokens_left(debt), rule.length(debt));
    Outcome { verdict, remaining, retry_in, reset_in }
}

/// How many spends one call decides at most: nothing else is decided meanwhile, for some 0.3 ms.
const SPENDS_MAX: usize = 64;
/// Among how many calls one is looked for that decides by the same rule.
const OPEN_MAX: usize = 4;

/// What one call of the script decides: a transaction whose buckets are all in one slot, or spends
/// by one rule that have nothing to do with each other.
pub(crate) struct Deal<'a> {
    /// All asks of the visit.
    asks: &'a [Ask<'a>],
    /// Which of them.
    places: Vec<usize>,
    are_spends: bool,
    now: Option<Moment>,
}

/// Cuts a visit into calls, such that what is asked of one bucket stays in order. Where there are
/// slots, a call is of one; and transactions that no call can decide are told apart. Then also only
/// spends from the same bucket go together: while a slot moves, others would have to wait for each
/// other.
pub(crate) fn deal<'a>(
    asks: &'a [Ask<'a>],
    now: Option<Moment>,
    has_slots: bool,
) -> (Vec<Deal<'a>>, Vec<Range<usize>>) {
    let (mut deals, mut spread): (Vec<Deal<'a>>, _) = (Vec::new(), Vec::new());
    // Calls before this one are not added to.
    let (mut open, mut first) = (0, 0);
    for transaction in asks.chunk_by(|_, next| next.joined) {
        let places = first..first + transaction.len();
        first = places.end;
        let [ask] = transaction else {
            if has_slots && spans_slots(transaction) {
                spread.push(places);
            } else {
                deals.push(Deal { asks, places: places.collect(), are_spends: false, now });
                open = deals.len();
            }
            continue;
        };
        let are_spends = ask.what() == SPEND;
        if !are_spends {
            open = deals.len() + 1;
        }
        let from = deals.len().saturating_sub(OPEN_MAX).max(open.min(deals.len()));
        let mut latest = deals[from..].iter_mut().rev();
        // Not before another that is about the same bucket.
        let with = latest.find(|deal| deal.suits(ask, has_slots) || deal.concerns(ask.bucket));
        match with.filter(|deal| deal.suits(ask, has_slots)) {
            Some(deal) => deal.places.push(places.start),
            None => deals.push(Deal { asks, places: vec![places.start], are_spends, now }),
        }
    }
    (deals, spread)
}

fn spans_slots(asks: &[Ask<'_>]) -> bool {
    let mut slots = asks.iter().map(|ask| slot(&Kind::Bucket.key(ask.bucket)));
    let first = slots.next();
    slots.any(|slot| Some(slot) != first)
}

impl Deal<'_> {
    /// Whether a spend can be decided by the same call.
    fn suits(&self, ask: &Ask<'_>, has_slots: bool) -> bool {
        let Some(first) = self.asked().next() else { return false };
        self.are_spends
            && self.places.len() < SPENDS_MAX
            && std::ptr::eq(first.rule, ask.rule)
            && micros(first.since) == micros(ask.since)
            && (!has_slots || first.bucket == ask.bucket)
    }

    fn concerns(&self, bucket: &[u8]) -> bool {
        self.asked().any(|ask| ask.bucket == bucket)
    }

    fn asked(&self) -> impl Iterator<Item = &Ask<'_>> {
        self.places.iter().map(|&place| &self.asks[place])
    }

    /// Puts an answer for each ask into `answers`, which has one for each of the visit. Fails if the
    /// reply is not one to this call.
    pub(crate) fn read(&self, reply: &Value, answers: &mut [Result<Answer, Failure>]) {
        let Value::Array(items) = reply else { return self.fail(&nonsense(reply), answers) };
        match items.as_slice() {
            [Value::Int(now @ 0..), debts @ ..] if debts.len() == self.places.len() => {
                let now = moment(now.cast_unsigned());
                for (&place, debt) in self.places.iter().zip(debts) {
                    answers[place] = read_item(&self.asks[place], debt, now);
                }
            }
            _ => self.fail(&nonsense(reply), answers),
        }
    }

    /// None of it was decided.
    pub(crate) fn fail(&self, failure: &Failure, answers: &mut [Result<Answer, Failure>]) {
        for &place in &self.places {
            answers[place] = Err(failure.clone());
        }
    }
}

impl Call for Deal<'_> {
    fn script(&self) -> &'static Script {
        &GCRA
    }

    fn slot(&self) -> u16 {
        self.asked().next().map_or(0, |ask| slot(&Kind::Bucket.key(ask.bucket)))
    }

    fn write(&self, to: &mut Pipeline) {
        to.arg(self.places.len());
        for ask in self.asked() {
            to.arg(Kind::Bucket.key(ask.bucket));
        }
        if !self.are_spends {
            write_moment(self.now, to);
            self.asked().for_each(|ask| ask.write(to));
            return;
        }
        for ask in self.asked() {
            to.arg(ask.rule.price(ask.cost));
        }
        let Some(Ask { rule, since, .. }) = self.asked().next() else { return };
        to.arg(rule.text()).arg(rule.depth_text()).arg(micros(*since));
        if self.now.is_some() || rule.emission_interval().1 != 1 {
            to.arg(rule.rate_text());
        }
        if let Some(now) = self.now {
            to.arg(micros(now));
        }
    }
}

/// The answer to one ask of a call. What is owed is told as below zero if some of it is held; and as
/// text, if tokens are owed besides.
fn read_item(ask: &Ask<'_>, item: &Value, now: Moment) -> Result<Answer, Failure> {
    let both = |text: &[u8]| {
        let (debt, hidden) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        Some((debt.parse::<i64>().ok()?, hidden.parse::<u64>().ok()?))
    };
    let (debt, hidden) = match item {
        Value::Int(debt) => (*debt, 0),
        Value::BulkString(text) => both(text).ok_or_else(|| nonsense(item))?,
        Value::ServerError(error) => return Err(Failure::of_server(error)),
        _ => return Err(nonsense(item)),
    };
    let is_held = debt < 0;
    let debt = if is_held { !debt } else { debt }.cast_unsigned();
    Ok(Answer { is_held, ..read_owed(ask, Owed { debt, hidden }, now)? })
}

/// The answer to an ask whose bucket owed so much.
pub(crate) fn read_owed(ask: &Ask<'_>, owed: Owed, now: Moment) -> Result<Answer, Failure> {
    let debt = owed.debt;
    if debt > ask.rule.depth() {
        let (depth, rule) = (ask.rule.depth(), ask.rule);
        let text = format!("{debt} ticks owed of {depth}, by the rule {rule}");
        return Err(Failure::Nonsense(text));
    }
    Ok(Answer { outcome: ask.outcome(owed), now, is_held: false, hidden: ask.hidden(owed) })
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

#[cfg(test)]
mod tests;
