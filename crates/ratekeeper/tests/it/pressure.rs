//! Limits beside each other in a memory that is full.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Decision, Limiter, Moment, Nanos};

const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);
/// More than the smallest memory holds, several times over.
const FLOOD: usize = 100_000;

fn limiter(text: &str) -> Limiter {
    let limits = Limits::parse(&Source { name: "limits.yaml", text }, None).unwrap();
    Limiter::with_secret(limits, MEMORY_MIN, Secret::new(3, 4)).unwrap()
}

fn spend(limiter: &Limiter, limit: &str, id: usize, cost: u64, now: Moment) -> Decision {
    limiter.spend(limit, &format!("id-{id}"), cost, now).unwrap()
}

fn flood(limiter: &Limiter, limit: &str, asks_each: usize) -> usize {
    let passes = |id| {
        let asks = (0..asks_each).map(|_| spend(limiter, limit, id, 1, START).allowed);
        asks.filter(|allowed| *allowed).count()
    };
    (0..FLOOD).map(passes).sum()
}

/// Of 1,000 busy ids, 1,000 that are being denied and 1,000 that are empty and silent, those that are
/// answered otherwise than they would be without a flood.
fn wrong_answers(others: &Limiter, alone: &Limiter, now: Moment) -> usize {
    let answer = |limiter: &Limiter, id| spend(limiter, "Others", id, 1, now);
    (0..3_000).filter(|&id| answer(others, id) != answer(alone, id)).count()
}

const FLOODED: &str = "Flooded: {burst: 3, count: 3, period: 1000h}\n\
                       Others: {burst: 5, count: 5, period: 1h}\n\
                       New: {burst: 100, count: 100, period: 1s}";

#[test]
fn a_flood_of_one_limit_changes_no_answer_of_another() {
    // Once, twice, up to the burst, and beyond it.
    for asks_each in 1..=4 {
        let (flooded, alone) = (limiter(FLOODED), limiter(FLOODED));
        for limiter in [&flooded, &alone] {
            for id in 0..3_000 {
                let cost = if id < 1_000 { 2 } else { 5 };
                assert!(spend(limiter, "Others", id, cost, START).allowed);
                assert!(
                    !(1_000..2_000).contains(&id)
                        || !spend(limiter, "Others", id, 1, START).allowed
                );
            }
        }
        flood(&flooded, "Flooded", asks_each);
        for secs in [0, 1, 720, 1_440] {
            let now = START.after(Nanos::from_secs(secs));
            assert_eq!(wrong_answers(&flooded, &alone, now), 0, "{asks_each} each, {secs} s");
        }
        // Ids that nobody knew before pass as well.
        assert!((0..1_000).all(|id| spend(&flooded, "New", id, 1, START).allowed));
        let held = flooded.holdings();
        let of = |name| held.iter().find(|held| held.limit.as_deref() == Some(name)).unwrap();
        let (others, pressed) = (of("Others").holding, of("Flooded").holding);
        assert_eq!((others.evicted, others.turned_away, others.keys), (0, 0, 3_000));
        assert!(pressed.keys > pressed.share, "what others do not need is there for it");
        assert!(if asks_each < 3 { pressed.evicted > 0 } else { pressed.turned_away > 0 });
    }
}

#[test]
fn a_denial_for_want_of_memory_tells_the_truth() {
    let limiter = limiter("A: {burst: 1, count: 1, period: 1h}");
    flood(&limiter, "A", 1);
    let denied = spend(&limiter, "A", FLOOD, 1, START);
    assert!(!denied.allowed);
    let at = START.after(denied.retry_in);
    assert!(!spend(&limiter, "A", FLOOD, 1, Moment::from_nanos(at.as_nanos() - 1)).allowed);
    assert!(spend(&limiter, "A", FLOOD, 1, at).allowed);
}

#[test]
fn a_limit_may_forget_its_own_ids_rather_than_deny_new_ones() {
    let limiter = limiter(
        "Forgets: {burst: 1, count: 1, period: 1h, on_full: forget}\n\
         Others: {burst: 1, count: 1, period: 1h}",
    );
    for id in 0..1_000 {
        assert!(spend(&limiter, "Others", id, 1, START).allowed);
    }
    assert_eq!(flood(&limiter, "Forgets", 1), FLOOD, "every new id passes");
    for id in 0..1_000 {
        assert!(!spend(&limiter, "Others", id, 1, START).allowed, "{id} was forgotten");
    }
}

#[test]
fn a_limit_that_asks_for_more_has_more() {
    let limiter = limiter(
        "Small: {burst: 1, count: 1, period: 1h}\n\
         Large: {burst: 1, count: 1, period: 1h, share: 3}",
    );
    for id in 0..FLOOD {
        let _ = spend(&limiter, "Small", id, 1, START);
        let _ = spend(&limiter, "Large", id, 1, START);
    }
    let keys = |name: &str| {
        let held = limiter.holdings();
        let held = held.iter().find(|held| held.limit.as_deref() == Some(name)).unwrap();
        assert!(held.holding.keys >= held.holding.share, "{held:?}");
        held.holding.share
    };
    assert_eq!(keys("Large"), 3 * keys("Small"));
}

#[test]
fn two_hundred_limits_at_four_fifths_of_their_shares_notice_no_flood() {
    let names: Vec<_> = (0..200).map(|n| format!("L{n:03}")).collect();
    let line = |name: &String| format!("{name}: {{burst: 1, count: 1, period: 1h}}\n");
    let text: String = names.iter().map(line).collect();
    let limiter = limiter(&format!("{text}Flooded: {{burst: 1, count: 1, period: 1h}}"));
    flood(&limiter, "Flooded", 2);
    // 23,040 keys, of which 15 parts in 16 are shared out among 201.
    let keys = 23_040 * 15 / 16 / 201 * 4 / 5;
    for id in 0..keys {
        for name in &names {
            assert!(spend(&limiter, name, id, 1, START).allowed, "{name} {id}");
        }
        flood_a_little(&limiter, id);
    }
    for id in 0..keys {
        for name in &names {
            assert!(!spend(&limiter, name, id, 1, START).allowed, "{name} {id} was forgotten");
        }
    }
}

fn flood_a_little(limiter: &Limiter, round: usize) {
    for id in 0..200 {
        let _ = spend(limiter, "Flooded", FLOOD + round * 200 + id, 1, START);
    }
}

#[test]
fn what_is_restored_into_less_memory_is_shared_out_too() {
    use ratekeeper::store::saved::{Reader, Writer};
    let texts =
        "Flooded: {burst: 1, count: 1, period: 1h}\nOthers: {burst: 1, count: 1, period: 1h}";
    let limits = || Limits::parse(&Source { name: "limits.yaml", text: texts }, None).unwrap();
    let large = Limiter::with_memory(limits(), 16 << 20).unwrap();
    for id in 0..3_000 {
        assert!(spend(&large, "Others", id, 1, START).allowed);
    }
    flood(&large, "Flooded", 2);
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    large.save(&mut writer, START).unwrap();
    writer.finish().unwrap();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    reader.next_section().unwrap();
    let small = Limiter::restore(limits(), MEMORY_MIN, &mut reader, START).unwrap();
    for id in 0..3_000 {
        assert!(!spend(&small, "Others", id, 1, START).allowed, "{id} was forgotten");
    }
}

#[test]
fn a_flood_of_one_rule_changes_no_answer_of_another() {
    use ratekeeper::Keyed;
    use ratekeeper::algorithm::Owner;
    use ratekeeper::algorithm::average::{Average, Outcome, Rule};
    let rule = |number| Rule::new(1.5, 3_600.0, true).unwrap().owned_by(Owner::new(number));
    let keyed = || Keyed::<Average>::with_secret(MEMORY_MIN, Secret::new(5, 6)).unwrap();
    let use_once = |averages: &Keyed<Average>, rule, key: String, secs| {
        let mut outcome = [Outcome::default()];
        let now = START.after(Nanos::from_secs(secs));
        averages.decide(&[averages.question(&[key.as_bytes()], rule)], &mut outcome, now);
        outcome[0]
    };
    for uses_each in 1..=3 {
        let (flooded, alone) = (keyed(), keyed());
        for averages in [&flooded, &alone] {
            for key in 0..3_000 {
                for _ in 0..key % 3 {
                    use_once(averages, rule(1), format!("key-{key}"), 0);
                }
            }
        }
        for n in 0..FLOOD * uses_each {
            use_once(&flooded, rule(2), format!("flood-{}", n / uses_each), 0);
        }
        for key in 0..3_000 {
            let [there, here] = [&flooded, &alone]
                .map(|averages| use_once(averages, rule(1), format!("key-{key}"), 60));
            assert_eq!(there, here, "{key}, {uses_each} each");
        }
    }
}
