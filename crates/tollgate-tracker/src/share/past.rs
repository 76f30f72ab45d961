//! Lives of the server that are over, and in which tokens were taken that nobody has given back.

use std::collections::VecDeque;

use tollgate::Moment;

/// How many are remembered. What an older one lacks is there again when its term ends.
const LIVES_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Past(VecDeque<Over>);

/// A life that is over.
#[derive(Debug)]
struct Over {
    life: u64,
    /// Requests that are not settled yet.
    flying: u32,
    /// When the API has forgotten those that are.
    free_at: Moment,
}

impl Past {
    pub(super) fn add(&mut self, life: u64, flying: u32, free_at: Moment) {
        if self.0.len() >= LIVES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Over { life, flying, free_at });
    }

    /// A request of that life is settled, and the API has forgotten it at a moment.
    pub(super) fn settle(&mut self, life: u64, free_at: Moment) {
        if let Some(over) = self.0.iter_mut().find(|over| over.life == life) {
            over.flying = over.flying.saturating_sub(1);
            over.free_at = over.free_at.max(free_at);
        }
    }

    /// A life of whose tokens none is needed any more.
    pub(super) fn due(&self, now: Moment) -> Option<u64> {
        self.all_settled().find(|over| over.free_at <= now).map(|over| over.life)
    }

    /// When there is one.
    pub(super) fn next(&self) -> Option<Moment> {
        self.all_settled().map(|over| over.free_at).min()
    }

    /// What was taken in that life was given back.
    pub(super) fn forget(&mut self, life: u64) {
        self.0.retain(|over| over.life != life);
    }

    fn all_settled(&self) -> impl Iterator<Item = &Over> {
        self.0.iter().filter(|over| over.flying == 0)
    }
}

#[cfg(test)]
mod tests;
