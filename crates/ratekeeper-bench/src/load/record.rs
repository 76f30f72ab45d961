//! Every decision of a run, to be judged when it is over.

use ratekeeper::Moment;
use ratekeeper_oracle::trace::{NEVER, Said, Seen};

use super::tally::Asked;
use super::wire::Answer;

/// How many decisions are recorded of one run; they take 24 bytes each.
pub(crate) const DECISIONS_MAX: usize = 50_000_000;

/// What was asked for, and what was seen of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    /// In nanoseconds since the run began.
    sent: u64,
    received: u64,
    pub(crate) key: u32,
    said: Said,
}

/// The decisions of a run, in the order in which they were answered.
#[derive(Debug)]
pub(crate) struct Record {
    start: Moment,
    decisions: Vec<Decision>,
    most: usize,
    /// How many answers were errors, and so no decisions.
    pub(crate) errors: u64,
    /// How many answers were decisions, whether there was room for them or not.
    pub(crate) answered: u64,
    /// How many nobody answered.
    pub(crate) lost: u64,
    /// When the first was sent that there was no room for.
    unrecorded_from: u64,
}

impl Record {
    /// An empty one of a run that begins now.
    pub(crate) fn new(start: Moment, most: usize) -> Self {
        let (decisions, unrecorded_from) = (Vec::new(), NEVER);
        Self { start, decisions, most, errors: 0, answered: 0, lost: 0, unrecorded_from }
    }

    /// A request was answered.
    pub(crate) fn answer(&mut self, asked: &Asked, received: Moment, answer: &Answer<'_>) {
        let said = match answer {
            Answer::Allowed => Said::Allowed,
            Answer::Denied => Said::Denied,
            Answer::Error(_) => {
                self.errors += 1;
                return;
            }
        };
        self.answered += 1;
        let received = self.since_start(received);
        self.push(asked, received, said);
    }

    /// Nobody waits for the answer to a request any more.
    pub(crate) fn lose(&mut self, asked: &Asked) {
        self.lost += 1;
        self.push(asked, NEVER, Said::Nothing);
    }

    /// All of them, those of one key behind each other.
    pub(crate) fn by_key(mut self) -> Vec<Decision> {
        let from = self.unrecorded_from;
        for decision in &mut self.decisions {
            // What is not in the record may have been spent before it was denied.
            if decision.said == Said::Denied && decision.received >= from {
                (decision.said, decision.received) = (Said::Nothing, NEVER);
            }
        }
        self.decisions.sort_unstable_by_key(|decision| decision.key);
        self.decisions
    }

    fn push(&mut self, asked: &Asked, received: u64, said: Said) {
        let sent = self.since_start(asked.sent);
        if self.decisions.len() >= self.most {
            self.unrecorded_from = self.unrecorded_from.min(sent);
            return;
        }
        let key = u32::try_from(asked.key).unwrap_or(u32::MAX);
        self.decisions.push(Decision { sent, received, key, said });
    }

    fn since_start(&self, moment: Moment) -> u64 {
        u64::try_from(moment.since(self.start).get()).unwrap_or(NEVER - 1)
    }
}

impl From<&Decision> for Seen {
    fn from(decision: &Decision) -> Self {
        let Decision { sent, received, said, .. } = *decision;
        Self { sent, received, said }
    }
}

#[cfg(test)]
mod tests;
