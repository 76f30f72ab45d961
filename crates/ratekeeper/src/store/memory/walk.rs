//! Going through all buckets, to forget those that a caller chooses.

use super::{Inside, MemoryStore};
use crate::Moment;
use crate::algorithm::Algorithm;

impl<A: Algorithm> MemoryStore<A> {
    /// Forgets the buckets for which `goes` says so, by what they are. What it can call tells whether
    /// they may be forgotten for free. One shard after the other is locked meanwhile.
    pub fn remove_where(
        &self,
        now: Moment,
        mut goes: impl FnMut(A::Cell, &dyn Fn() -> bool) -> bool,
    ) {
        for shard in &self.shards {
            let Inside { table, book, .. } = &mut *shard.0.lock();
            table.remove_where(book, now, &mut goes);
        }
    }
}
