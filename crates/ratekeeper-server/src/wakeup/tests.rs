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
    let (mut wakeup, task) = (WakeFlag::new(), Arc::new(Task::default()));
    let (waker, inner) = (Waker::from(Arc::clone(&task)), Mutex::new(None));
    let mut future = pin!(poll_fn(|context| {
        *inner.lock() = Some(context.waker().clone());
        Poll::<()>::Pending
    }));
    let mut is_polled = || wakeup.poll(future.as_mut(), &mut Context::from_waker(&waker)).is_some();
    for woken in 0..3 {
        assert!(is_polled());
        assert!(!is_polled() && !is_polled());
        assert_eq!(task.0.load(Ordering::SeqCst), woken);
        inner.lock().take().unwrap().wake();
    }
}

#[test]
fn whichever_task_polled_last_is_woken() {
    let (mut wakeup, inner) = (WakeFlag::new(), Mutex::new(None));
    let mut future = pin!(poll_fn(|context| {
        inner.lock().get_or_insert_with(|| context.waker().clone());
        Poll::<()>::Pending
    }));
    let tasks = [(); 2].map(|()| Arc::new(Task::default()));
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        let _ = wakeup.poll(future.as_mut(), &mut Context::from_waker(&waker));
    }
    inner.lock().take().unwrap().wake();
    assert_eq!(tasks.map(|task| task.0.load(Ordering::SeqCst)), [0, 1]);
}
