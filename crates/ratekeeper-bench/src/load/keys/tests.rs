use super::*;

#[test]
fn a_spread_is_read_as_it_is_written() {
    for text in ["one", "uniform", "zipf:0.9", "zipf:10"] {
        assert_eq!(text.parse::<Spread>().unwrap().to_string(), text);
    }
    assert_eq!("zipf".parse(), Ok(Spread::Zipf(1.0)));
    for wrong in ["", "two", "one:1", "zipf:", "zipf:0", "zipf:-1", "zipf:11", "zipf:nan"] {
        assert!(wrong.parse::<Spread>().is_err(), "{wrong}");
    }
}

#[test]
fn uniform_keys_come_equally_often_and_all_of_them() {
    let mut keys = Keys::new(10, Spread::Uniform, 1);
    let mut counts = [0_u64; 10];
    for _ in 0..100_000 {
        counts[usize::try_from(keys.draw()).unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
}

#[test]
fn one_key_is_one_key_and_zipf_begins_with_the_same() {
    let mut one = Keys::new(10, Spread::One, 1);
    assert!((0..100).all(|_| one.draw() == 0));
    let mut zipf = Keys::new(10, Spread::Zipf(10.0), 1);
    assert!((0..100).filter(|_| zipf.draw() == 0).count() > 90);
}

#[test]
fn runs_draw_alike_only_if_their_seeds_are_the_same() {
    let drawn = |run, connection| -> Vec<u64> {
        let mut keys = Keys::new(KEYS_MAX, Spread::Uniform, seed_of(run, connection));
        (0..10).map(|_| keys.draw()).collect()
    };
    assert_eq!(drawn(7, 3), drawn(7, 3));
    assert_ne!(drawn(7, 3), drawn(7, 4));
    assert_ne!(drawn(7, 3), drawn(8, 3));
    assert_ne!(drawn(0, CONNECTIONS_MAX - 1), drawn(1, 0));
    assert!(!drawn(u64::MAX, 3).is_empty());
}
