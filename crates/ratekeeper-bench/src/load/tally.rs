//! What became of the requests.

use hdrhistogram::Histogram;
use ratekeeper::{Moment, Nanos};

use super::record::Record;
use super::wire::Answer;

/// The longest that is told apart, in nanoseconds: ten minutes.
const NANOS_MAX: u64 = 600_000_000_000;
/// How many digits of a latency are right.
const DIGITS: u8 = 3;
/// How much of an error is kept, in bytes.
const ERROR_BYTES_MAX: usize = 300;

/// The time in which requests count: not those before, which warm up, nor those after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) begin: Moment,
    pub(crate) end: Moment,
}

impl Window {
    fn has(&self, due: Moment) -> bool {
        self.begin <= due && due < self.end
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// When it should have been sent. Whoever waits, waits from then.
    pub(crate) due: Moment,
    /// When it was.
    pub(crate) sent: Moment,
    pub(crate) key: u64,
    pub(crate) cost: u64,
}

/// How many requests there were, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    /// How many were due, and not sent by the end.
    pub(crate) unsent: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) errors: u64,
    /// How many tokens were granted.
    pub(crate) tokens: u64,
}

impl Counts {
    pub(crate) fn answered(&self) -> u64 {
        self.allowed + self.denied + self.errors
    }

    /// Those that nobody answered.
    pub(crate) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered())
    }
}

/// How long answers took, in nanoseconds.
pub(crate) type Latencies = Histogram<u64>;

/// An empty histogram.
pub(crate) fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, NANOS_MAX, DIGITS)
        .unwrap_or_else(|_| unreachable!("the bounds are constants, and a test makes one of them"))
}

/// The account of one run.
#[derive(Debug)]
pub(crate) struct Tally {
    window: Window,
    pub(crate) counts: Counts,
    pub(crate) latencies: Latencies,
    /// The same since somebody last looked; also while it warms up.
    pub(crate) recent: Option<Recent>,
    pub(crate) first_error: Option<String>,
    /// Every decision, if they are to be judged; also while it warms up.
    pub(crate) record: Option<Record>,
}

/// What happened since somebody last looked.
#[derive(Debug)]
pub(crate) struct Recent {
    pub(crate) counts: Counts,
    pub(crate) latencies: Latencies,
}

impl Tally {
    /// An empty one. Somebody who looks on costs a little time for each answer.
    pub(crate) fn new(window: Window, is_watched: bool) -> Self {
        let recent =
            is_watched.then(|| Recent { counts: Counts::default(), latencies: latencies() });
        let counts = Counts::default();
        Self { window, counts, latencies: latencies(), recent, first_error: None, record: None }
    }

    /// The same, which records every decision.
    pub(crate) fn recording(self, record: Option<Record>) -> Self {
        Self { record, ..self }
    }

    /// A request was sent.
    pub(crate) fn ask(&mut self, asked: &Asked) {
        self.counts.sent += u64::from(self.window.has(asked.due));
    }

    /// A request was answered. The one place that sees every answer, and all that is known of it.
    pub(crate) fn account(&mut self, asked: &Asked, received: Moment, answer: &Answer<'_>) {
        let nanos = nanos_between(asked.due, received);
        if let Some(recent) = &mut self.recent {
            recent.counts.add(asked, answer);
            recent.latencies.saturating_record(nanos);
        }
        if let Some(record) = &mut self.record {
            record.answer(asked, received, answer);
        }
        if !self.window.has(asked.due) {
            return;
        }
        self.counts.add(asked, answer);
        self.latencies.saturating_record(nanos);
        if let (Answer::Error(words), None) = (answer, &self.first_error) {
            let words = &words[..words.len().min(ERROR_BYTES_MAX)];
            self.first_error = Some(String::from_utf8_lossy(words).into_owned());
        }
    }

    /// Some requests that were due were not sent by the end, `now`. Their answers would have come later
    /// still.
    pub(crate) fn leave(&mut self, due: Moment, now: Moment, count: u64) {
        self.counts.unsent += count;
        self.latencies.saturating_record_n(nanos_between(due, now), count);
    }

    /// Nobody waits for the answer to a request any more.
    pub(crate) fn lose(&mut self, asked: &Asked) {
        if let Some(record) = &mut self.record {
            record.lose(asked);
        }
    }

    /// Nobody asks any more: what comes behind does not count. Says what does.
    pub(crate) fn end(&mut self, now: Moment) -> Window {
        self.window.end = self.window.end.min(now);
        self.window
    }

    /// How long the requests could be sent.
    pub(crate) fn length(&self) -> Nanos {
        self.window.end.since(self.window.begin)
    }
}

fn nanos_between(due: Moment, end: Moment) -> u64 {
    u64::try_from(end.since(due).get()).unwrap_or(u64::MAX)
}

impl Counts {
    fn add(&mut self, asked: &Asked, answer: &Answer<'_>) {
        match answer {
            Answer::Allowed => {
                self.allowed += 1;
                self.tokens = self.tokens.saturating_add(asked.cost);
            }
            Answer::Denied => self.denied += 1,
            Answer::Error(_) => self.errors += 1,
        }
    }
}

#[cfg(test)]
mod tests;
