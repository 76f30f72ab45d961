use ratekeeper::algorithm::{OnFull, Owner};
use ratekeeper::{Moment, Nanos};

use super::watch::{CALM_TIME, Holder, LOGGED_MAX, Refused, Turn, Watch};

fn at(secs: u64) -> Moment {
    Moment::EPOCH.after(Nanos::from_secs(secs))
}

/// A holder of 20 keys of a share of 10 that was refused so much.
fn holder(number: u32, evicted: u64, turned_away: u64) -> Holder {
    Holder {
        store: "limits",
        owner: Owner::new(number),
        name: format!("L{number}"),
        on_full: Some(OnFull::Deny),
        keys: 20,
        share: 10,
        refused: Refused { evicted, turned_away, share_full: 0 },
        tokens_forgiven: evicted,
    }
}

/// `+` for each beginning and `-` for each end, with the name.
fn told(turns: &[Turn]) -> Vec<String> {
    let word = |turn: &Turn| match turn {
        Turn::Began(short) => format!("+{}", short.holder.name),
        Turn::Ended(short) => format!("-{}", short.holder.name),
        Turn::ManyBegan => "+many".to_owned(),
        Turn::ManyEnded => "-many".to_owned(),
    };
    turns.iter().map(word).collect()
}

#[test]
fn whoever_is_refused_nothing_is_not_short_of_memory() {
    let mut watch = Watch::default();
    for secs in 0..100 {
        assert_eq!(watch.look(&[holder(1, 0, 0)], at(secs)), []);
    }
    assert_eq!((watch.shorts(), watch.sentence()), (0, None));
}

#[test]
fn pressure_ends_when_nothing_happened_for_the_calm_time_and_is_told_twice_in_all() {
    let mut watch = Watch::default();
    let mut turns = Vec::new();
    for secs in 0..30_u64 {
        // One more is evicted every second, up to the tenth.
        turns.extend(watch.look(&[holder(1, secs.min(10), 0)], at(secs)));
        assert_eq!(watch.shorts() == 1, (1..20).contains(&secs), "{secs}");
    }
    let [Turn::Began(began), Turn::Ended(ended)] = &turns[..] else { panic!("{turns:?}") };
    assert_eq!((began.began, began.refused.evicted), (at(1), 1));
    assert_eq!((ended.last, ended.refused.evicted), (at(10), 10));
    assert_eq!(at(20).since(ended.last), CALM_TIME);
    // It begins anew, and counts anew.
    let turns = watch.look(&[holder(1, 12, 0)], at(40));
    let [Turn::Began(again)] = &turns[..] else { panic!("{turns:?}") };
    assert_eq!(again.refused.evicted, 2);
}

#[test]
fn a_share_that_is_full_is_told_though_nothing_is_lost_yet() {
    let full = |share_full| Holder {
        refused: Refused { share_full, ..Refused::default() },
        ..holder(1, 0, 0)
    };
    let mut watch = Watch::default();
    assert_eq!(watch.look(&[full(0)], at(0)), []);
    assert_eq!(told(&watch.look(&[full(3)], at(1))), ["+L1"]);
    let sentence =
        "memory is short for 1 limit: L1 holds 20 keys (its share: 10), its share is full";
    assert_eq!(watch.sentence().unwrap().named, sentence);
    assert_eq!(told(&watch.look(&[full(3)], at(11))), ["-L1"]);
}

#[test]
fn a_number_that_is_given_to_another_limit_counts_anew() {
    let mut watch = Watch::default();
    watch.look(&[holder(1, 500, 0)], at(0));
    assert_eq!(told(&watch.look(&[], at(10))), ["-L1"]);
    assert_eq!(told(&watch.look(&[holder(1, 3, 0)], at(20))), ["+L1"]);
}

#[test]
fn what_happened_before_the_first_look_counts() {
    let mut watch = Watch::default();
    assert_eq!(told(&watch.look(&[holder(1, 0, 3)], at(0))), ["+L1"]);
}

#[test]
fn a_limit_that_holds_nothing_any_more_ends_too() {
    let mut watch = Watch::default();
    watch.look(&[holder(1, 1, 0)], at(0));
    assert_eq!(watch.look(&[], at(9)), []);
    assert_eq!(told(&watch.look(&[], at(10))), ["-L1"]);
}

#[test]
fn a_time_that_steps_back_ends_nothing_early() {
    let mut watch = Watch::default();
    watch.look(&[holder(1, 1, 0)], at(100));
    assert_eq!(watch.look(&[holder(1, 2, 0)], at(50)), []);
    assert_eq!(watch.look(&[holder(1, 2, 0)], at(109)), []);
    assert_eq!(told(&watch.look(&[holder(1, 2, 0)], at(110))), ["-L1"]);
}

#[test]
fn very_many_limits_are_told_in_bounds() {
    let most = u32::try_from(LOGGED_MAX).unwrap();
    let all = |refused| (1..=10 * most).map(|it| holder(it, refused, 0)).collect::<Vec<_>>();
    let mut watch = Watch::default();
    let began = told(&watch.look(&all(1), at(0)));
    assert_eq!(began.len(), LOGGED_MAX + 1);
    assert_eq!(began.last().unwrap(), "+many");
    assert_eq!(watch.shorts(), 10 * LOGGED_MAX);
    assert_eq!(watch.look(&all(2), at(5)), []);
    let ended = told(&watch.look(&all(2), at(15)));
    assert_eq!(ended.len(), LOGGED_MAX + 1);
    assert_eq!(ended.last().unwrap(), "-many");
    assert_eq!(watch.shorts(), 0);
}

#[test]
fn the_sentence_names_a_few_limits_the_most_refused_first() {
    let mut watch = Watch::default();
    let all = [holder(1, 1, 0), holder(2, 0, 9), holder(3, 5, 5), holder(4, 2, 0), holder(5, 0, 1)];
    watch.look(&all[..2], at(0));
    let two = "memory is short for 2 limits: L2 holds 20 keys (its share: 10), new ids are denied; \
               L1 holds 20 keys (its share: 10), ids that owe tokens are forgotten";
    assert_eq!(watch.sentence().unwrap().named, two);
    watch.look(&all, at(1));
    let sentence = watch.sentence().unwrap();
    let start = "memory is short for 5 limits: L3 holds 20 keys (its share: 10), ids that owe tokens \
                 are forgotten, and new ids are denied; L2 ";
    assert!(sentence.named.starts_with(start), "{}", sentence.named);
    assert!(sentence.named.ends_with("; and 2 more"), "{}", sentence.named);
    assert_eq!(sentence.unnamed, "memory is short for 5 limits");
}

#[test]
fn a_name_is_one_line_and_not_too_long() {
    let mut one = holder(1, 1, 0);
    one.name = format!("a\nb\u{1b}{}", "x".repeat(1000));
    let shown = one.shown();
    assert!(shown.starts_with("a\\nb\\u{1b}x") && shown.ends_with("x…"), "{shown}");
    assert!(shown.chars().count() < 80, "{shown}");
}
