//! The locks of the store: the latch below, or shuttle's where every interleaving is explored.
//!
//! A shard's lock is held for some fifty nanoseconds, and hardly ever by somebody else. What counts
//! is what it takes to have it and to give it back while nobody waits. A lock that wakes who waits
//! makes two writes that all processors have to agree on, and at the second the processor stops
//! until memory has come, instead of beginning with the next ask. A latch makes one; so nobody is
//! woken, and who waits looks again.

#[cfg(not(feature = "shuttle"))]
pub(super) use latch::{Guard, Lock};
#[cfg(feature = "shuttle")]
pub(super) use shuttled::{Guard, Lock};

#[cfg(not(feature = "shuttle"))]
mod latch {
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use parking_lot::lock_api;

    pub(in crate::store) type Lock<T> = lock_api::Mutex<Latch, T>;
    pub(in crate::store) type Guard<'a, T> = lock_api::MutexGuard<'a, Latch, T>;

    /// Who waits looks so often at once, and up to so often after others had a turn. Whoever holds
    /// it is not running by then, or has a table to move or to copy, which takes longer than a
    /// sleep.
    const LOOKS: u32 = 100;
    const TURNS: u32 = 200;
    const SLEEP: Duration = Duration::from_micros(100);

    /// Whether somebody holds it.
    pub(in crate::store) struct Latch(AtomicBool);

    // SAFETY: only who turns `false` into `true` holds it, and `false` is written by who gives it
    // back. What one did while it held it, the next one sees: the write releases, the turning
    // acquires.
    #[expect(unsafe_code, reason = "a decision on one of many keys takes a tenth less time")]
    unsafe impl lock_api::RawMutex for Latch {
        const INIT: Self = Self(AtomicBool::new(false));
        type GuardMarker = lock_api::GuardSend;

        #[inline]
        fn lock(&self) {
            if !self.try_lock() {
                self.wait();
            }
        }

        #[inline]
        fn try_lock(&self) -> bool {
            let (acquired, failed) = (Ordering::Acquire, Ordering::Relaxed);
            self.0.compare_exchange(false, true, acquired, failed).is_ok()
        }

        #[inline]
        unsafe fn unlock(&self) {
            self.0.store(false, Ordering::Release);
        }
    }

    impl Latch {
        #[cold]
        #[expect(clippy::disallowed_methods, reason = "nobody wakes who waits")]
        fn wait(&self) {
            use lock_api::RawMutex as _;
            let mut looked = 0_u32;
            while self.0.load(Ordering::Relaxed) || !self.try_lock() {
                match looked {
                    ..LOOKS => spin_loop(),
                    LOOKS..TURNS => thread::yield_now(),
                    _ => thread::sleep(SLEEP),
                }
                looked = looked.saturating_add(1);
            }
        }
    }
}

#[cfg(feature = "shuttle")]
mod shuttled {
    use std::sync::PoisonError;

    pub(in crate::store) use shuttle::sync::MutexGuard as Guard;

    #[derive(Debug)]
    pub(in crate::store) struct Lock<T>(shuttle::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(in crate::store) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(in crate::store) fn lock(&self) -> Guard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
