use ratekeeper::store::Secret;

use super::*;

const LENGTH: Nanos = Nanos::new(50_000_000);

fn at(millis: u64) -> Moment {
    Moment::from_nanos(1_000_000_000 + millis * 1_000_000)
}

#[test]
fn a_lease_doubles_while_it_is_used_up_in_time_and_begins_anew_when_it_is_not() {
    let (leases, bucket) = (Leases::new(), Secret::new(1, 2).seal().fingerprint(b"a"));
    let take = |millis| leases.take(bucket, 1, 8, LENGTH, at(millis));
    assert_eq!(take(0), Take::Exact);
    for (fetch, left) in [(2, 1), (4, 3), (8, 7), (8, 7)] {
        assert_eq!(take(1), Take::Fetch(fetch));
        assert_eq!(take(1), Take::Exact, "while it is being fetched");
        assert_eq!(leases.granted(bucket, fetch, 1, LENGTH, at(1)), left);
        for left in (0..left).rev() {
            assert_eq!(take(2), Take::Here(left));
        }
    }
    assert_eq!(take(60), Take::Exact, "its time is over");
    assert_eq!(take(61), Take::Fetch(8), "as many as were used");
    leases.refused(bucket);
    assert_eq!(take(62), Take::Fetch(2));
}

#[test]
fn what_is_taken_next_is_what_was_used_and_nothing_is_taken_after_a_silence() {
    let (leases, bucket) = (Leases::new(), Secret::new(1, 2).seal().fingerprint(b"a"));
    let take = |millis| leases.take(bucket, 1, 100, LENGTH, at(millis));
    take(0);
    assert_eq!(take(0), Take::Fetch(2));
    assert_eq!(leases.granted(bucket, 40, 1, LENGTH, at(0)), 39);
    for left in (20..39).rev() {
        assert_eq!(take(1), Take::Here(left));
    }
    assert_eq!(take(50), Take::Exact);
    assert_eq!(take(51), Take::Fetch(20), "20 of 40 were used");
    leases.granted(bucket, 20, 1, LENGTH, at(51));
    assert_eq!(take(151), Take::Exact);
    assert_eq!(take(152), Take::Fetch(2), "nobody asked for as long as the lease again");
}

#[test]
fn a_fetch_that_was_given_up_is_not_waited_for_for_ever() {
    let (leases, bucket) = (Leases::new(), Secret::new(1, 2).seal().fingerprint(b"a"));
    let take = |millis| leases.take(bucket, 1, 8, LENGTH, at(millis));
    assert_eq!([take(0), take(1)], [Take::Exact, Take::Fetch(2)]);
    assert_eq!([take(2), take(10_049)], [Take::Exact, Take::Exact]);
    assert_eq!([take(10_050), take(10_051)], [Take::Exact, Take::Fetch(2)]);
}

#[test]
fn what_is_left_at_the_end_of_its_time_is_lost() {
    let (leases, bucket) = (Leases::new(), Secret::new(1, 2).seal().fingerprint(b"a"));
    leases.take(bucket, 1, 8, LENGTH, at(0));
    leases.take(bucket, 1, 8, LENGTH, at(0));
    assert_eq!(leases.granted(bucket, 2, 1, LENGTH, at(0)), 1);
    assert_eq!(leases.take(bucket, 1, 8, LENGTH, at(50)), Take::Exact);
}
