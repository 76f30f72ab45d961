use super::{BOUNDS, Histogram, Latency, Took};

fn took(measured: &[(u64, u64)]) -> Took {
    let histogram = Histogram::default();
    for (nanos, requests) in measured {
        histogram.took(*nanos, *requests);
    }
    let mut took = Took::default();
    took.add(&histogram);
    took
}

#[test]
fn the_bounds_go_from_a_microsecond_to_ten_seconds() {
    assert_eq!(BOUNDS[..4], [1_000, 2_000, 5_000, 10_000]);
    assert_eq!(BOUNDS[21], 10_000_000_000);
    assert!(BOUNDS.is_sorted());
}

#[test]
fn a_bound_is_in_its_bucket_and_what_is_more_in_the_next() {
    let took = took(&[(0, 1), (1_000, 2), (1_001, 4), (10_000_000_000, 8), (u64::MAX, 16)]);
    assert_eq!(took.buckets[..2], [3, 4]);
    assert_eq!(took.buckets[21..], [8, 16]);
    assert_eq!(took.requests(), 31);
}

#[test]
fn percentiles_are_bounds_that_are_not_exceeded() {
    let all = took(&[(1_500, 50), (40_000, 49), (3_000_001, 1)]);
    assert_eq!(all.latency(), Latency { p50_us: 2, p99_us: 50, max_us: 3_001 });
    let more = took(&[(1_500, 50), (40_000, 48), (3_000_001, 2)]);
    assert_eq!(more.latency().p99_us, 3_001);
    assert_eq!(took(&[(1_200, 1)]).latency(), Latency { p50_us: 2, p99_us: 2, max_us: 2 });
    assert_eq!(took(&[]).latency(), Latency::default());
}
