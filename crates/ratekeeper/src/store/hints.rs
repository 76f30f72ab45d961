//! Where buckets are likely to be.

use std::sync::atomic::{AtomicU32, Ordering};

use super::shard_memory::ShardMemory;
use super::table::{ShardTable, home_of};
use crate::algorithm::Algorithm;

/// Where buckets are likely to be, for asking for their memory without a lock. Apart from the shards,
/// because processors take those from each other all the time, and these seldom change.
pub(super) struct Hints<A: Algorithm> {
    pub(super) first: ShardMemory<A>,
    /// How many homes each shard has.
    pub(super) capacities: Box<[AtomicU32]>,
}

impl<A: Algorithm> Hints<A> {
    /// Of so many shards, whose parts of the memory begin at `first`. Nothing is known of them yet.
    pub(super) fn new(first: ShardMemory<A>, shards: usize) -> Self {
        Self { first, capacities: (0..shards).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Remembers how many homes a shard has now.
    pub(super) fn tell(&self, shard: usize, table: &ShardTable<A>) {
        let capacity = u32::try_from(table.capacity()).unwrap_or(u32::MAX);
        let hint = &self.capacities[shard];
        // What is written takes the line from all processors that read it, also if it is the same.
        if hint.load(Ordering::Relaxed) != capacity {
            hint.store(capacity, Ordering::Relaxed);
        }
    }

    /// Where a bucket of a shard with this upper half has its home.
    #[inline]
    pub(super) fn address(&self, shard: usize, upper: u64) -> usize {
        let capacity = self.capacities[shard].load(Ordering::Relaxed);
        self.first.address(shard, home_of(upper, capacity as usize))
    }
}
