//! What lies between a caller and a server.

use crate::random::Random;

/// Delays of requests and answers, each way for itself.
#[derive(Clone, Debug)]
pub struct Network {
    random: Random,
    /// What every way takes at least, in nanoseconds.
    pub least: u64,
    /// What most ways take more than that, on average.
    pub jitter: u64,
    /// How many of a thousand answers are late.
    pub late_of_1000: u64,
    /// By how much, at most.
    pub late: u64,
}

impl Network {
    /// A network as between machines on one continent: 20 ms each way at least, 10 ms more on
    /// average, and four answers in a thousand up to two seconds late.
    pub fn usual(seed: u64) -> Self {
        let random = Random::new(seed);
        let late = 2_000_000_000;
        Self { random, least: 20_000_000, jitter: 10_000_000, late_of_1000: 4, late }
    }

    /// How long a request is under way.
    pub fn out(&mut self) -> u64 {
        // The sum of two dice: most are near the average, none is beyond twice of it.
        self.least + self.random.below(self.jitter + 1) + self.random.below(self.jitter + 1)
    }

    /// How long its answer is under way.
    pub fn back(&mut self) -> u64 {
        let late = self.random.chance(self.late_of_1000, 1000);
        let late = if late { self.random.below(self.late + 1) } else { 0 };
        self.out() + late
    }
}
