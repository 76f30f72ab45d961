//! Asks of named limits, which rules of the door lead to.

use ratekeeper::limiter::Wherever;
use ratekeeper::limits::Limit;
use ratekeeper::{Batch, Limiter, Moment, Request};
use smallvec::SmallVec;

use super::codec::Verdict;

/// How many asks are usually settled at once.
const USUAL: usize = 64;

/// Asks of named limits, and what they were answered. It is used again, so that asking does not
/// allocate.
#[derive(Default)]
pub(super) struct NamedAsks {
    /// Names and ids, one behind the other.
    text: String,
    asks: Vec<Ask>,
    /// One for each, once all that are due are settled.
    verdicts: Vec<Option<Verdict>>,
    batch: Batch,
}

struct Ask {
    /// Which step it belongs to.
    step: usize,
    /// Where in the text the name begins, the id begins, and it ends.
    at: [usize; 3],
    terms: Limit,
}

impl NamedAsks {
    /// Adds an ask for one token, as part of a step. Returns its place, or nothing where the limit
    /// has no place for the id.
    pub(super) fn push(
        &mut self,
        limiter: &Limiter,
        limit: &str,
        id: &str,
        step: usize,
    ) -> Option<usize> {
        let terms = limiter.terms(limit, id).ok()?;
        let start = self.text.len();
        self.text.push_str(limit);
        let middle = self.text.len();
        self.text.push_str(id);
        self.asks.push(Ask { step, at: [start, middle, self.text.len()], terms });
        self.asks.len().checked_sub(1)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.asks.len()
    }

    /// The limit and the id of the last ask, if it is part of this step.
    pub(super) fn last_of(&self, step: usize) -> Option<(&str, &str)> {
        let ask = self.asks.last().filter(|ask| ask.step == step)?;
        let Request { limit, id, .. } = ask.of(&self.text);
        Some((limit, id))
    }

    /// Takes the tokens of those whose step is due.
    pub(super) async fn settle(
        &mut self,
        limiter: Wherever<'_>,
        is_due: impl Fn(usize) -> bool,
        now: Moment,
    ) {
        let Self { text, asks, verdicts, batch } = self;
        verdicts.resize(asks.len(), None);
        let due = || asks.iter().filter(|ask| is_due(ask.step));
        let requests: SmallVec<[Request<'_>; USUAL]> = due().map(|ask| ask.of(text)).collect();
        if requests.is_empty() {
            return;
        }
        let answers = limiter.batch(batch, &requests, now).await;
        let settled = asks.iter().zip(verdicts).filter(|(ask, _)| is_due(ask.step));
        for ((ask, verdict), answer) in settled.zip(answers.iter()) {
            *verdict = answer.ok().map(|it| verdict_of(&ask.terms, it.allowed, it.remaining));
        }
    }

    /// What an ask was answered, once it is settled; nothing if its limit has gone meanwhile.
    pub(super) fn verdict(&self, place: usize) -> Option<Verdict> {
        self.verdicts.get(place).copied().flatten()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.asks.clear();
        self.verdicts.clear();
    }
}

impl Ask {
    fn of<'t>(&self, text: &'t str) -> Request<'t> {
        let [start, middle, end] = self.at;
        let part = |from, to| text.get(from..to).unwrap_or_default();
        Request::new(part(start, middle), part(middle, end), 1)
    }
}

/// The rate is the number of tokens in use before: so the first use is answered 0.0, as with
/// averages, and a key is over if its rate is the limit.
fn verdict_of(terms: &Limit, is_allowed: bool, remaining: u64) -> Verdict {
    let burst = terms.burst();
    // Also of a shadow that took nothing: its key is not over, so its rate is not the limit.
    let taken = u64::from(is_allowed);
    let in_use = burst.saturating_sub(remaining).saturating_sub(taken);
    let period = std::time::Duration::from(terms.period());
    Verdict {
        over: !is_allowed,
        rate: tokens(in_use),
        limit: tokens(burst),
        period_secs: period.as_secs().max(1),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a burst is far below 2^53")]
fn tokens(count: u64) -> f64 {
    count as f64
}
