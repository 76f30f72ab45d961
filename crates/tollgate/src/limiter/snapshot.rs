//! The limits in force, as any number of threads read them.
//!
//! Whoever takes them by [`Snapshot::load`] keeps a reload waiting, and has to say so: two writes
//! that all processors agree on, a quarter of the time of a decision. Many asks at once share that.
//! A single one goes without: its thread keeps the limits that it asked by last, and the shard
//! tells, under the lock that is taken anyway, whether its cells are still kept by these.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::limits::resolver::Resolver;

/// Of how many limiters a thread keeps the limits, if it asks them in turn.
const KEPT: usize = 4;

thread_local! {
    /// Of each limiter in its place. What a reload has replaced stays until the thread asks again.
    static LAST: [Cell<Option<Arc<Resolver>>>; KEPT] =
        const { [const { Cell::new(None) }; KEPT] };
}

/// How many snapshots there have been.
static SNAPSHOTS: AtomicUsize = AtomicUsize::new(0);

pub(super) struct Snapshot {
    current: ArcSwap<InForce>,
    /// That of `current`, for a look without holding it.
    edition: AtomicU64,
    /// Where threads keep it.
    place: usize,
}

/// What a reload waits for until nobody holds it. A thread that keeps what is inside does not.
pub(super) struct InForce(Arc<Resolver>);

impl Deref for InForce {
    type Target = Resolver;

    fn deref(&self) -> &Resolver {
        &self.0
    }
}

impl Snapshot {
    pub(super) fn new(resolver: Resolver) -> Self {
        Self {
            edition: AtomicU64::new(resolver.edition()),
            current: ArcSwap::from_pointee(InForce(Arc::new(resolver))),
            place: SNAPSHOTS.fetch_add(1, Ordering::Relaxed) % KEPT,
        }
    }

    /// The limits in force. Who holds them knows that no bucket is carried over to newer ones.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<InForce>> {
        self.current.load()
    }

    /// What `read` makes of limits that were in force a moment ago. Nothing, if the thread kept
    /// none: then it does from now on.
    #[inline]
    pub(super) fn kept<T>(&self, read: impl FnOnce(&Resolver) -> Option<T>) -> Option<T> {
        let edition = self.edition.load(Ordering::Acquire);
        // While a thread ends, it keeps nothing any more.
        let kept = LAST.try_with(|places| {
            let place = &places[self.place];
            let Some(resolver) = place.take().filter(|kept| kept.edition() == edition) else {
                place.set(Some(Arc::clone(&self.load().0)));
                return None;
            };
            let made = read(&resolver);
            place.set(Some(resolver));
            made
        });
        kept.ok().flatten()
    }

    /// Puts others in force, and returns those that were, to wait for who still holds them.
    pub(super) fn swap(&self, resolver: Resolver) -> Arc<InForce> {
        let edition = resolver.edition();
        let old = self.current.swap(Arc::new(InForce(Arc::new(resolver))));
        self.edition.store(edition, Ordering::Release);
        old
    }
}
