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
pub(crate) struct Bell {
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

impl Bell {
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
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_future_is_polled_at_first_and_whenever_it_was_woken() {
        let (mut bell, task) = (Bell::new(), Arc::new(Task::default()));
        let (waker, inner) = (Waker::from(Arc::clone(&task)), Mutex::new(None));
        let mut future = pin!(poll_fn(|context| {
            *inner.lock() = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        let mut is_polled =
            || bell.poll(future.as_mut(), &mut Context::from_waker(&waker)).is_some();
        for woken in 0..3 {
            assert!(is_polled());
            assert!(!is_polled() && !is_polled());
            assert_eq!(task.0.load(Ordering::SeqCst), woken);
            inner.lock().take().unwrap().wake();
        }
    }

    #[test]
    fn whichever_task_polled_last_is_woken() {
        let (mut bell, inner) = (Bell::new(), Mutex::new(None));
        let mut future = pin!(poll_fn(|context| {
            inner.lock().get_or_insert_with(|| context.waker().clone());
            Poll::<()>::Pending
        }));
        let tasks = [(); 2].map(|()| Arc::new(Task::default()));
        for task in &tasks {
            let waker = Waker::from(Arc::clone(task));
            let _ = bell.poll(future.as_mut(), &mut Context::from_waker(&waker));
        }
        inner.lock().take().unwrap().wake();
        assert_eq!(tasks.map(|task| task.0.load(Ordering::SeqCst)), [0, 1]);
    }
}
