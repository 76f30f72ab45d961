//! The level: who may hold how many keys of a full table.

use super::*;

fn owners(owners: &[(u32, u32)]) -> Vec<(f64, f64)> {
    owners.iter().map(|&(keys, weight)| (f64::from(keys), f64::from(weight))).collect()
}

#[test]
fn a_table_is_divided_by_weight_and_what_one_does_not_need_goes_to_others() {
    let level_of = |all: &[(u32, u32)], keys: f64| level(&mut owners(all), keys);
    assert!((level_of(&[(1_000, 1)], 900.0) - 900.0).abs() < 1e-9);
    assert!((level_of(&[(1_000, 1), (1_000, 1)], 900.0) - 450.0).abs() < 1e-9);
    assert!((level_of(&[(1_000, 1), (1_000, 2)], 900.0) - 300.0).abs() < 1e-9);
    // The first needs only 100, so 800 are left for the two others.
    assert!((level_of(&[(100, 1), (1_000, 1), (500, 1)], 900.0) - 400.0).abs() < 1e-9);
    assert!(level_of(&[(100, 1), (200, 1)], 900.0).is_infinite(), "there is room for all");
    assert!(level_of(&[], 900.0).is_infinite());
}

#[test]
fn at_the_level_all_together_hold_what_is_shared_out() {
    let mut random = ratekeeper_testkit::random::Random::new(11);
    for _ in 0..1_000 {
        let mut below = |bound: u64| f64::from(u32::try_from(random.below(bound)).unwrap());
        let all: Vec<_> = (0..40).map(|_| (1.0 + below(5_000), 1.0 + below(9))).collect();
        let sum: f64 = all.iter().map(|(keys, _)| keys).sum();
        let shared_out = sum * below(100) / 100.0;
        let level = level(&mut all.clone(), shared_out);
        let held: f64 = all.iter().map(|(keys, weight)| keys.min(level * weight)).sum();
        assert!((held - shared_out).abs() < 1e-6 * sum, "{held} {shared_out}");
    }
}

#[test]
fn the_level_is_never_older_than_a_part_of_what_is_spare_however_many_owners_there_are() {
    let shares = Shares::new(23_040);
    let mut surveys = 0;
    for key in 0..23_040 {
        // Each key has an owner of its own.
        shares.add(Owner::new(40_000 + key));
        if shares.is_old() {
            shares.survey(|| |_| Share::default());
            surveys += 1;
        }
        let new = shares.new_keys.load(Ordering::Relaxed);
        assert!(new <= 23_040 / SURVEY_PART, "{new}");
    }
    assert!(surveys < 1_000, "{surveys}");
}

#[test]
fn a_level_that_is_wrong_is_worked_out_again_when_it_is_doubted() {
    let shares = Shares::new(1_000);
    for (owner, keys) in [(1, 900), (2, 100)] {
        (0..keys).for_each(|_| shares.add(Owner::new(owner)));
    }
    shares.survey(|| |_| Share::default());
    assert!(!shares.is_old() && shares.is_beyond(Owner::new(1), Share::default()));
    let double = Share::of_hundredths(200, crate::algorithm::OnFull::Deny).unwrap();
    let share = move |owner: Owner| if owner.number() == 1 { double } else { Share::default() };
    assert!(!shares.is_beyond(Owner::new(1), double));
    shares.doubt();
    assert!(shares.is_old());
    shares.survey(|| share);
    assert!(shares.is_beyond(Owner::new(1), double));
}
