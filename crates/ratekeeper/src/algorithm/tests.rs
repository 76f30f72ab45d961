//! The laws of the arithmetic.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a test may panic: then it has failed"
)]

use ratekeeper_testkit::audit::Audit;
use ratekeeper_testkit::random::Random;
use ratekeeper_testkit::sample;
use ratekeeper_testkit::terms::Terms;

use super::average::{self, Average};
use super::book::{self, Action, Book, Gcra};
use super::gcra::{self, BURST_MAX, PERIOD_MAX, RATE_MAX, Rule, RuleError, TAT_BITS, Tat, Verdict};
use super::quota::{self, Amend, Ask, Quota, QuotaCell, Unit};
use super::{Algorithm, Cell, Change};
use crate::{Moment, Nanos};

fn rule(terms: Terms) -> Rule {
    Rule::new(terms.burst, terms.count, Nanos::new(terms.period_ns.into())).unwrap()
}

fn is_rule(terms: Terms) -> bool {
    Rule::new(terms.burst, terms.count, Nanos::new(terms.period_ns.into())).is_ok()
}

fn per_second(burst: u64, count: u64) -> Rule {
    Rule::new(burst, count, Nanos::from_secs(1)).unwrap()
}

#[test]
fn waiting_exactly_retry_in_is_enough_and_one_nanosecond_less_is_not() {
    let mut random = Random::new(1);
    let mut waits = 0;
    while waits < 1_000_000 {
        let terms = sample::terms(&mut random, is_rule);
        let rule = rule(terms);
        let mut now = Moment::from_nanos(random.below(1 << 60));
        let mut tat = Tat::FULL;
        for _ in 0..16 {
            let cost = 1 + random.below(terms.burst);
            let (after, outcome) = gcra::spend(&rule, tat, cost, now);
            tat = after;
            let Some(at) = exactly_after(now, outcome.retry_in) else { break };
            if outcome.retry_in.is_zero() {
                continue;
            }
            let early = Moment::from_nanos(at.as_nanos() - 1);
            assert_eq!(verdict(&rule, tat, cost, at), Verdict::Allow, "{terms} {cost} {now:?}");
            assert_eq!(verdict(&rule, tat, cost, early), Verdict::Deny, "{terms} {cost} {now:?}");
            waits += 1;
            now = at;
        }
    }
}

fn verdict(rule: &Rule, tat: Tat, cost: u64, at: Moment) -> Verdict {
    gcra::spend(rule, tat, cost, at).1.verdict
}

/// Where the wait ends after the last moment there is, nobody can wait for it.
fn exactly_after(now: Moment, wait: Nanos) -> Option<Moment> {
    let at = now.after(wait);
    (at.since(now) == wait).then_some(at)
}

#[test]
fn three_per_second_admit_exactly_three_per_second_for_a_day() {
    let rule = per_second(3, 3);
    let (mut tat, mut now, mut admitted) = (Tat::FULL, Moment::EPOCH, 0_u64);
    let end = Moment::EPOCH.after(Nanos::from_secs(24 * 3600));
    while now <= end {
        let (after, outcome) = gcra::spend(&rule, tat, 1, now);
        tat = after;
        match outcome.verdict {
            Verdict::Allow => admitted += 1,
            _ => now = now.after(outcome.retry_in),
        }
    }
    assert_eq!(admitted, 3 + 259_200);
}

#[test]
fn after_idling_almost_to_full_exactly_the_burst_passes() {
    for (burst, count) in [(5, 1), (20, 20), (100, 7), (3, 999_999_937)] {
        let rule = per_second(burst, count);
        let (tat, first) = gcra::spend(&rule, Tat::FULL, 1, Moment::EPOCH);
        for (wait, expected) in
            [(first.reset_in.get() - 1, burst - 1), (first.reset_in.get(), burst)]
        {
            let now = Moment::EPOCH.after(Nanos::new(wait));
            let (mut tat, mut passed) = (tat, 0);
            while let (after, outcome) = gcra::spend(&rule, tat, 1, now)
                && outcome.verdict == Verdict::Allow
            {
                tat = after;
                passed += 1;
            }
            assert_eq!(passed, expected, "{burst} {count} after {wait}");
        }
    }
}

#[test]
fn no_window_admits_more_than_the_burst_and_what_came_back_in_it() {
    let mut random = Random::new(2);
    for _ in 0..500 {
        let terms = sample::terms(&mut random, is_rule);
        let (rule, mut audit) = (rule(terms), Audit::new(terms));
        let (mut tat, mut now) = (Tat::FULL, Moment::EPOCH);
        let mut admitted = 0;
        for _ in 0..400 {
            let cost = 1 + random.below(terms.burst.min(5));
            let (after, outcome) = gcra::spend(&rule, tat, cost, now);
            tat = after;
            if outcome.verdict == Verdict::Allow {
                audit.record(now.as_nanos(), cost).unwrap();
                admitted += 1;
            } else if random.below(2) == 0 {
                now = now.after(outcome.retry_in);
            } else {
                now = now.after(Nanos::new(1 + u128::from(random.below(1 << 30))));
            }
        }
        assert!(admitted > 0);
    }
}

#[test]
fn no_input_overflows_wraps_or_panics() {
    let edges = |max: u64| [0, 1, 2, 3, 7, max / 2, max.saturating_sub(1), max, u64::MAX];
    let period_max = u64::try_from(PERIOD_MAX.get()).unwrap();
    let mut rules = Vec::new();
    for burst in edges(BURST_MAX) {
        for count in edges(RATE_MAX) {
            for period in edges(period_max) {
                rules.extend(Rule::new(burst, count, Nanos::new(period.into())));
            }
        }
    }
    assert!(rules.len() > 200);
    for (index, rule) in rules.iter().enumerate() {
        let other = &rules[(index * 31 + 7) % rules.len()];
        for now in edges(Moment::MAX.as_nanos()).map(Moment::from_nanos) {
            for tat in [0, 1, u128::from(u64::MAX), (1 << TAT_BITS) - 1].map(Tat::from_ticks) {
                check_widths(rule, other, tat, now);
            }
        }
    }
}

fn check_widths(rule: &Rule, other: &Rule, tat: Tat, now: Moment) {
    let fits = |tat: Tat| tat.as_ticks() >> TAT_BITS == 0;
    for cost in [0, 1, rule.burst() - 1, rule.burst(), rule.burst() + 1, u64::MAX] {
        let (after, spent) = gcra::spend(rule, tat, cost, now);
        assert!(fits(after) && spent.remaining <= rule.burst());
        assert_eq!(spent.verdict == Verdict::Never, cost > rule.burst());
        let (after, refunded) = gcra::refund(rule, tat, cost, now);
        assert!(fits(after) && refunded.remaining <= rule.burst());
    }
    let carried = gcra::carry_over(rule, other, tat.into(), now);
    assert!(fits(carried.shown) && carried.hidden <= BURST_MAX);
    assert!(fits(carried.over_at(other)) && carried.settled(other, now) == carried);
    assert!(fits(carried.settled(other, Moment::MAX).over_at(other)));
    for cost in [0, 1, other.burst(), u64::MAX] {
        assert!(fits(gcra::refund_debt(other, carried, cost, now).0.over_at(other)));
    }
    assert!(gcra::full_at(rule, tat) <= Moment::MAX);
}

/// The way of most asks is another than the way of all asks, and must lead to the same place.
#[test]
fn a_cell_is_renewed_to_what_the_decision_says() {
    let mut random = Random::new(7);
    let mut renewed = [0, 0];
    for _ in 0..300_000 {
        let mut book = Book::default();
        let terms = sample::terms(&mut random, is_rule);
        let ids = [book.add(rule(terms)).unwrap(), book.add(per_second(5, 3)).unwrap()];
        let start = random.below(1 << 62);
        let mut cell = None;
        for _ in 0..8 {
            let now = Moment::from_nanos(start + random.log_between(1, 1 << 40));
            let action = random.pick(&[Action::CheckAndSpend, Action::SpendOnly, Action::Refund]);
            let cost = random.log_between(1, 2 * terms.burst) - 1;
            let id = if random.chance(1, 16) { ids[1] } else { ids[0] };
            let ask = book::Ask { rule: id, action, is_shadow: false, cost };
            let (outcome, change) = Gcra::decide(&book, cell, &ask, now);
            let after = match change {
                Change::Put(after) | Change::Mark(after) => Some(after),
                Change::Keep => cell,
                Change::Remove => None,
            };
            let quick = cell.and_then(|cell| Gcra::renew(&book, cell, &ask, now));
            if let Some((answer, cell)) = quick {
                assert_eq!((answer, Some(cell)), (outcome, after), "{terms} {cost} {now:?}");
                renewed[usize::from(answer.verdict == Verdict::Allow)] += 1;
            }
            cell = after;
        }
    }
    assert!(renewed.iter().all(|&times| times > 10_000), "{renewed:?}");
}

#[test]
fn rules_beyond_the_bounds_are_refused() {
    let second = Nanos::from_secs(1);
    assert_eq!(Rule::new(0, 1, second), Err(RuleError::Burst));
    assert_eq!(Rule::new(BURST_MAX + 1, 1, second), Err(RuleError::Burst));
    assert_eq!(Rule::new(1, 0, second), Err(RuleError::Count));
    assert_eq!(Rule::new(1, 1, Nanos::ZERO), Err(RuleError::Period));
    assert_eq!(Rule::new(1, 1, Nanos::new(PERIOD_MAX.get() + 1)), Err(RuleError::Period));
    assert_eq!(Rule::new(1, 1, Nanos::new(u128::MAX)), Err(RuleError::Period));
    assert_eq!(Rule::new(1, RATE_MAX + 1, second), Err(RuleError::TooFine));
    // Only in lowest terms does it matter.
    assert_eq!(Rule::new(1, 10_000_000_000, Nanos::from_secs(10)), Rule::new(1, 1, Nanos::new(1)));
}

#[test]
fn a_raised_limit_keeps_what_was_spent() {
    let hours = Nanos::from_secs(3 * 3600);
    let (old, new) = (Rule::new(50, 50, hours).unwrap(), Rule::new(300, 300, hours).unwrap());
    let now = Moment::from_nanos(1 << 60);
    let (tat, _) = gcra::spend(&old, Tat::FULL, 50, now);
    let debt = gcra::carry_over(&old, &new, tat.into(), now);
    assert_eq!(gcra::spend(&new, debt.shown, 0, now).1.remaining, 250);
    assert_eq!(debt.hidden, 0);
}

#[test]
fn a_lowered_limit_keeps_what_was_spent_and_refills_at_the_new_rate() {
    let hours = Nanos::from_secs(3 * 3600);
    let (old, new) = (Rule::new(300, 300, hours).unwrap(), Rule::new(50, 50, hours).unwrap());
    let now = Moment::from_nanos(1 << 60);
    let (tat, _) = gcra::spend(&old, Tat::FULL, 100, now);
    let debt = gcra::carry_over(&old, &new, tat.into(), now);
    assert_eq!(debt.hidden, 50, "what it cannot show");
    let tat = debt.shown;
    let left_after = |secs| {
        let later = now.after(Nanos::from_secs(secs));
        gcra::spend(&new, tat, 0, later).1.remaining
    };
    assert_eq!([0, 215, 216, 432, 3600, 3 * 3600].map(left_after), [0, 0, 1, 2, 16, 50]);
}

#[test]
fn a_limit_lowered_and_raised_again_gives_nobody_a_token() {
    let per_minute = |tokens| Rule::new(tokens, tokens, Nanos::from_secs(60)).unwrap();
    let (wide, narrow) = (per_minute(1_000), per_minute(10));
    let now = Moment::from_nanos(1 << 60);
    let (tat, _) = gcra::spend(&wide, Tat::FULL, 1_000, now);
    let debt = gcra::carry_over(&wide, &narrow, tat.into(), now);
    let again = gcra::carry_over(&narrow, &wide, debt, now);
    assert_eq!(gcra::spend(&wide, again.shown, 0, now).1.remaining, 0);
    // Ten came back meanwhile, and none of those that were hidden.
    let later = now.after(Nanos::from_secs(60));
    let again = gcra::carry_over(&narrow, &wide, debt, later);
    assert_eq!(gcra::spend(&wide, again.shown, 0, later).1.remaining, 10);
    // The bucket was full and idle for a minute: ten of those, too.
    let later = now.after(Nanos::from_secs(120));
    let again = gcra::carry_over(&narrow, &wide, debt, later);
    assert_eq!(gcra::spend(&wide, again.shown, 0, later).1.remaining, 20);
}

#[test]
fn whoever_spends_meanwhile_gets_no_hidden_token_back() {
    let (wide, narrow) = (per_second(1_000, 1), per_second(1, 1));
    let now = Moment::from_nanos(1 << 60);
    let (tat, _) = gcra::spend(&wide, Tat::FULL, 1_000, now);
    let mut debt = gcra::carry_over(&wide, &narrow, tat.into(), now);
    assert_eq!(debt.hidden, 999);
    let mut now = now;
    for _ in 0..100 {
        now = now.after(Nanos::from_secs(1));
        let before = debt.settled(&narrow, now);
        let (shown, outcome) = gcra::spend(&narrow, before.shown, 1, now);
        assert_eq!(outcome.verdict, Verdict::Allow);
        debt = gcra::Debt { shown, ..before };
    }
    let again = gcra::carry_over(&narrow, &wide, debt, now);
    assert_eq!(gcra::spend(&wide, again.shown, 0, now).1.remaining, 0);
}

#[test]
fn what_a_cell_hides_is_owed_however_little_room_there_is() {
    let mut random = Random::new(12);
    let (mut hidden, mut whole) = (0, 0);
    for _ in 0..100_000 {
        let mut rules = [sample::terms(&mut random, is_rule), sample::terms(&mut random, is_rule)];
        rules.sort_by_key(|terms| terms.burst);
        let [narrow, wide] = rules.map(rule);
        let mut book = Book::default();
        let ids = [book.add(wide).unwrap(), book.add(narrow).unwrap()];
        let now = Moment::from_nanos(random.log_between(1, 1 << 62));
        let ask =
            |rule, cost| book::Ask { rule, action: Action::CheckAndSpend, is_shadow: false, cost };
        let Change::Put(cell) = Gcra::decide(&book, None, &ask(ids[0], wide.burst()), now).1 else {
            panic!("a full bucket has its burst")
        };
        let below = Gcra::carry_over(&book, cell, Some(&ask(ids[1], 0)), now);
        assert_eq!(below.rule(), ids[1]);
        assert_eq!(Gcra::decide(&book, Some(below), &ask(ids[1], 1), now).0.verdict, Verdict::Deny);
        assert!(
            Gcra::renew(&book, below, &ask(ids[1], 1), now)
                .is_none_or(|it| { it.0.verdict == Verdict::Deny })
        );
        let (_, debt) = book.owed(Some(below), ids[1], now).unwrap();
        let more = wide.burst() > narrow.burst();
        hidden += usize::from(debt.hidden > 0);
        whole += usize::from(more && debt.hidden == 0);
        let above = Gcra::carry_over(&book, below, Some(&ask(ids[0], 0)), now);
        assert_eq!(Gcra::decide(&book, Some(above), &ask(ids[0], 0), now).0.remaining, 0);
    }
    assert!(hidden > 10_000 && whole > 1_000, "{hidden} {whole}");
}

#[test]
fn a_limit_that_says_the_same_changes_nothing_even_while_the_clock_is_behind() {
    let rule = Rule::new(2, 1, Nanos::from_secs(1)).unwrap();
    let same = Rule::new(2, 2, Nanos::from_secs(2)).unwrap();
    let (tat, _) = gcra::spend(&rule, Tat::FULL, 2, Moment::from_nanos(10_000_000_000));
    let behind = Moment::from_nanos(5_000_000_000);
    assert_eq!(gcra::carry_over(&rule, &same, tat.into(), behind), tat.into());
    assert_eq!(gcra::spend(&same, tat, 0, behind).1.reset_in, Nanos::from_secs(7));
}

#[test]
fn an_average_that_is_forgotten_would_have_been_printed_as_zero() {
    let rule = average::Rule::new(22.0, 20.0, true).unwrap();
    let now = Moment::from_nanos(1_700_000_000_000_000_000);
    let mut cell = None;
    for _ in 0..40 {
        let (_, change) = average::use_once(&rule, cell, now);
        if let Change::Put(after) = change {
            cell = Some(after);
        }
    }
    let cell = cell.unwrap();
    let rate_after =
        |secs| average::use_once(&rule, Some(cell), now.after(Nanos::from_secs(secs))).0.rate;
    for secs in 1..2_000 {
        let is_idle = Average::is_idle(&(), &cell, now.after(Nanos::from_secs(secs)));
        assert_eq!(is_idle, format!("{:.1}", rate_after(secs)) == "0.0", "after {secs} s");
    }
    let idle_at = Average::idle_at(&(), &cell);
    assert!(Average::is_idle(&(), &cell, idle_at));
}

#[test]
fn average_rules_that_are_not_numbers_are_refused() {
    for limit in [f64::NAN, f64::INFINITY, -1.0, 1e13] {
        assert_eq!(average::Rule::new(limit, 20.0, true), Err(average::RuleError::Limit));
    }
    for period in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e10] {
        assert_eq!(average::Rule::new(22.0, period, true), Err(average::RuleError::Period));
    }
}

#[test]
fn a_quota_is_renewed_to_what_the_answer_says() {
    let mut random = Random::new(8);
    let (mut renewed, mut others) = ([0, 0], 0);
    for _ in 0..100_000 {
        let units = [Unit::Nanoseconds, Unit::Milliseconds, Unit::Seconds];
        let at = random.log_between(2, 1 << 62);
        let remaining = random.log_between(1, 1 << 20) - 1;
        let mut cell = QuotaCell::new(remaining, Moment::from_nanos(at), random.pick(&units));
        // Half of them have denied somebody.
        let much = Ask::Insert { quota: 0, usage: u64::MAX, ttl: 0, unit: Unit::Seconds };
        if let (true, (_, Change::Mark(denied))) =
            (random.chance(1, 2), quota::answer(Some(cell), &much, Moment::from_nanos(at - 1)))
        {
            cell = denied;
        }
        let usage = random.log_between(1, 1 << 20) - 1;
        let (quota, ttl, unit) = (random.bits(), random.bits(), random.pick(&units));
        let insert = Ask::Insert { quota, usage, ttl, unit };
        let ask = random.pick(&[insert, insert, Ask::Query, Ask::Purge]);
        let now = random.log_between(1, 1 << 62);
        let now = Moment::from_nanos(random.pick(&[now, now, at - 1, at]));
        let answered = quota::answer(Some(cell), &ask, now);
        match (Quota::renew(&(), cell, &ask, now), &answered.1) {
            (Some((answer, after)), Change::Put(changed) | Change::Mark(changed)) => {
                assert_eq!((answer, after), (answered.0, *changed), "{ask:?} {now:?}");
                renewed[usize::from(answer.can)] += 1;
            }
            (None, Change::Keep | Change::Remove) => others += 1,
            // One that has expired is made anew.
            (None, Change::Put(_)) if now >= Moment::from_nanos(at) => others += 1,
            (quick, _) => panic!("{quick:?} instead of {answered:?} to {ask:?} at {now:?}"),
        }
    }
    assert!(renewed.iter().all(|&times| times > 5_000) && others > 10_000, "{renewed:?} {others}");
}

#[test]
fn what_is_left_of_a_lifetime_is_told_in_whole_units() {
    let cases = [
        (Unit::Seconds, 60_000_000_000, 59),
        (Unit::Seconds, 1_000_000_000, 0),
        (Unit::Seconds, 1_000_000_001, 1),
        (Unit::Milliseconds, 1_000_001, 1),
        (Unit::Milliseconds, 1_000_000, 0),
        (Unit::Nanoseconds, 5, 4),
        (Unit::Nanoseconds, 0, 0),
        (Unit::Seconds, u128::from(u64::MAX) + 1, u64::MAX / 1_000_000_000),
        (Unit::Nanoseconds, u128::MAX, u64::MAX),
    ];
    for (unit, nanos, whole) in cases {
        assert_eq!(unit.whole(Nanos::new(nanos)), whole, "{nanos} ns in {unit:?}");
    }
}

#[test]
fn a_quota_never_wraps() {
    let now = Moment::from_nanos(10);
    let insert = |quota, usage, ttl| Ask::Insert { quota, usage, ttl, unit: Unit::Seconds };
    let (refused, change) = quota::answer(None, &insert(1, 2, 60), now);
    assert_eq!((refused.can, refused.remaining), (false, 1));
    assert_eq!(change, Change::Keep, "nothing is stored");

    let (made, change) = quota::answer(None, &insert(u64::MAX, 1, u64::MAX), now);
    assert_eq!((made.can, made.remaining), (true, u64::MAX - 1));
    let Change::Put(cell) = change else { panic!("it is stored") };
    let more = Ask::AmendQuota(Amend::Increase, u64::MAX);
    let (_, Change::Put(cell)) = quota::answer(Some(cell), &more, now) else { panic!("changed") };
    assert_eq!(quota::answer(Some(cell), &Ask::Query, now).0.remaining, u64::MAX);
    let less = Ask::AmendQuota(Amend::Decrease, u64::MAX);
    let (_, Change::Put(cell)) = quota::answer(Some(cell), &less, now) else { panic!("changed") };
    assert_eq!(quota::answer(Some(cell), &Ask::Query, now).0.remaining, 0);
    let sooner = Ask::AmendLifetime(Amend::Decrease, u64::MAX);
    let (done, change) = quota::answer(Some(cell), &sooner, now);
    assert!(done.can);
    assert_eq!(change, Change::Remove, "it has expired");
}

#[test]
fn cells_are_read_as_they_were_written() {
    fn survives<C: Cell + PartialEq + std::fmt::Debug>(cell: C) {
        let mut words = vec![None; C::WORDS];
        cell.write(|word, bits| words[word] = Some(bits));
        assert_eq!(C::read(|word| words[word].expect("it was written")), cell);
    }
    let now = Moment::from_nanos(77);
    for ttl in [1, 2, 3] {
        for unit in [Unit::Nanoseconds, Unit::Milliseconds, Unit::Seconds] {
            let ask = Ask::Insert { quota: 9, usage: 2, ttl, unit };
            let (_, Change::Put(cell)) = quota::answer(None, &ask, now) else { panic!("stored") };
            survives(cell);
            let ask = Ask::Insert { quota: 9, usage: 100, ttl, unit };
            let (_, Change::Mark(cell)) = quota::answer(Some(cell), &ask, now) else {
                panic!("marked")
            };
            survives(cell);
        }
    }
    let rule = average::Rule::new(0.5, 20.0, false).unwrap();
    let (_, Change::Put(cell)) = average::use_once(&rule, None, now) else { panic!("stored") };
    survives(cell);
}
