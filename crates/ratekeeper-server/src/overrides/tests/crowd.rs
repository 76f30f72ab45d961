//! Changes from several threads while others spend.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{OverridesFixture, audit, left, put, remove, spend};

const WRITERS: u64 = 4;
const CHANGES: u64 = 25;

#[test]
fn changes_at_the_same_time_lose_neither_overrides_nor_spends() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    // Room for all that is spent, so that every spend counts.
    put(&server, "shared", 1_000_000_000).unwrap();
    let (is_over, spent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(spend(&server, "shared", 1));
                    spent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let server = &server;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    for change in 0..CHANGES {
                        put(server, &format!("{writer}-{change}"), 100).unwrap();
                        put(server, "shared", 1_000_000_001 + writer * CHANGES + change).ok();
                        put(server, &format!("{writer}-gone"), 100).unwrap();
                        remove(server, &format!("{writer}-gone")).unwrap();
                        server.reload().unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let burst = server.override_of("Orders", "shared").unwrap().terms.burst();
    let spent = spent.load(Ordering::Relaxed);
    assert!(spent > 1000, "there was no load: {spent}");
    assert_eq!(left(&server, "shared"), burst - spent, "exactly what was spent is missing");
    let expected = usize::try_from(WRITERS * CHANGES + 1).unwrap();
    assert_eq!(server.override_counts().at_run_time, expected);
    let told = audit(&server);
    let server = fixture.restart(server);
    assert_eq!(server.override_counts().at_run_time, expected);
    assert_eq!(audit(&server), told);
    for writer in 0..WRITERS {
        for change in 0..CHANGES {
            assert_eq!(left(&server, &format!("{writer}-{change}")), 100);
        }
        assert_eq!(left(&server, &format!("{writer}-gone")), 5);
    }
}
