use super::*;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn asked(due: u64) -> Asked {
    Asked { due: at(due), sent: at(due + 5), key: 0, cost: 1 }
}

#[test]
fn only_what_is_due_in_the_window_counts_and_from_when_it_was_due() {
    let mut tally = Tally::new(Window { begin: at(1_000), end: at(2_000) }, true);
    for (due, received) in [(999, 1_500), (1_000, 1_100), (1_999, 9_999), (2_000, 2_001)] {
        tally.ask(&asked(due));
        tally.account(&asked(due), at(received), &Answer::Denied);
    }
    tally.ask(&asked(1_500));
    assert_eq!(tally.counts, Counts { sent: 3, denied: 2, ..Counts::default() });
    assert_eq!((tally.counts.answered(), tally.counts.lost()), (2, 1));
    assert_eq!(tally.latencies.min(), 100);
    assert!(tally.latencies.equivalent(tally.latencies.max(), 8_000));
    assert_eq!(tally.recent.unwrap().counts.denied, 4);
}

#[test]
fn the_first_error_is_kept_and_cut() {
    let mut tally = Tally::new(Window { begin: at(0), end: at(10) }, false);
    tally.account(&asked(1), at(2), &Answer::Error(&[b'a'; 1_000]));
    tally.account(&asked(1), at(2), &Answer::Error(b"another"));
    assert_eq!(tally.first_error.unwrap(), "a".repeat(ERROR_BYTES_MAX));
    assert_eq!(tally.counts.errors, 2);
}
