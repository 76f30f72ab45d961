//! Polling a part of a task only when that part was woken.
//!
//! Whenever a task is woken it does not know by what, so it polls all that it waits for. Where most of
//! that seldom has anything to say, asking it each time can take longer than what the task was woken for.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// What one future is woken by. It wakes its task in turn.
pub(crate) struct WakeFlag {
    rope: Arc<Rope>,
    /// Pulls the rope.
    waker: Waker,
    /// Who hears it, as the rope knows it.
    task: Waker,
}

struct Rope {
    was_pulled: AtomicBool,
    task: Mutex<Waker>,
}

impl WakeFlag {
    /// One for a future that was not polled yet.
    pub(crate) fn new() -> Self {
        let task = Waker::noop().clone();
        let was_pulled = AtomicBool::new(true);
        let rope = Arc::new(Rope { was_pulled, task: Mutex::new(task.clone()) });
        Self { waker: Waker::from(Arc::clone(&rope)), rope, task }
    }

    /// Polls the future if it was woken since it was last polled; else says nothing.
    pub(crate) fn poll<F: Future>(
        &mut self,
        future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Option<Poll<F::Output>> {
        // Before looking whether it was pulled: who pulls it later wakes this one.
        if !self.task.will_wake(context.waker()) {
            self.task.clone_from(context.waker());
            self.rope.task.lock().clone_from(context.waker());
        }
        if !self.rope.was_pulled.load(Ordering::Relaxed) {
            return None;
        }
        // Before the future looks: for whatever it does not see yet it is pulled again.
        self.rope.was_pulled.swap(false, Ordering::AcqRel);
        Some(future.poll(&mut Context::from_waker(&self.waker)))
    }
}

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.was_pulled.store(true, Ordering::Release);
        self.task.lock().wake_by_ref();
    }
}

#[cfg(test)]
mod tests;
