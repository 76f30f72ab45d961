//! The requests of one connection that were not answered yet.

use std::collections::VecDeque;

use ratekeeper::Moment;

use super::tally::Asked;

/// In the order in which they were sent; those that were answered before older ones leave a gap.
#[derive(Debug)]
pub(crate) struct Flight {
    asked: VecDeque<Option<Asked>>,
    /// The number of the first.
    first: u64,
    /// How many are there, without the gaps.
    count: usize,
}

impl Flight {
    /// Room for so many.
    pub(crate) fn new(depth: usize) -> Self {
        Self { asked: VecDeque::with_capacity(depth), first: 0, count: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many numbers are taken, from the oldest that is not answered.
    pub(crate) fn span(&self) -> usize {
        self.asked.len()
    }

    /// The number that the next one has.
    pub(crate) fn next(&self) -> u64 {
        self.first + u64::try_from(self.asked.len()).unwrap_or(0)
    }

    /// One more was sent.
    pub(crate) fn push(&mut self, asked: Asked) {
        self.asked.push_back(Some(asked));
        self.count += 1;
    }

    /// The oldest.
    pub(crate) fn oldest(&self) -> Option<&Asked> {
        self.asked.front().and_then(Option::as_ref)
    }

    /// The oldest was answered.
    pub(crate) fn take_oldest(&mut self) -> Option<Asked> {
        self.take(self.first)
    }

    /// The one with this number was answered; nothing if it was already, or is given up.
    pub(crate) fn take(&mut self, number: u64) -> Option<Asked> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let asked = self.asked.get_mut(index)?.take()?;
        self.count -= 1;
        while let Some(None) = self.asked.front() {
            self.asked.pop_front();
            self.first += 1;
        }
        Some(asked)
    }

    /// Nobody waits any more for those that were sent until then: `lost` gets each of them.
    pub(crate) fn give_up(&mut self, until: Moment, mut lost: impl FnMut(&Asked)) {
        while let Some(oldest) = self.oldest()
            && oldest.sent <= until
        {
            lost(oldest);
            self.take_oldest();
        }
    }

    /// Nobody waits for any of them any more: `lost` gets each of them.
    pub(crate) fn clear(&mut self, lost: impl FnMut(&Asked)) {
        self.first = self.next();
        self.asked.iter().flatten().for_each(lost);
        self.asked.clear();
        self.count = 0;
    }
}

#[cfg(test)]
mod tests;
