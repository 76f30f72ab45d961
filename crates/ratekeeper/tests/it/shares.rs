//! Who may hold how much of a memory that is full, whatever becomes of the limits meanwhile.
#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper::limiter::LimitHolding;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::saved::{Reader, Writer};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Decision, Limiter, Moment, Nanos, Request};

const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);
/// More than the smallest memory holds, several times over.
const FLOOD: usize = 60_000;

fn limits(text: &str) -> Limits {
    Limits::parse(&Source { name: "limits.yaml", text }, None).unwrap()
}

fn limiter(text: &str) -> Limiter {
    Limiter::with_secret(limits(text), MEMORY_MIN, Secret::new(3, 4)).unwrap()
}

fn secs(secs: u64) -> Moment {
    START.after(Nanos::from_secs(secs))
}

fn spend(limiter: &Limiter, limit: &str, id: usize, cost: u64, now: Moment) -> Decision {
    limiter.spend(limit, &format!("id-{id}"), cost, now).unwrap()
}

fn flood(limiter: &Limiter, limit: &str, cost: u64, now: Moment) {
    for id in 0..FLOOD {
        let _ = spend(limiter, limit, id, cost, now);
    }
}

fn held(limiter: &Limiter, name: &str) -> LimitHolding {
    let mut all = limiter.holdings().into_iter();
    all.find(|held| held.limit.as_deref() == Some(name)).unwrap()
}

fn restored(limiter: &Limiter, text: &str, memory: usize, now: Moment) -> Limiter {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    limiter.save(&mut writer, now).unwrap();
    writer.finish().unwrap();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    reader.next_section().unwrap();
    Limiter::restore(limits(text), memory, &mut reader, now).unwrap()
}

#[test]
fn a_share_that_is_raised_locks_nobody_out() {
    let text = |share: &str| {
        format!(
            "Flooded: {{burst: 1, count: 1, period: 1000h{share}}}\n\
             Others: {{burst: 1, count: 1, period: 1000h}}"
        )
    };
    for share in ["2", "1.1", "1000"] {
        let limiter = limiter(&text(""));
        flood(&limiter, "Flooded", 1, START);
        limiter.reload(limits(&text(&format!(", share: {share}"))), START).unwrap();
        // A thousandth of what is shared out is 21 keys.
        for id in 0..20 {
            assert!(spend(&limiter, "Others", id, 1, START).allowed, "{id}, share {share}");
        }
    }
}

#[test]
fn a_limit_that_is_renamed_takes_its_keys_along() {
    let limiter = limiter("Old: {number: 107, burst: 1, count: 1, period: 1000h}");
    flood(&limiter, "Old", 1, START);
    limiter
        .reload(
            limits(
                "New: {number: 107, burst: 1, count: 1, period: 1000h}\n\
                 Others: {burst: 1, count: 1, period: 1000h}",
            ),
            START,
        )
        .unwrap();
    let keys = limiter.held().keys;
    flood(&limiter, "New", 1, START);
    assert!(held(&limiter, "New").holding.keys > keys / 2);
    let sum: usize = limiter.holdings().iter().map(|held| held.holding.keys).sum();
    assert_eq!(sum, limiter.held().keys);
    assert!((0..1_000).all(|id| spend(&limiter, "Others", id, 1, START).allowed));
}

#[test]
fn what_is_restored_into_less_memory_is_shared_out_as_the_limits_say() {
    let text = "Small: {burst: 1, count: 1, period: 1h}\n\
                Large: {burst: 1, count: 1, period: 1h, share: 3}";
    let large = Limiter::with_memory(limits(text), 16 << 20).unwrap();
    flood(&large, "Small", 1, START);
    flood(&large, "Large", 1, START);
    let small = restored(&large, text, MEMORY_MIN, START);
    let [large, small] = ["Large", "Small"].map(|name| held(&small, name).holding);
    assert!(large.keys > small.keys * 2, "{large:?} {small:?}");
}

#[test]
fn a_bucket_of_which_half_is_missing_is_no_easier_to_forget_than_an_empty_one() {
    for (spent, flooded) in [(4, 4), (3, 5), (3, 3)] {
        let limiter = limiter("A: {burst: 5, count: 5, period: 1000h}");
        assert!(limiter.spend("A", "ada", spent, START).unwrap().allowed);
        flood(&limiter, "A", flooded, START);
        let left = limiter.check("A", "ada", 0, START).unwrap().remaining;
        assert_eq!(left, 5 - spent, "of 5 after {spent}, flooded with {flooded}");
    }
}

#[test]
fn a_limit_that_forgets_forgets_ids_of_its_own_only() {
    let limiter = limiter(
        "Forgets: {burst: 1, count: 1, period: 1h, on_full: forget, share: 0.01}\n\
         Others: {burst: 1, count: 1, period: 1h}",
    );
    flood(&limiter, "Others", 1, START);
    flood(&limiter, "Forgets", 1, START);
    let [forgets, others] = ["Forgets", "Others"].map(|name| held(&limiter, name).holding);
    // Few of its ids are near a new one.
    assert!(forgets.keys <= forgets.share + forgets.share / 20, "{forgets:?}");
    assert!(forgets.evicted > 0 && forgets.turned_away > 0, "{forgets:?}");
    assert!(others.evicted <= 2 * forgets.share as u64, "{others:?}");
}

#[test]
fn a_bucket_that_a_lower_limit_emptied_is_protected() {
    let text = |burst: u64| format!("A: {{burst: {burst}, count: {burst}, period: 1h}}");
    let limiter = limiter(&text(100));
    assert!(limiter.spend("A", "ada", 50, START).unwrap().allowed);
    limiter.reload(limits(&text(50)), START).unwrap();
    let later = secs(2_160);
    flood(&limiter, "A", 24, later);
    assert_eq!(limiter.check("A", "ada", 0, later).unwrap().remaining, 30);
}

#[test]
fn a_transaction_that_memory_denies_tells_the_longest_wait_and_forgets_nobody() {
    let limiter = limiter(
        "Gives: {burst: 9, count: 9, period: 10h}\nFull: {burst: 1, count: 1, period: 10h}\n\
         Other: {burst: 1, count: 1, period: 10h}",
    );
    // All are full again at moments of their own.
    for id in 0..FLOOD {
        let now = START.after(Nanos::new(id as u128 * 1_000_000));
        for limit in ["Gives", "Full", "Other"] {
            let _ = spend(&limiter, limit, id, 1, now);
        }
    }
    let now = secs(60);
    let (mut denied, mut twice) = (0, 0);
    for round in 0..300 {
        let id = format!("new-{round}");
        let both = [Request::new("Full", &id, 1), Request::new("Other", &id, 1)];
        let all = [Request::new("Gives", &id, 1), both[0], both[1]];
        let before = limiter.held();
        let merged = limiter.transaction(&all, now).unwrap();
        if merged.decision.allowed {
            continue;
        }
        denied += 1;
        assert_eq!(limiter.held().tally.evicted, before.tally.evicted, "nothing was spent");
        let one_is_too_early = merged.each.iter().filter(|it| !it.allowed).count();
        twice += usize::from(one_is_too_early == 2);
        let longest = merged.each.iter().map(|it| it.retry_in).max().unwrap();
        assert_eq!(merged.decision.retry_in, longest);
    }
    assert!(denied > 250 && twice > 200, "{denied} {twice}");
    let both = [Request::new("Full", "last", 1), Request::new("Other", "last", 1)];
    let denied = limiter.transaction(&both, now).unwrap().decision;
    assert!(!denied.allowed);
    let at = now.after(denied.retry_in);
    let early = Moment::from_nanos(at.as_nanos() - 1);
    assert!(!limiter.transaction(&both, early).unwrap().decision.allowed);
    assert!(limiter.transaction(&both, at).unwrap().decision.allowed);
}

#[test]
fn a_check_answers_what_a_spend_would_also_where_memory_is_full() {
    let limiter = limiter("A: {burst: 1, count: 1, period: 1h}");
    flood(&limiter, "A", 1, START);
    let mut denied = 0;
    for id in 0..500 {
        let id = format!("new-{id}");
        let before = limiter.held();
        let check = limiter.check("A", &id, 1, START).unwrap();
        let told = limiter.explain("A", &id, 1, START).unwrap();
        assert_eq!(limiter.held(), before, "a check changes nothing, and is not counted");
        let spend = limiter.spend("A", &id, 1, START).unwrap();
        assert_eq!(check, spend, "{id}");
        assert_eq!(told.answer, spend, "{id}");
        assert_eq!(told.to_string().contains("memory"), !spend.allowed, "{told}");
        // What only looks at the bucket needs no room.
        assert!(limiter.check("A", &format!("x{id}"), 0, START).unwrap().allowed);
        denied += usize::from(!spend.allowed);
    }
    assert!(denied > 400, "{denied}");
}

#[test]
fn a_limit_beyond_its_share_finds_what_is_free() {
    let limiter =
        limiter("A: {burst: 1, count: 1, period: 1000h}\nShort: {burst: 1, count: 1, period: 1s}");
    for id in 0..FLOOD {
        let limit = if id % 20 == 0 { "Short" } else { "A" };
        let _ = spend(&limiter, limit, id, 1, START);
    }
    let passed = (0..200).filter(|id| spend(&limiter, "A", FLOOD + id, 1, secs(2)).allowed).count();
    assert!(passed > 150, "{passed} of 200, though a twentieth of all keys is free");
}

#[test]
fn a_share_below_one_key_holds_one_id() {
    let limiter = limiter(
        "Large: {burst: 1, count: 1, period: 1h, share: 1000}\n\
         Tiny: {burst: 1, count: 1, period: 1h, share: 0.01}",
    );
    flood(&limiter, "Large", 1, START);
    assert!(spend(&limiter, "Tiny", 0, 1, START).allowed);
    assert!(!spend(&limiter, "Tiny", 0, 1, START).allowed);
}

#[test]
fn debt_that_a_cell_cannot_hide_is_told_and_counted_elsewhere() {
    let text = |burst: u64| format!("A: {{burst: {burst}, count: 999999937, period: 1h}}");
    let spent = limiter(&text(1_000_000));
    assert!(spent.spend("A", "ada", 1_000_000, START).unwrap().allowed);
    spent.reload(limits(&text(10)), START).unwrap();
    let owed = spent.owed("A", "ada", START).unwrap();
    assert_eq!(owed.hidden, 999_990);
    let elsewhere = limiter(&text(10));
    assert!(elsewhere.owe("A", "ada", owed, START).unwrap());
    elsewhere.reload(limits(&text(1_000_000)), START).unwrap();
    assert_eq!(elsewhere.check("A", "ada", 0, START).unwrap().remaining, 0);
}

#[test]
fn what_memory_has_no_room_for_is_not_said_to_be_owed() {
    let limiter = limiter("A: {burst: 1, count: 1, period: 1h}");
    let owed = ratekeeper::limiter::Owed { full_in: Nanos::from_secs(3_600), hidden: 0 };
    let is_kept = |id: usize| {
        let id = format!("id-{id}");
        let told = limiter.owe("A", &id, owed, START).unwrap();
        assert_eq!(told, !limiter.owed("A", &id, START).unwrap().is_nothing(), "{id}");
        told
    };
    let kept = (0..FLOOD).filter(|id| is_kept(*id)).count();
    assert!(kept < FLOOD, "memory is full at some time");
}

#[test]
fn a_quota_of_which_half_is_used_is_not_forgotten_for_others() {
    use ratekeeper::Keyed;
    use ratekeeper::algorithm::quota::{Ask, Outcome, Quota, Unit};
    let quotas = Keyed::<Quota>::with_secret(MEMORY_MIN, Secret::new(5, 6)).unwrap();
    let insert = |key: String, usage, ttl| {
        let ask = Ask::Insert { quota: 5, usage, ttl, unit: Unit::Seconds };
        let mut outcome = [Outcome::default()];
        quotas.decide(&[quotas.question(&[key.as_bytes()], ask)], &mut outcome, START);
        outcome[0]
    };
    assert_eq!(insert("ada".into(), 4, 3_600).remaining, 1);
    for id in 0..FLOOD {
        insert(format!("id-{id}"), 4, 7_200);
    }
    assert_eq!(insert("ada".into(), 0, 3_600).remaining, 1, "it was forgotten");
}

#[test]
fn of_quotas_the_one_of_which_least_is_used_is_forgotten_first() {
    use ratekeeper::Keyed;
    use ratekeeper::algorithm::quota::{Amend, Ask, Outcome, Quota, Unit};
    let quotas = Keyed::<Quota>::with_secret(MEMORY_MIN, Secret::new(5, 6)).unwrap();
    let ask = |key: &str, ask| {
        let mut outcome = [Outcome::default()];
        quotas.decide(&[quotas.question(&[key.as_bytes()], ask)], &mut outcome, START);
        outcome[0]
    };
    let insert = |quota, usage, ttl| Ask::Insert { quota, usage, ttl, unit: Unit::Seconds };
    ask("ada", insert(5, 2, 60));
    ask("ben", insert(100, 0, 60));
    ask("ben", Ask::AmendQuota(Amend::Decrease, 99));
    // Nothing is used of these, however long they live.
    for id in 0..FLOOD {
        ask(&format!("id-{id}"), insert(5, 0, 3_600));
    }
    assert_eq!(ask("ada", Ask::Query).remaining, 3, "two of five were used");
    assert_eq!(ask("ben", Ask::Query).remaining, 1, "who takes 99 of 100 away has used them");
}

#[test]
fn an_average_that_has_used_half_of_its_limit_is_not_forgotten_for_others() {
    use ratekeeper::Keyed;
    use ratekeeper::algorithm::average::{Average, Outcome, Rule};
    let averages = Keyed::<Average>::with_secret(MEMORY_MIN, Secret::new(5, 6)).unwrap();
    let rule = Rule::new(6.0, 3_600.0, true).unwrap();
    let use_often = |key: String, uses: usize| {
        let mut outcome = [Outcome::default()];
        for _ in 0..uses {
            averages.decide(&[averages.question(&[key.as_bytes()], rule)], &mut outcome, START);
        }
        outcome[0].rate
    };
    let before = use_often("ada".into(), 5);
    for id in 0..FLOOD {
        use_often(format!("id-{id}"), 5);
    }
    assert!(use_often("ada".into(), 1) > before, "it was forgotten");
}
