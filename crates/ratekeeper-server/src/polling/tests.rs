use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use super::*;

/// A runtime that counts how often it is asked to look again.
#[derive(Default)]
struct Looks(AtomicUsize);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// How often the runtime looked until it slept, for work that comes after each of these pauses;
/// a look takes a microsecond, and work no time.
fn looks(length: u128, pauses: &[u64]) -> Vec<usize> {
    let time = Cell::new(0);
    let now = || Moment::from_nanos(time.get() * 1_000);
    let heard = RefCell::new(None);
    let work = poll_fn(|context| {
        *heard.borrow_mut() = Some(context.waker().clone());
        Poll::<()>::Pending
    });
    let runtime = Arc::new(Looks::default());
    let waker = Waker::from(Arc::clone(&runtime));
    let lookout = Lookout::new(Nanos::new(length * 1_000));
    let mut polled = pin!(polling(work, &lookout, now));
    let mut counts = Vec::new();
    for pause in pauses {
        let until = time.get() + pause;
        let mut count = 0;
        loop {
            runtime.0.store(0, Ordering::SeqCst);
            assert!(polled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            if runtime.0.load(Ordering::SeqCst) == 0 || time.get() >= until {
                break;
            }
            count += 1;
            time.set(time.get() + 1);
        }
        counts.push(count);
        time.set(until);
        heard.take().unwrap().wake();
    }
    counts
}

#[test]
fn it_looks_for_as_long_as_it_is_told_and_sleeps_if_nothing_comes() {
    assert_eq!(looks(50, &[1_000]), [50]);
    assert_eq!(looks(50, &[10, 20, 49, 1_000]), [10, 20, 49, 50]);
}

#[test]
fn it_does_not_look_each_time_for_what_comes_too_late_until_it_comes_sooner() {
    let seldom = [100; 70];
    let counts = looks(50, &seldom);
    let looked: Vec<usize> = (0..seldom.len()).filter(|at| counts[*at] > 0).collect();
    assert_eq!(looked, [0, 1, 2, 3, 32, 64]);
    let sooner = [[100; 10].as_slice(), &[10; 30]].concat();
    let counts = looks(50, &sooner);
    assert!(counts[4..32].iter().all(|looks| *looks == 0), "{counts:?}");
    assert_eq!(counts[32..], [10; 8]);
}

/// What a task that looks by itself for up to 50 us finds, if something is there at the look of this
/// number and others have something to do or not; and how often it looked.
fn finds(at: usize, has_others: bool) -> (Option<usize>, usize) {
    let time = Cell::new(0);
    let lookout = Lookout::new(Nanos::new(50_000));
    let count = Cell::new(0);
    let find = || {
        count.set(count.get() + 1);
        time.set(time.get() + 1_000);
        (count.get() == at).then_some(at)
    };
    let mut looking = pin!(lookout.look(|| Moment::from_nanos(time.get()), find));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(found) = looking.as_mut().poll(&mut context) {
            return (found, count.get());
        }
        if has_others {
            lookout.turn.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_task_finds_what_comes_in_time_and_leaves_the_rest_to_the_runtime() {
    assert_eq!(finds(1, false), (Some(1), 1));
    assert_eq!(finds(50, false), (Some(50), 50));
    let (found, looks) = finds(1_000, false);
    assert!(found.is_none() && (50..50 + LOOKS_MIN).contains(&looks), "{looks}");
    assert_eq!(finds(1, true), (None, 0), "who has something to do goes first");
}

#[test]
fn looking_by_itself_is_nothing_to_do() {
    let time = Cell::new(0);
    let lookout = Lookout::new(Nanos::new(50_000));
    let runtime = Arc::new(Looks::default());
    let waker = Waker::from(Arc::clone(&runtime));
    let now = || Moment::from_nanos(time.get());
    let find = || {
        time.set(time.get() + 1_000);
        None::<()>
    };
    let work = async {
        assert!(lookout.look(now, find).await.is_none());
        std::future::pending::<()>().await;
    };
    let mut polled = pin!(polling(work, &lookout, now));
    for _ in 0..100 {
        runtime.0.store(0, Ordering::SeqCst);
        assert!(polled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(runtime.0.load(Ordering::SeqCst), 0, "it sleeps, and does not begin again");
}
