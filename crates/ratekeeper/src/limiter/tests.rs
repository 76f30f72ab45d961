//! Limits by name: mistakes, reloads, explanations.

use super::*;
use crate::limits::Source;
use crate::store::MEMORY_MIN;

const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);

fn at(secs: u64) -> Moment {
    START.after(Nanos::from_secs(secs))
}

fn limits(defaults: &str, overrides: &str) -> Limits {
    let defaults = Source { name: "limits.yaml", text: defaults };
    let overrides = Source { name: "overrides.yaml", text: overrides };
    let overrides = (!overrides.text.is_empty()).then_some(&overrides);
    Limits::parse(&defaults, overrides).unwrap()
}

fn limiter(defaults: &str, overrides: &str) -> Limiter {
    Limiter::with_memory(limits(defaults, overrides), MEMORY_MIN).unwrap()
}

const ORDERS: &str = "NewOrdersPerAccount: {burst: 300, count: 300, period: 180m}";
const MORE: &str = "NewOrdersPerAccount:12345678: {burst: 300, count: 600, period: 180m}";

#[test]
fn an_override_applies_to_its_id_however_it_is_spelled() {
    let limiter = limiter(ORDERS, MORE);
    let _ = limiter.spend("NewOrdersPerAccount", "12345678", 300, START).unwrap();
    let other = limiter.spend("NewOrdersPerAccount", "0012345678", 1, START).unwrap();
    assert_eq!(other.retry_in, Nanos::from_secs(18), "the same bucket, at the override's rate");
    assert_eq!(limiter.bucket_key("NewOrdersPerAccount", "0012345678").unwrap(), "6:12345678");
    let default = limiter.spend("NewOrdersPerAccount", "1", 300, START).unwrap();
    assert!(default.allowed);
    assert_eq!(default.reset_in, Nanos::from_secs(3 * 3600));
}

#[test]
fn what_an_id_is_entitled_to_is_what_is_explained() {
    let shade = "Shade: {burst: 1, count: 1, period: 1s, shadow: true}";
    let limiter = limiter(&format!("{ORDERS}\n{shade}"), MORE);
    let asking = limiter.asking();
    for (limit, id) in
        [("NewOrdersPerAccount", "0012345678"), ("NewOrdersPerAccount", "7"), ("Shade", "ada")]
    {
        let mut buffer = IdBuffer::new();
        let of = asking.entitled(limit, id, &mut buffer).unwrap();
        let told = limiter.explain(limit, id, 1, START).unwrap();
        assert_eq!((*of.terms, of.shadow, of.id), (told.terms, told.shadow, &*told.id));
        assert_eq!(format!("{}:{}", of.prefix, of.id), told.bucket);
        let kept = limiter.account(limit, id).unwrap();
        assert_eq!(format!("{:?}", kept.entitled()), format!("{of:?}"));
    }
    let mut buffer = IdBuffer::new();
    asking.entitled("NewOrdersPerAccount", "ada", &mut buffer).unwrap_err();
}

#[test]
fn what_is_asked_by_the_limits_of_a_moment_is_decided_by_them() {
    let limiter = limiter(ORDERS, "");
    let mut batch = Batch::default();
    let asking = limiter.asking();
    let asks = [("1", 300), ("1", 1), ("ada", 1), ("1", 301), ("1", 0)];
    let asks = asks.map(|(id, cost)| Request::new("NewOrdersPerAccount", id, cost));
    let actions = [Action::CheckOnly, Action::CheckAndSpend, Action::Reset, Action::Refund];
    let action = |place: usize| actions.get(place).copied().unwrap_or(Action::CheckOnly);
    let answers = asking.batch_with(&mut batch, &asks, action, START);
    let left: Vec<_> = answers.iter().map(|it| it.ok().map(|it| it.remaining)).collect();
    assert_eq!(left, [Some(0), Some(299), None, None, Some(299)]);
}

#[test]
fn mistakes_say_what_was_wrong() {
    let limiter =
        limiter(ORDERS, "FailedAuthorizationsPerAccount:1: {burst: 1, count: 1, period: 1s}");
    let spend = |limit, id, cost| limiter.spend(limit, id, cost, START).unwrap_err().to_string();
    assert_eq!(
        spend("NewOrderPerAccount", "1", 1),
        "no limit is called `NewOrderPerAccount`: did you mean `NewOrdersPerAccount`?"
    );
    assert_eq!(spend("Nonsense", "1", 1), "no limit is called `Nonsense`");
    assert_eq!(
        spend("NewOrdersPerAccount", "ada", 1),
        "`ada` is not an id of `NewOrdersPerAccount`: the account is not a decimal number below \
         2^64: expected one such as 12345678 (`NewOrdersPerAccount` is a known name, whose ids are \
         regId: for others, use another name)"
    );
    assert_eq!(
        spend("NewOrdersPerAccount", "1", 301),
        "a cost of 301 is more than `NewOrdersPerAccount` ever holds: its burst is 300"
    );
    assert_eq!(
        spend("FailedAuthorizationsPerAccount", "2", 1),
        "`FailedAuthorizationsPerAccount` has no default, and no override for `2`: add one to the \
         limits files"
    );
    assert_eq!(limiter.held().keys, 0, "nothing was spent");
}

#[test]
fn a_transaction_with_a_mistake_spends_nothing() {
    let limiter = limiter(ORDERS, "");
    let good = Request::new("NewOrdersPerAccount", "1", 1);
    for bad in [
        Request::new("NewOrdersPerAccount", "2", 301),
        Request::new("NewOrdersPerAccount", "2", 301).with_mode(Mode::SpendOnly),
        Request::new("NewOrdersPerAccount", "001", 1),
        Request::new("Nonsense", "2", 1),
    ] {
        assert!(limiter.transaction(&[good, bad], START).is_err(), "{bad:?}");
    }
    assert_eq!(limiter.transaction(&[], START), Err(Mistake::NoAsks));
    let many = vec![good; TRANSACTION_ASKS_MAX + 1];
    assert_eq!(limiter.transaction(&many, START), Err(Mistake::TooManyAsks { asks: 257 }));
    assert_eq!(limiter.held().keys, 0);
}

#[test]
fn in_a_batch_mistakes_stand_where_their_asks_stood() {
    let limiter = limiter(ORDERS, "");
    let ask = |id, cost| Request::new("NewOrdersPerAccount", id, cost);
    let asks = [ask("1", 300), ask("x", 1), ask("1", 301), ask("1", 1), ask("", 1), ask("2", 1)];
    let mut batch = Batch::default();
    for _ in 0..2 {
        let answers = limiter.batch(&mut batch, &asks, START);
        assert_eq!(answers.len(), 6);
        let ok: Vec<_> = answers.iter().map(|answer| answer.is_ok()).collect();
        assert_eq!(ok, [true, false, false, true, false, true]);
        let last = answers.iter().nth(3).unwrap().unwrap();
        assert!(!last.allowed);
    }
}

fn left(limiter: &Limiter, id: &str, now: Moment) -> u64 {
    limiter.check("A", id, 0, now).unwrap().remaining
}

#[test]
fn a_reload_keeps_what_was_spent_and_refills_at_the_new_rate_from_then_on() {
    let limiter = limiter("A: {burst: 100, count: 10, period: 1s}", "");
    let _ = limiter.spend("A", "x", 100, START).unwrap();
    // Two seconds at 10 per second, three at 1 per second, one at 10 per second again.
    limiter.reload(limits("A: {burst: 100, count: 1, period: 1s}", ""), at(2)).unwrap();
    assert_eq!(left(&limiter, "x", at(5)), 23);
    limiter.reload(limits("A: {burst: 100, count: 10, period: 1s}", ""), at(5)).unwrap();
    assert_eq!(left(&limiter, "x", at(6)), 33);
}

#[test]
fn a_reload_that_nobody_noticed_counts_all_the_same() {
    let limiter = limiter("A: {burst: 100, count: 10, period: 1s}", "");
    let _ = limiter.spend("A", "x", 100, START).unwrap();
    limiter.reload(limits("A: {burst: 100, count: 1, period: 1s}", ""), at(1)).unwrap();
    limiter.reload(limits("A: {burst: 100, count: 10, period: 1s}", ""), at(9)).unwrap();
    assert_eq!(left(&limiter, "x", at(10)), 10 + 8 + 10);
}

#[test]
fn an_override_that_comes_and_goes_keeps_what_was_spent() {
    let defaults = "A: {burst: 100, count: 10, period: 1s}";
    let limiter = limiter(defaults, "");
    for id in ["x", "y"] {
        let _ = limiter.spend("A", id, 100, START).unwrap();
    }
    let with = limits(defaults, "A:x: {burst: 200, count: 1, period: 1s}");
    limiter.reload(with, at(1)).unwrap();
    assert_eq!(left(&limiter, "x", at(3)), 200 - 90 + 2);
    assert_eq!(left(&limiter, "y", at(3)), 30, "the other is not concerned");
    limiter.reload(limits(defaults, ""), at(4)).unwrap();
    assert_eq!(left(&limiter, "x", at(5)), 100 - 87 + 10);
}

#[test]
fn an_override_that_comes_with_a_smaller_default_is_not_cut_by_it() {
    let limiter = limiter("A: {burst: 300, count: 1, period: 1h}", "");
    let _ = limiter.spend("A", "x", 100, START).unwrap();
    let new =
        limits("A: {burst: 50, count: 1, period: 1h}", "A:x: {burst: 300, count: 2, period: 1h}");
    limiter.reload(new, START).unwrap();
    assert_eq!(left(&limiter, "x", START), 200);
}

#[test]
fn a_limit_that_was_gone_for_a_while_still_tells_the_truth() {
    let slow = "{burst: 10, count: 1, period: 2s}";
    let limiter = limiter(&format!("A: {slow}"), &format!("A:x: {slow}"));
    let _ = limiter.spend("A", "x", 10, START).unwrap();
    limiter.reload(limits("Z: {burst: 1, count: 1, period: 1s}", ""), at(1)).unwrap();
    limiter.reload(limits("A: {burst: 1, count: 10, period: 1s}", ""), at(2)).unwrap();
    assert_eq!(left(&limiter, "x", at(9)), 1, "it owed one at 2 s, and that is long repaid");
    let denied = limiter.spend("A", "x", 1, at(2)).unwrap();
    assert!(!denied.allowed);
    assert!(limiter.spend("A", "x", 1, at(2).after(denied.retry_in)).unwrap().allowed);
}

#[test]
fn an_override_without_a_default_may_go_and_a_default_come() {
    let name = "FailedAuthorizationsPerAccount";
    let rule = |burst, count| format!("{{burst: {burst}, count: {count}, period: 1s}}");
    let other = "B: {burst: 1, count: 1, period: 1s}";
    let limiter = limiter(other, &format!("{name}:7: {}", rule(100, 1)));
    let _ = limiter.spend(name, "7", 100, START).unwrap();
    limiter.reload(limits(other, ""), at(10)).unwrap();
    assert!(limiter.check(name, "7", 0, at(11)).is_err());
    limiter.reload(limits(&format!("{name}: {}", rule(100, 10)), ""), at(20)).unwrap();
    assert_eq!(limiter.check(name, "7", 0, at(21)).unwrap().remaining, 20 + 10);
}

#[test]
fn the_explanation_shows_the_arithmetic() {
    let limiter = limiter(ORDERS, MORE);
    let _ = limiter.spend("NewOrdersPerAccount", "12345678", 300, START).unwrap();
    let explained = limiter.explain("NewOrdersPerAccount", "012345678", 2, START).unwrap();
    assert_eq!(
        explained.to_string(),
        "NewOrdersPerAccount for 12345678
  bucket   6:12345678
  limit    600 per 3h, burst 300: an override (overrides.yaml:1); the default is 300 per 3h (limits.yaml:1)
  refill   one token every 18s; from empty to full in 1h30m
  now      0 of 300 tokens left; full in 1h30m
  cost 2   denied: 36s more is 36s too much; allowed in 36s
"
    );
    assert_eq!(limiter.check("NewOrdersPerAccount", "12345678", 0, START).unwrap().remaining, 0);
}

#[test]
fn the_explanation_of_a_rate_that_is_not_whole_says_so() {
    let limiter = limiter("A: {burst: 3, count: 3, period: 1s}", "");
    let explained = limiter.explain("A", "x", 1, START).unwrap().to_string();
    assert!(explained.contains("one token every 333.4ms (1000000000/3 ns)"), "{explained}");
    assert!(
        explained.contains("allowed: it would owe 333.4ms of at most 1s; 2 left"),
        "{explained}"
    );
}

#[test]
fn the_terms_are_those_that_a_spend_goes_by() {
    let limiter = limiter(ORDERS, MORE);
    let terms = |id| limiter.terms("NewOrdersPerAccount", id).map(|terms| terms.count());
    assert_eq!(terms("0012345678"), Ok(600));
    assert_eq!(terms("1"), Ok(300));
    assert!(matches!(terms("x"), Err(Mistake::Id { .. })));
    assert!(matches!(limiter.terms("NewOrders", "1"), Err(Mistake::UnknownLimit { .. })));
}

/// How many of many keys, all of them empty at 10 s, are allowed then once another time was looked at.
fn allowed_again_after_a_step_back(limiter: &Limiter) -> usize {
    let keys = |letter: char| (0..2_000).map(move |n| format!("{letter}{n}"));
    for (letter, secs) in [('k', 10), ('j', 20)] {
        keys(letter).for_each(|id| assert!(limiter.spend("L", &id, 1, at(secs)).unwrap().allowed));
    }
    keys('k').filter(|id| limiter.spend("L", id, 1, at(10)).unwrap().allowed).count()
}

#[test]
fn times_may_step_back_where_that_is_expected() {
    let text = "L: {burst: 1, count: 1, period: 1s}";
    // Full buckets are forgotten for free: where that is not said, they were.
    assert!(allowed_again_after_a_step_back(&limiter(text, "")) > 0);
    let patient = limiter(text, "");
    patient.expect_steps_back();
    assert_eq!(allowed_again_after_a_step_back(&patient), 0);
}

#[test]
fn a_mistake_is_one_line_and_short_whatever_was_asked_for() {
    let limiter = limiter("A: {burst: 1, count: 1, period: 1s, id: ipAddress}", "");
    let id = format!("ada\n2026-11-18 INFO all is well\u{1b}[2J\u{202e}{}", "x".repeat(500));
    let mistakes = [
        limiter.spend("A", &id, 1, Moment::EPOCH).unwrap_err(),
        limiter.spend(&id, "ada", 1, Moment::EPOCH).unwrap_err(),
    ];
    for mistake in mistakes {
        let text = mistake.to_string();
        assert!(text.contains("`ada\\n2026-11-18 INFO all is well\\u{1b}[2J\\u{202e}x"), "{text}");
        assert!(text.contains("xx..`") && text.chars().count() < 200, "{text}");
        assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text}");
    }
}

#[test]
fn a_mistake_about_a_known_name_says_where_the_format_comes_from() {
    let text = "NewOrdersPerAccount: {burst: 1, count: 1, period: 1s}";
    let mistake =
        limiter(text, "").spend("NewOrdersPerAccount", "ada", 1, Moment::EPOCH).unwrap_err();
    let text = mistake.to_string();
    assert!(text.ends_with(
        "(`NewOrdersPerAccount` is a known name, whose ids are regId: for others, use another name)"
    ), "{text}");
}

fn narrowed(burst: u64) -> Limits {
    limits(
        "A: {burst: 300, count: 1, period: 1h}",
        &format!("A:7: {{burst: {burst}, count: 1, period: 1h}}"),
    )
}

#[test]
fn what_a_reload_costs_does_not_grow_with_how_often_limits_changed() {
    let limiter = Limiter::with_memory(narrowed(20_000), MEMORY_MIN).unwrap();
    assert!(limiter.spend("A", "7", 10, START).unwrap().allowed);
    let mut most = [0; 5];
    for change in 1..=16_000 {
        // Never what it was before, and somebody asks by each.
        limiter.reload(narrowed(20_000 + change), START).unwrap();
        let left = limiter.check("A", "7", 0, START).unwrap().remaining;
        assert_eq!(left, 20_000 + change - 10);
        for (most, size) in most.iter_mut().zip(limiter.core.registry.lock().size()) {
            *most = size.max(*most);
        }
    }
    assert!(most.iter().all(|&size| size <= 100), "{most:?}");
}

#[test]
fn names_and_overrides_that_are_gone_are_forgotten_once_nothing_is_owed_under_them() {
    let alone = |id: u64, burst: u64| {
        let over = format!(
            "FailedAuthorizationsPerAccount:{id}: {{burst: {burst}, count: 1, period: 1h}}"
        );
        limits(&format!("N{id}: {{burst: {burst}, count: 1, period: 1h}}"), &over)
    };
    let limiter = Limiter::with_memory(alone(0, 5), MEMORY_MIN).unwrap();
    for id in 0..2_000 {
        let now = at(id * 3_600);
        limiter.reload(alone(id, 5 + id), now).unwrap();
        let asks =
            [("FailedAuthorizationsPerAccount", id.to_string()), (&*format!("N{id}"), "x".into())];
        for (limit, id) in asks {
            assert!(limiter.spend(limit, &id, 1, now).unwrap().allowed);
        }
    }
    let sizes = limiter.core.registry.lock().size();
    assert!(sizes.iter().all(|&size| size <= 300), "{sizes:?}");
    assert!(limiter.holdings().iter().all(|held| held.limit.is_some()), "{:?}", limiter.holdings());
    // What was spent an hour ago has come back; what was spent just now has not, nor is it lost.
    limiter.reload(alone(1_998, 9), at(1_999 * 3_600)).unwrap();
    limiter.reload(alone(1_999, 9), at(1_999 * 3_600)).unwrap();
    let account = "FailedAuthorizationsPerAccount";
    assert_eq!(limiter.check(account, "1999", 0, at(1_999 * 3_600)).unwrap().remaining, 8);
    assert_eq!(limiter.check("N1999", "x", 0, at(1_999 * 3_600)).unwrap().remaining, 8);
}

#[test]
fn one_file_of_many_overrides_makes_no_later_reload_slow() {
    let overrides = |most: u64| -> String {
        let line = |n| format!("A:{n}: {{burst: {}, count: 1, period: 1s}}\n", n + 1);
        (0..most).map(line).collect()
    };
    let many = |most| limits("A: {burst: 1, count: 1, period: 1s}", &overrides(most));
    let limiter = Limiter::with_memory(many(5_000), MEMORY_MIN).unwrap();
    for secs in 0..200 {
        // Each time one that is new.
        limiter.reload(narrowed(secs + 2), at(secs)).unwrap();
    }
    let sizes = limiter.core.registry.lock().size();
    assert!(sizes.iter().all(|&size| size <= 300), "{sizes:?}");
}

#[test]
fn a_limit_that_is_gone_has_no_larger_share_than_others() {
    let both = "A: {burst: 1, count: 1, period: 1h, share: 9}\nB: {burst: 1, count: 1, period: 1h}";
    let limiter = limiter(both, "");
    for limit in ["A", "B"] {
        assert!(limiter.spend(limit, "x", 1, START).unwrap().allowed);
    }
    let share = |limiter: &Limiter| {
        let held = limiter.holdings();
        held.iter().find(|held| held.limit.as_deref() == Some("B")).unwrap().holding.share
    };
    let before = share(&limiter);
    limiter.reload(limits("B: {burst: 1, count: 1, period: 1h}", ""), START).unwrap();
    assert_eq!(share(&limiter), 5 * before, "half, and not a tenth");
}

/// How many keys each owner has, counted one by one.
fn counted(limiter: &Limiter) -> std::collections::BTreeMap<u32, usize> {
    use crate::algorithm::Algorithm as _;
    let book = limiter.core.registry.lock().book();
    let mut keys = std::collections::BTreeMap::new();
    limiter.core.store.remove_where(START, |cell, _| {
        *keys.entry(Gcra::owner(&book, &cell).number()).or_default() += 1;
        false
    });
    keys
}

#[test]
fn all_keys_are_counted_for_their_owners_whatever_becomes_of_the_limits() {
    use crate::store::saved::{Reader, Writer};
    use ratekeeper_testkit::random::Random;
    for seed in 0..12 {
        let mut random = Random::new(seed);
        // A limit with a number keeps its buckets when its name changes.
        let some_limits = |random: &mut Random| {
            let names: Vec<_> =
                ["A", "B", "C", "D", "E"].into_iter().filter(|_| random.chance(2, 3)).collect();
            let mut numbers = [107, 108, 109, 110, 111, 112];
            for place in 0..numbers.len() {
                numbers.swap(place, random.index(6));
            }
            let mut line = |(name, number): (&&str, u64)| {
                let [burst, share] = [4, 3].map(|most| random.between(1, most));
                format!(
                    "{name}: {{number: {number}, burst: {burst}, count: 1, period: 1h, \
                     share: {share}}}\n"
                )
            };
            let text: String = names.iter().chain([&"Z"]).zip(numbers).map(&mut line).collect();
            (limits(&text, ""), [names, vec!["Z"]].concat())
        };
        let (first, mut names) = some_limits(&mut random);
        let mut limiter = Limiter::with_memory(first, MEMORY_MIN).unwrap();
        let mut now = START;
        for _ in 0..10 {
            for _ in 0..8_000 {
                let (name, id) = (random.pick(&names), format!("id-{}", random.below(40_000)));
                let _ = match random.below(10) {
                    0 => limiter.reset(name, &id, now).unwrap(),
                    1 => limiter.refund(name, &id, 1, now).unwrap(),
                    _ => limiter.spend(name, &id, 1, now).unwrap(),
                };
            }
            now = now.after(Nanos::from_secs(random.below(1_800)));
            let next;
            (next, names) = some_limits(&mut random);
            if random.chance(1, 3) {
                let mut file = Vec::new();
                let mut writer = Writer::new(&mut file).unwrap();
                limiter.save(&mut writer, now).unwrap();
                writer.finish().unwrap();
                let mut reader = Reader::new(file.as_slice()).unwrap();
                reader.next_section().unwrap();
                limiter = Limiter::restore(next, MEMORY_MIN, &mut reader, now).unwrap();
            } else {
                limiter.reload(next, now).unwrap();
            }
            let held = limiter.core.store.holdings().into_iter().filter(|held| held.keys > 0);
            let held = held.map(|held| (held.owner.number(), held.keys)).collect();
            assert_eq!(counted(&limiter), held, "seed {seed}");
        }
    }
}
