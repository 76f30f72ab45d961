use std::collections::{HashMap, HashSet};

use ratekeeper_testkit::random::Random;

use super::{Counted, ID_TEXT_BYTES_MAX, SKETCH_IDS, Sketch, Summary};

const ASKS: u64 = 20_000;

/// Keys are fingerprints: all their bits are as good as random.
fn key(id: u64) -> u128 {
    let mut random = Random::new(id);
    u128::from(random.bits()) << 64 | u128::from(random.bits())
}

/// A sketch beside the truth.
#[derive(Default)]
struct Compared {
    sketch: Sketch,
    exact: HashMap<u64, u64>,
}

impl Compared {
    fn count(&mut self, id: u64) {
        let text = format!("id-{id}");
        self.sketch.count(key(id), || &text);
        *self.exact.entry(id).or_default() += 1;
    }
}

/// The law: no count is too low, none more than its error too high, and whoever made more than a
/// `SKETCH_IDS`-th of all asks is there.
fn assert_lawful(summary: &Summary, exact: &HashMap<u64, u64>, what: &str) {
    let asks: u64 = exact.values().sum();
    assert_eq!(summary.asks, asks, "{what}");
    let listed = summary.clone().busiest(usize::MAX);
    let id = |it: &Counted| it.id["id-".len()..].parse::<u64>().unwrap();
    for it in &listed {
        let truth = exact[&id(it)];
        assert!(it.count - it.error <= truth && truth <= it.count, "{what}: {it:?} is {truth}");
    }
    assert!(listed.is_sorted_by(|a, b| a.count >= b.count), "{what}");
    let there: HashSet<u64> = listed.iter().map(id).collect();
    let is_listed = |id: &u64| there.contains(id);
    let share = asks / SKETCH_IDS as u64;
    for (id, count) in exact.iter().filter(|(_, count)| **count > share) {
        assert!(is_listed(id), "{what}: {id} made {count} of {asks} asks");
    }
    let unlisted = exact.iter().filter(|(id, _)| !is_listed(id)).map(|(_, count)| *count);
    assert!(unlisted.max().unwrap_or(0) <= summary.unlisted, "{what}");
}

/// Ids of which the first few come often, to the degree of `skew`.
fn draw(random: &mut Random, ids: u64, skew: u64) -> u64 {
    (0..skew).fold(random.below(ids), |id, _| id.min(random.below(ids)))
}

#[test]
fn no_count_is_too_low_and_none_is_more_than_its_error_too_high() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let ids = random.log_between(1, 1 << 20);
        let skew = random.below(20);
        let mut compared = Compared::default();
        for _ in 0..ASKS {
            compared.count(draw(&mut random, ids, skew));
        }
        let what = format!("seed {seed}, {ids} ids, skew {skew}");
        assert_lawful(&compared.sketch.summary(), &compared.exact, &what);
    }
}

#[test]
fn several_sketches_together_keep_the_law() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let ids = random.log_between(1, 1 << 20);
        let skew = random.below(20);
        let mut parts: Vec<Compared> = (0..=random.below(8)).map(|_| Compared::default()).collect();
        for _ in 0..ASKS {
            let part = random.index(parts.len());
            parts[part].count(draw(&mut random, ids, skew));
        }
        let (mut all, mut exact) = (Summary::default(), HashMap::new());
        for part in parts {
            all.add(part.sketch.summary());
            part.exact.iter().for_each(|(id, count)| *exact.entry(*id).or_default() += count);
        }
        assert_lawful(&all, &exact, &format!("seed {seed}, {ids} ids, skew {skew}"));
    }
}

#[test]
fn as_many_ids_as_there_is_room_for_are_counted_exactly() {
    let mut compared = Compared::default();
    for round in 0..50 {
        for id in 0..SKETCH_IDS as u64 {
            if round <= id {
                compared.count(id);
            }
        }
    }
    let listed = compared.sketch.summary().busiest(usize::MAX);
    assert_eq!(listed.len(), SKETCH_IDS);
    assert!(listed.iter().all(|it| it.error == 0));
    assert_lawful(&compared.sketch.summary(), &compared.exact, "exact");
}

#[test]
fn whoever_asks_often_is_found_among_a_million_who_ask_once() {
    let mut sketch = Sketch::default();
    for id in 0..1_000_000 {
        sketch.count(key(id), || "somebody");
        if id % 100 == 0 {
            sketch.count(u128::MAX, || "ada");
        }
    }
    let first = &sketch.summary().busiest(1)[0];
    assert_eq!(first.id, "ada");
    assert!((10_000..=10_000 + first.error).contains(&first.count), "{first:?}");
}

#[test]
fn ids_that_come_once_are_seldom_written() {
    let (mut sketch, mut written) = (Sketch::default(), 0);
    for id in 0..100_000 {
        sketch.count(key(id), || {
            written += 1;
            "somebody"
        });
    }
    assert!(written < 5_000, "{written}");
}

#[test]
fn memory_does_not_grow_with_ids() {
    let mut sketch = Sketch::default();
    for id in 0..SKETCH_IDS as u64 {
        sketch.count(key(id), || "short");
    }
    let full = sketch.bytes();
    let long = "x".repeat(512);
    for id in 0..1_000_000 {
        sketch.count(key(id), || &long);
    }
    assert_eq!(sketch.bytes(), full);
    assert!(full < 28 << 10, "{full}");
}

#[test]
fn a_long_id_is_cut_between_characters() {
    for id in ["é".repeat(200), "x".repeat(ID_TEXT_BYTES_MAX + 1), "€".repeat(43)] {
        let mut sketch = Sketch::default();
        sketch.count(1, || &id);
        let kept = sketch.summary().busiest(1).remove(0).id;
        assert!(kept.len() <= ID_TEXT_BYTES_MAX && kept.len() > ID_TEXT_BYTES_MAX - 6, "{kept}");
        let begin = kept.strip_suffix('…').unwrap();
        assert!(id.starts_with(begin), "{kept}");
    }
    let whole = "x".repeat(ID_TEXT_BYTES_MAX);
    let mut sketch = Sketch::default();
    sketch.count(1, || &whole);
    assert_eq!(sketch.summary().busiest(1)[0].id, whole);
}
