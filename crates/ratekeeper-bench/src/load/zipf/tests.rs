use super::*;

/// How often each of the first numbers came, and how often it should have.
fn counted(count: u64, exponent: f64, draws: u64, shown: usize) -> Vec<(f64, f64)> {
    let (zipf, mut random) = (Zipf::new(count, exponent), Random::new(7));
    let mut counts = vec![0_u64; shown];
    for _ in 0..draws {
        let number = zipf.draw(&mut random);
        assert!((1..=count).contains(&number), "{number}");
        if let Some(count) = counts.get_mut(usize::try_from(number).unwrap() - 1) {
            *count += 1;
        }
    }
    let weight = |k: u64| as_f64(k).powf(-exponent);
    let all: f64 = (1..=count).map(weight).sum();
    let expected = (1..=count).map(|k| as_f64(draws) * weight(k) / all);
    counts.into_iter().map(as_f64).zip(expected).collect()
}

/// Five standard deviations: in so few comparisons none goes so far by chance.
fn is_near((came, expected): (f64, f64)) -> bool {
    (came - expected).abs() <= 5.0 * expected.sqrt() + 1.0
}

#[test]
fn every_number_comes_as_often_as_it_should() {
    for exponent in [0.2, 0.99, 1.0, 1.000_001, 1.5, 3.0] {
        for count in [1, 2, 3, 50] {
            for pair in counted(count, exponent, 200_000, 50) {
                assert!(is_near(pair), "{pair:?} of {count} with s = {exponent}");
            }
        }
    }
}

#[test]
fn ten_million_numbers_need_no_table() {
    for pair in counted(10_000_000, 1.0, 400_000, 20) {
        assert!(is_near(pair), "{pair:?}");
    }
}
