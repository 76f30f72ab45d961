//! Looking for more work for a while before sleeping.
//!
//! A thread that sleeps has to be woken, which can take longer than the work that it is woken for.
//! Here it is the runtime that would sleep; a future that wants to be polled again at once keeps it
//! looking at its sockets and timers instead, whatever they belong to.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use ratekeeper::{Moment, Nanos};
use tokio::task::yield_now;

use crate::wakeup::WakeFlag;

/// After looking so often in vain, it is only tried now and then,
const MISSES_MAX: u32 = 4;
/// which is one of so many times: work may come sooner again.
const TRY_AGAIN: u32 = 32;

/// How often a task looks by itself before all others have their turn again: at least,
const LOOKS_MIN: usize = 8;
/// and at most, if nothing comes for others.
const LOOKS_MAX: usize = 32;

/// How a thread looks for more work, and how long.
///
/// The runtime looks for whatever any task waits for. Where something has just come, most often more
/// comes to the same task; that task looks by itself in between, which is quicker than being told.
pub struct Lookout {
    length: Nanos,
    /// Whether it is worth looking.
    is_on: AtomicBool,
    /// The number of the last task that had something to do.
    turn: AtomicUsize,
    /// How often it is to look by itself.
    looks: AtomicUsize,
    /// Whether a task was polled that had nothing to do but to look.
    has_only_looked: AtomicBool,
}

impl Lookout {
    /// Looks for up to `length` since there was last something to do.
    pub fn new(length: Nanos) -> Self {
        Self {
            length,
            is_on: AtomicBool::new(true),
            turn: AtomicUsize::new(0),
            looks: AtomicUsize::new(LOOKS_MIN),
            has_only_looked: AtomicBool::new(false),
        }
    }

    /// Calls `find` until it finds something, for a task that has just done something. Nothing when
    /// the time is over or another task has something to do: then the runtime is to be waited for.
    pub async fn look<T>(
        &self,
        now: impl Fn() -> Moment,
        mut find: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let since = now();
        loop {
            yield_now().await;
            if self.turn.load(Ordering::Relaxed) != turn {
                self.looks.store(LOOKS_MIN, Ordering::Relaxed);
                return None;
            }
            let looks = self.looks.load(Ordering::Relaxed);
            let found = (0..looks).find_map(|_| find());
            if found.is_some() {
                self.looks.store(LOOKS_MAX.min(2 * looks), Ordering::Relaxed);
                return found;
            }
            self.has_only_looked.store(true, Ordering::Relaxed);
            if now().since(since) >= self.length {
                return None;
            }
        }
    }
}

/// Does `work`, and while it waits has the runtime look for what it waits for, as `lookout` says and
/// `now` tells. To be given to `block_on`: of a runtime that has other tasks, it would also keep those
/// awake.
pub async fn polling<F: Future>(work: F, lookout: &Lookout, now: impl Fn() -> Moment) -> F::Output {
    let mut work = pin!(work);
    let mut wakeup = WakeFlag::new();
    let mut watch = Watch::new(lookout.length, now());
    poll_fn(|context| {
        if let Some(work) = wakeup.poll(work.as_mut(), context) {
            if work.is_ready() {
                return work;
            }
            if !lookout.has_only_looked.swap(false, Ordering::Relaxed) {
                watch.begin(now());
                lookout.is_on.store(watch.is_worth_it(), Ordering::Relaxed);
            }
        }
        if watch.look(now()) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

/// Whether to look, and how long.
struct Watch {
    length: Nanos,
    /// When there was last something to do.
    since: Moment,
    is_looking: bool,
    /// How often work came only after sleeping, since it last came while looking.
    misses: u32,
}

impl Watch {
    fn new(length: Nanos, now: Moment) -> Self {
        Self { length, since: now, is_looking: true, misses: 0 }
    }

    /// There was something to do until now.
    fn begin(&mut self, now: Moment) {
        self.misses = if self.is_looking { 0 } else { self.misses.wrapping_add(1) };
        self.since = now;
    }

    /// What comes now and then is not looked for each time.
    fn is_worth_it(&self) -> bool {
        self.misses < MISSES_MAX || self.misses.is_multiple_of(TRY_AGAIN)
    }

    /// Whether to look once more.
    fn look(&mut self, now: Moment) -> bool {
        self.is_looking = self.is_worth_it() && now.since(self.since) < self.length;
        self.is_looking
    }
}

#[cfg(test)]
mod tests;
