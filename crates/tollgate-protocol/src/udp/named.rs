//! Asks of named limits, which rules of the door lead to.

use smallvec::SmallVec;
use tollgate::limiter::Wherever;
use tollgate::limits::Limit;
use tollgate::{Batch, Limiter, Moment, Request};

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
    /// As many as have been settled.
    verdicts: Vec<Option<Verdict>>,
    batch: Batch,
}

struct Ask {
    /// Where in the text the name begins, the id begins, and it ends.
    at: [usize; 3],
    terms: Limit,
}

impl NamedAsks {
    /// Adds an ask for one token. Returns its place, or nothing where the limit has no place for
    /// the id.
    pub(super) fn push(&mut self, limiter: &Limiter, limit: &str, id: &str) -> Option<usize> {
        let terms = limiter.terms(limit, id).ok()?;
        let start = self.text.len();
        self.text.push_str(limit);
        let middle = self.text.len();
        self.text.push_str(id);
        self.asks.push(Ask { at: [start, middle, self.text.len()], terms });
        self.asks.len().checked_sub(1)
    }

    /// Takes the tokens of those that were not settled yet.
    pub(super) async fn settle(&mut self, limiter: Wherever<'_>, now: Moment) {
        let Self { text, asks, verdicts, batch } = self;
        let Some(new @ [_, ..]) = asks.get(verdicts.len()..) else { return };
        let requests: SmallVec<[Request<'_>; USUAL]> = new.iter().map(|ask| ask.of(text)).collect();
        let answers = limiter.batch(batch, &requests, now).await;
        let settled = new.iter().zip(answers.iter()).map(|(ask, answer)| {
            let decision = answer.ok()?;
            Some(verdict(&ask.terms, decision.allowed, decision.remaining))
        });
        verdicts.extend(settled);
    }

    /// What an ask was answered, once it is settled; nothing if its limit has gone meanwhile.
    pub(super) fn verdict(&self, place: usize) -> Option<Verdict> {
        self.verdicts.get(place).copied().flatten()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.asks.len()
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
fn verdict(terms: &Limit, is_allowed: bool, remaining: u64) -> Verdict {
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
