//! A limit in shadow decides and counts like its ordinary twin, and denies nobody.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper::limiter::Batch;
use ratekeeper::limits::{Limits, Source, changes};
use ratekeeper::store::MEMORY_MIN;
use ratekeeper::{Decision, Limiter, Merged, Mistake, Mode, Moment, Nanos, Request};
use ratekeeper_testkit::random::Random;

const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);
const IDS: [&str; 3] = ["ada", "grace", "edith"];

fn parse(text: &str) -> Limits {
    Limits::parse(&Source { name: "limits.yaml", text }, None).unwrap()
}

fn limiter(text: &str) -> Limiter {
    Limiter::with_memory(parse(text), MEMORY_MIN).unwrap()
}

/// Time that mostly stands or creeps, sometimes leaps, and now and then steps back.
fn pass(random: &mut Random, now: &mut Moment) {
    let nanos = match random.below(10) {
        0..4 => 0,
        4..8 => random.below(400_000_000),
        8 => random.below(4_000_000_000),
        _ => return *now = Moment::from_nanos(now.as_nanos() - random.below(50_000_000)),
    };
    *now = now.after(Nanos::new(nanos.into()));
}

fn assert_shadows(shadow: Decision, twin: Decision, what: &str) {
    let expected = Decision { allowed: true, shadow: !twin.allowed, retry_in: Nanos::ZERO, ..twin };
    assert_eq!(shadow, expected, "{what}");
}

#[test]
fn ask_by_ask_its_buckets_are_those_of_its_twin() {
    let terms = "burst: 5, count: 3, period: 1s";
    let limiter = limiter(&format!("Twin: {{{terms}}}\nShadow: {{{terms}, shadow: true}}"));
    let (mut random, mut now) = (Random::new(7), START);
    let mut denials = 0;
    for step in 0..20_000 {
        pass(&mut random, &mut now);
        let (id, cost, op) = (random.pick(&IDS), random.below(6), random.below(20));
        let decide = |limit| match op {
            0 => limiter.reset(limit, id, now),
            1..4 => limiter.refund(limit, id, cost, now),
            4..8 => limiter.check(limit, id, cost, now),
            _ => limiter.spend(limit, id, cost, now),
        };
        let (twin, shadow) = (decide("Twin").unwrap(), decide("Shadow").unwrap());
        if op < 4 {
            assert_eq!(shadow, twin, "step {step}");
        } else {
            assert_shadows(shadow, twin, &format!("step {step}"));
            denials += u32::from(!twin.allowed);
        }
    }
    assert!(denials > 1000, "the traffic denies: {denials}");
}

#[test]
fn in_a_batch_too() {
    let terms = "burst: 4, count: 2, period: 1s";
    let limiter = limiter(&format!("Twin: {{{terms}}}\nShadow: {{{terms}, shadow: true}}"));
    let (mut random, mut now) = (Random::new(8), START);
    let mut batch = Batch::default();
    for _ in 0..500 {
        pass(&mut random, &mut now);
        let modes = [Mode::CheckAndSpend, Mode::CheckOnly, Mode::SpendOnly];
        let asks: Vec<_> = (0..random.below(20))
            .map(|_| (random.pick(&IDS), random.below(6), random.pick(&modes)))
            .flat_map(|(id, cost, mode)| {
                ["Twin", "Shadow"].map(|limit| Request::new(limit, id, cost).with_mode(mode))
            })
            .collect();
        let answers = limiter.batch(&mut batch, &asks, now);
        let answers: Vec<_> = answers.iter().collect();
        for (pair, ask) in answers.chunks(2).zip(asks.chunks(2)) {
            match *pair {
                [Ok(twin), Ok(shadow)] => assert_shadows(shadow, twin, &format!("{ask:?}")),
                [Err(Mistake::CostAboveBurst { burst: 4, .. }), Ok(shadow)] => {
                    assert!(shadow.allowed && shadow.shadow, "{ask:?}");
                }
                _ => panic!("{ask:?}: {pair:?}"),
            }
        }
    }
}

#[test]
fn a_cost_above_the_burst_passes_too() {
    let limiter = limiter("A: {burst: 1, count: 1, period: 1s, shadow: true}");
    let passed = limiter.spend("A", "x", 2, START).unwrap();
    assert!(passed.allowed && passed.shadow, "{passed:?}");
    assert_eq!(passed.remaining, 1, "nothing was taken");
    let mut batch = Batch::default();
    let asks = [Request::new("A", "x", 2)];
    let answers = limiter.batch(&mut batch, &asks, START);
    assert!(answers.iter().all(|answer| answer.is_ok_and(|it| it.shadow)));
    let mistake = limiter.refund("A", "x", 2, START);
    assert!(matches!(mistake, Err(Mistake::CostAboveBurst { .. })), "{mistake:?}");
}

const MIXED: [&str; 4] = ["Calls", "Bytes", "NewCalls", "NewBytes"];

fn mixed(is_shadow: bool) -> Limiter {
    limiter(&format!(
        "Calls: {{burst: 4, count: 4, period: 1s}}
Bytes: {{burst: 6, count: 3, period: 1s}}
NewCalls: {{burst: 3, count: 3, period: 1s, shadow: {is_shadow}}}
NewBytes: {{burst: 5, count: 2, period: 1s, shadow: {is_shadow}}}"
    ))
}

fn is_new(ask: &Request<'_>) -> bool {
    ask.limit.starts_with("New")
}

fn left(limiter: &Limiter, now: Moment) -> Vec<(u64, Nanos)> {
    let ids = MIXED.iter().flat_map(|limit| IDS.map(|id| (limit, id)));
    let look = |(limit, id): (&&str, _)| limiter.check(limit, id, 0, now).unwrap();
    ids.map(look).map(|it| (it.remaining, it.reset_in)).collect()
}

fn some_asks(random: &mut Random) -> Vec<Request<'static>> {
    let modes = [Mode::CheckAndSpend, Mode::CheckAndSpend, Mode::CheckOnly, Mode::SpendOnly];
    let mut asks = Vec::new();
    for (limit, id) in MIXED.iter().flat_map(|limit| IDS.map(|id| (*limit, id))) {
        if random.chance(1, 4) {
            let cost = random.below(4);
            asks.push(Request::new(limit, id, cost).with_mode(random.pick(&modes)));
        }
    }
    asks
}

/// Where nothing is in shadow: what may not deny is only spent, and what may neither deny nor spend
/// is asked beside the transaction.
fn modelled(model: &Limiter, asks: &[Request<'_>], now: Moment) -> (Vec<Decision>, Option<Merged>) {
    let is_beside = |ask: &Request<'_>| is_new(ask) && ask.mode == Mode::CheckOnly;
    let beside = |ask: &Request<'_>| model.check(ask.limit, ask.id, ask.cost, now).unwrap();
    let mut each: Vec<_> = asks.iter().map(beside).collect();
    let joined: Vec<_> = asks
        .iter()
        .filter(|ask| !is_beside(ask))
        .map(|ask| if is_new(ask) { ask.with_mode(Mode::SpendOnly) } else { *ask })
        .collect();
    if joined.is_empty() {
        return (each, None);
    }
    let merged = model.transaction(&joined, now).unwrap();
    let mut own = merged.each.iter();
    for (ask, answer) in asks.iter().zip(&mut each) {
        if !is_beside(ask) {
            *answer = *own.next().unwrap();
        }
    }
    (each, Some(merged))
}

#[test]
fn in_a_transaction_it_has_no_say_and_is_spent_only_with_the_rest() {
    let (limiter, model) = (mixed(true), mixed(false));
    let (mut random, mut now) = (Random::new(9), START);
    let (mut denied, mut shadowed) = (0, 0);
    for step in 0..5_000 {
        pass(&mut random, &mut now);
        let asks = some_asks(&mut random);
        if asks.is_empty() {
            continue;
        }
        let before = left(&limiter, now);
        let (each, merged) = modelled(&model, &asks, now);
        let answer = limiter.transaction(&asks, now).unwrap();
        for ((ask, own), twin) in asks.iter().zip(&*answer.each).zip(each) {
            if is_new(ask) {
                assert_shadows(*own, twin, &format!("step {step}: {ask:?}"));
                shadowed += u32::from(own.shadow);
            } else {
                assert_eq!(*own, twin, "step {step}: {ask:?}");
            }
        }
        let has_say = |ask: &Request<'_>| !is_new(ask) && ask.mode != Mode::SpendOnly;
        if asks.iter().any(has_say) {
            assert!(has_say(&asks[answer.decided_by]), "step {step}");
            assert_eq!(answer.decision, merged.unwrap().decision, "step {step}");
        } else {
            assert!(answer.decision.allowed, "step {step}: nobody could deny it");
        }
        if !answer.decision.allowed {
            assert_eq!(left(&limiter, now), before, "step {step}: it spent nothing anywhere");
            denied += 1;
        }
        assert_eq!(left(&limiter, now), left(&model, now), "step {step}");
    }
    assert!(denied > 300 && shadowed > 500, "{denied} denied, {shadowed} in shadow");
}

#[test]
fn of_shadows_alone_one_that_would_deny_is_the_answer() {
    let limiter = mixed(true);
    let asks = [Request::new("NewBytes", "ada", 2), Request::new("NewCalls", "ada", 3)];
    let first = limiter.transaction(&asks, START).unwrap();
    assert_eq!((first.decision.allowed, first.decision.shadow), (true, false));
    let second = limiter.transaction(&asks, START).unwrap();
    assert_eq!((second.decision.allowed, second.decision.shadow), (true, true));
    assert_eq!(second.decided_by, 1);
    assert_eq!(second.each[0].remaining, 1, "where there is room it is spent");
}

#[test]
fn a_reload_into_and_out_of_shadow_keeps_what_was_spent() {
    let [ordinary, shadow] = ["", ", shadow: true"]
        .map(|field| parse(&format!("A: {{burst: 2, count: 1, period: 1h{field}}}")));
    let limiter = Limiter::with_memory(ordinary.clone(), MEMORY_MIN).unwrap();
    let spend = || limiter.spend("A", "x", 2, START).unwrap();
    assert!(spend().allowed && !spend().allowed);
    limiter.reload(shadow.clone(), START).unwrap();
    let passed = spend();
    assert_eq!((passed.allowed, passed.shadow, passed.remaining), (true, true, 0));
    limiter.reload(ordinary.clone(), START).unwrap();
    assert!(!spend().allowed);

    let told = |old, new| changes(old, new).iter().map(ToString::to_string).collect::<Vec<_>>();
    let (none, empty): ([&str; 0], _) = ([], Limits::new());
    assert_eq!(told(&ordinary, &ordinary), none);
    assert_eq!(told(&ordinary, &shadow), ["A: becomes a shadow: nobody is denied by it"]);
    assert_eq!(told(&shadow, &ordinary), ["A: denies again: it was a shadow"]);
    let new = ["A: new, 1 per 1h, burst 2", "A: becomes a shadow: nobody is denied by it"];
    assert_eq!(told(&empty, &shadow), new);
    assert_eq!(told(&shadow, &empty).len(), 1);
}

#[test]
fn a_known_name_and_its_overrides_can_be_in_shadow() {
    let limits = parse("NewOrdersPerAccount: {burst: 1, count: 1, period: 1h, shadow: true}");
    let more = *limits.named("NewOrdersPerAccount").unwrap().limit_for("1").unwrap();
    let limits = limits.with_override("NewOrdersPerAccount", "007", more).unwrap();
    assert!(limits.named("NewOrdersPerAccount").unwrap().is_shadow());
    let limiter = Limiter::with_memory(limits, MEMORY_MIN).unwrap();
    for id in ["1", "7"] {
        assert!(!limiter.spend("NewOrdersPerAccount", id, 1, START).unwrap().shadow);
        let passed = limiter.spend("NewOrdersPerAccount", id, 1, START).unwrap();
        assert_eq!((passed.allowed, passed.shadow), (true, true));
    }
}

#[test]
fn an_explanation_says_so() {
    let limiter = limiter("A: {burst: 2, count: 1, period: 1s, shadow: true}");
    let explain = || limiter.explain("A", "x", 2, START).unwrap();
    assert!(explain().to_string().contains("allowed: it would owe 2s of at most 2s; 0 left"));
    let _ = limiter.spend("A", "x", 1, START).unwrap();
    let explained = explain();
    assert!(explained.shadow && explained.answer.allowed && explained.answer.shadow);
    assert_eq!(
        explained.to_string(),
        "A for x
  bucket   A:x
  limit    1 per 1s, burst 2: the default (limits.yaml:1)
  shadow   it decides and counts, but denies nobody
  refill   one token every 1s; from empty to full in 2s
  now      1 of 2 tokens left; full in 1s
  cost 2   allowed: 2s more is 1s too much; denied for 1s if it were not for the shadow
"
    );
}
