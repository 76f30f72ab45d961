use std::sync::Barrier;
use std::thread;

use super::Lock;

const THREADS: u64 = 8;
const TURNS: u64 = 20_000;

#[test]
fn one_at_a_time_holds_it_and_sees_what_the_last_one_did() {
    let (lock, start) = (Lock::new((0_u64, 0_u64)), Barrier::new(8));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..TURNS {
                    let mut pair = lock.lock();
                    assert_eq!(pair.0, pair.1, "somebody else is in the middle of it");
                    pair.0 += 1;
                    std::hint::black_box(&mut *pair);
                    pair.1 += 1;
                }
            });
        }
    });
    assert_eq!(*lock.lock(), (THREADS * TURNS, THREADS * TURNS));
}

#[test]
fn who_waits_for_long_gets_it_in_the_end() {
    let lock = Lock::new(0_u32);
    let held = lock.lock();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| *lock.lock() += 1)).collect();
        // Long enough for each of them to have stopped looking at once.
        for _ in 0..10_000 {
            assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "it is held");
            thread::yield_now();
        }
        drop(held);
    });
    assert_eq!(*lock.lock(), 3);
}

#[test]
fn a_panic_gives_it_back() {
    let lock = Lock::new(0_u32);
    let panicked = thread::scope(|scope| {
        let panics = || {
            let _held = lock.lock();
            panic!("while it is held");
        };
        scope.spawn(panics).join().is_err()
    });
    assert!(panicked);
    assert_eq!(*lock.lock(), 0);
}
