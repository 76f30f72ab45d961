//! What is judged together, and what is told of it.

use ratekeeper::limits::Source;
use ratekeeper::{Limits, Moment};
use ratekeeper_oracle::terms::Terms;
use ratekeeper_protocol::udp::Rules;

use super::*;
use crate::load::tally::Asked;
use crate::load::wire::Answer;
use crate::load::wire::template::Template;

/// So many of each key, all allowed within a millisecond.
fn allowed(keys: u64, times: usize) -> Record {
    let mut record = Record::new(Moment::EPOCH, 1_000);
    let (sent, received) = (Moment::EPOCH, Moment::from_nanos(1_000_000));
    for key in (0..keys).flat_map(|key| std::iter::repeat_n(key, times)) {
        record.answer(&Asked { due: sent, sent, key, cost: 1 }, received, &Answer::Allowed);
    }
    record
}

fn rules(text: &str) -> Law {
    let limits = Limits::new();
    let rules = Rules::parse(&Source { name: "rules", text }, &limits).unwrap();
    Law::Rules { limits, rules: Box::new(rules), key: Template::new(10).text("ws {key}") }
}

#[test]
fn keys_that_share_a_bucket_are_judged_together() {
    let apart = rules("rules: [{match: '^ws ', limit: 8, period: 9}]");
    let together = rules("rules: [{match: '^ws ', limit: 8, period: 9, key: all}]");
    let judgement = Judgement::of(allowed(4, 5), &apart, 1);
    assert_eq!((judgement.keys, judgement.over_admissions), (4, 0));
    let judgement = Judgement::of(allowed(4, 5), &together, 1);
    assert_eq!((judgement.keys, judgement.decisions), (1, 20));
    // A little below 8 after 8 others, so the ninth may pass.
    assert_eq!(judgement.over_admissions, 11);
    assert_eq!(judgement.first_over_admissions[0].key, "all");
}

#[test]
fn what_shares_a_bucket_under_different_rules_is_not_judged() {
    let mixed = rules(
        "rules: [{match: '0$', limit: 1, period: 9, key: a}, {match: 's', limit: 2, period: 9, key: a}]",
    );
    let judgement = Judgement::of(allowed(2, 5), &mixed, 1);
    assert_eq!((judgement.keys, judgement.unjudged, judgement.is_guilty()), (0, 10, false));
    assert!(judgement.lines().iter().any(|line| line.starts_with("unjudged  10: ")));
    assert!(judgement.deviation.is_empty(), "there is no rule to compare with");
}

#[test]
fn only_keys_that_were_judged_are_in_the_table() {
    let law = rules(
        "rules: [{match: '0$', limit: 1, period: 9, key: a}, {match: '1$', limit: 2, period: 9, key: a}, {match: 's', limit: 8, period: 9}]",
    );
    let judgement = Judgement::of(allowed(4, 5), &law, 1);
    assert_eq!((judgement.keys, judgement.unjudged), (2, 10));
    let names: Vec<&str> = judgement.deviation.iter().map(|row| &*row.name).collect();
    assert_eq!(names, ["2 keys", "ws 2", "ws 3"]);
    assert_eq!(judgement.deviation[0].granted, 10);
}

#[test]
fn what_was_not_answered_and_what_is_not_judged_are_counted_apart() {
    let law = rules("rules: [{match: '^ws ', limit: 8, period: 9}]");
    let asked = |key| Asked { due: Moment::EPOCH, sent: Moment::EPOCH, key, cost: 1 };
    let late = Moment::from_nanos(1_000_000);
    let mut record = Record::new(Moment::EPOCH, 3);
    record.answer(&asked(0), late, &Answer::Denied);
    record.answer(&asked(0), late, &Answer::Allowed);
    record.lose(&asked(0));
    // There is no room for these, and they may explain the denial.
    record.answer(&asked(0), late, &Answer::Allowed);
    record.lose(&asked(0));
    let judgement = Judgement::of(record, &law, 1);
    let Judgement { decisions, unanswered, unjudged, .. } = judgement;
    assert_eq!((decisions, unanswered, unjudged), (1, 2, 2));
    assert!(judgement.lines().iter().any(|line| line.starts_with("open      2 unanswered: ")));
}

#[test]
fn those_furthest_above_their_goal_have_rows() {
    let terms = Terms { burst: 5, count: 5, period_ns: 1_000_000_000 };
    let law = Law::Carried(Rule::Tokens { terms, cost: 1 }, Template::new(10).text("k{key}"));
    let mut record = allowed(6, 1);
    let (sent, received) = (Moment::EPOCH, Moment::from_nanos(1_000_000_000));
    for key in [4, 4, 4, 2, 2] {
        record.answer(&Asked { due: sent, sent, key, cost: 1 }, received, &Answer::Allowed);
    }
    let judgement = Judgement::of(record, &law, 1);
    let names: Vec<&str> = judgement.deviation.iter().map(|row| &*row.name).collect();
    assert_eq!(names, ["6 keys", "k4", "k2", "k0"]);
    let row = judgement.deviation[1].row().line(10);
    assert_eq!(
        row,
        "|         k4 |       1.00 |          4 |       4.00 |          5 |     -20.00 |"
    );
}
