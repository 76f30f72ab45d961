//! The limits in force, as any number of threads read them.
//!
//! Whoever takes them by [`Snapshot::load`] keeps a reload waiting, and has to say so: two writes
//! that all processors agree on, a quarter of the time of a decision. Many asks at once share that.
//! A single one mostly goes without: see [`recent`](super::recent).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::limits::resolver::Resolver;

pub(super) struct Snapshot {
    current: ArcSwap<Resolver>,
    /// That of `current`, for a look without holding it.
    edition: AtomicU64,
}

impl Snapshot {
    pub(super) fn new(resolver: Resolver) -> Self {
        let edition = AtomicU64::new(resolver.edition());
        Self { current: ArcSwap::from_pointee(resolver), edition }
    }

    /// The limits in force. Who holds them knows that no bucket is carried over to newer ones.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<Resolver>> {
        self.current.load()
    }

    /// Which limits are in force, or were a moment ago.
    #[inline]
    pub(super) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Puts others in force, and returns those that were, to wait for who still holds them.
    pub(super) fn swap(&self, resolver: Resolver) -> Arc<Resolver> {
        let edition = resolver.edition();
        let old = self.current.swap(Arc::new(resolver));
        self.edition.store(edition, Ordering::Release);
        old
    }
}
