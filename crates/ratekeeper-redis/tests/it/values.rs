//! What stands in Redis: readable, with a lifetime, and right when clocks are not.

use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::gcra::{self, Verdict};
use ratekeeper::algorithm::quota::{self, Unit};
use ratekeeper::{Moment, Nanos};
use ratekeeper_redis::{Answer, Ask, AverageAsk, Failure, QuotaAsk, Rule, Visit};
use ratekeeper_testkit::random::Random;

use crate::servers::{Blocking, GENEROUS, START, Single, within};

fn rule(burst: u64, count: u64, secs: u64) -> Rule {
    Rule::new(&gcra::Rule::new(burst, count, Nanos::from_secs(secs)).unwrap()).unwrap()
}

fn spend<'a>(bucket: &'a [u8], rule: &'a Rule, cost: u64) -> Ask<'a> {
    let (since, action) = (Moment::EPOCH, Action::CheckAndSpend);
    Ask { bucket, rule, since, action, is_shadow: false, cost, joined: false }
}

#[test]
fn a_person_can_read_what_is_kept() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let (rule, visit) = (rule(20, 10, 1), Visit { within: GENEROUS, now: Some(START) });
    link.gcra(&[spend(b"6:ada", &rule, 3)], visit.now);
    let value = server.text(&["GET", "ratekeeper:{6:ada}"]);
    assert_eq!(value, "1700000000000000 300000 100000/1 20");
    let insert = quota::Ask::Insert { quota: 10, usage: 1, ttl: 60, unit: Unit::Seconds };
    let mut answers = Vec::new();
    link.wait(link.link.quota(&[QuotaAsk { key: b"q", ask: insert }], &visit, &mut answers));
    assert_eq!(server.text(&["GET", "ratekeeper:quota:{q}"]), "9 1700000060.000000000 s");
    let rule = ratekeeper::algorithm::average::Rule::new(22.0, 20.0, true).unwrap();
    let mut answers = Vec::new();
    link.wait(link.link.average(&[AverageAsk { key: b"a", rule }], &visit, &mut answers));
    assert_eq!(server.text(&["GET", "ratekeeper:average:{a}"]), "1700000000000000 0 20");
}

#[test]
fn what_a_bucket_cannot_show_stands_in_its_value_and_is_owed_when_its_limit_is_raised_again() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let (wide, narrow) = (rule(1_000, 1, 1), rule(10, 1, 1));
    let second = |n| START.after(Nanos::from_secs(n));
    let ask = |rule, cost, since, now| {
        link.gcra(&[Ask { since, ..spend(b"6:ada", rule, cost) }], Some(now))[0]
    };
    let value = || server.text(&["GET", "ratekeeper:{6:ada}"]);
    assert_eq!(ask(&wide, 1_000, START, START).outcome.verdict, Verdict::Allow);
    let denied = ask(&narrow, 1, START, START);
    assert_eq!((denied.outcome.verdict, denied.hidden), (Verdict::Deny, 990));
    assert_eq!(value(), "1700000000000000 10000000 1000000/1 10 +990");
    // Full after ten seconds; and half of a token after that, which a spend begins anew.
    let full = ask(&narrow, 0, START, second(10));
    assert_eq!((full.outcome.remaining, full.hidden), (10, 990));
    let half = second(10).after(Nanos::new(500_000_000));
    assert_eq!(ask(&narrow, 1, START, half).outcome.remaining, 9);
    assert_eq!(value(), "1700000010500000 1000000 1000000/1 10 +990");
    let over = half.after(Nanos::from_secs(2));
    assert_eq!(ask(&narrow, 0, START, over).hidden, 989);
    let wide = ask(&wide, 0, over, over);
    assert_eq!((wide.outcome.remaining, wide.hidden), (11, 0));
    let refund = Ask { action: Action::Refund, ..spend(b"7", &narrow, 5) };
    link.gcra(&[spend(b"7", &rule(20, 1, 1), 20)], Some(START));
    let given = link.gcra(&[refund, refund, refund], Some(START));
    let given: Vec<_> = given.iter().map(|it| (it.outcome.remaining, it.hidden)).collect();
    assert_eq!(given, [(5, 10), (10, 10), (10, 5)]);
    let left = server.text(&["GET", "ratekeeper:{7}"]);
    assert_eq!(left, "1700000000000000 0 1000000/1 10 +5");
    link.gcra(&[Ask { action: Action::Reset, ..spend(b"7", &narrow, 0) }], Some(START));
    assert_eq!(server.text(&["EXISTS", "ratekeeper:{7}"]), "0");
}

#[test]
fn a_key_lives_until_its_bucket_is_full_and_hardly_longer() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let rule = rule(10, 10, 1);
    link.gcra(&[spend(b"a", &rule, 5)], None);
    let left: i64 = server.text(&["PTTL", "ratekeeper:{a}"]).parse().unwrap();
    assert!((1..=502).contains(&left), "{left} ms");
    let is_gone = || server.text(&["EXISTS", "ratekeeper:{a}"]) == "0";
    assert!(within(GENEROUS, is_gone), "the key stayed");
}

#[test]
fn after_ten_thousand_decisions_no_key_is_without_a_lifetime() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let seed = 11;
    let mut random = Random::new(seed);
    let rules = [rule(5, 1, 60), rule(1_000, 1_000, 3_600), rule(3, 1, 86_400)];
    let actions = [Action::CheckAndSpend, Action::SpendOnly, Action::Refund, Action::Reset];
    for _ in 0..100 {
        let names: Vec<_> = (0..100).map(|_| random.below(500).to_string()).collect();
        let asks: Vec<_> = names
            .iter()
            .map(|name| Ask {
                action: random.pick(&actions),
                is_shadow: random.chance(1, 10),
                ..spend(name.as_bytes(), &rules[random.index(3)], random.below(4))
            })
            .collect();
        link.gcra(&asks, None);
    }
    let visit = Visit::within(GENEROUS);
    for number in 0..100_u8 {
        let (key, mut answers) = ([number], Vec::new());
        let (ttl, unit) = (u64::MAX, Unit::Seconds);
        let ask = quota::Ask::Insert { quota: 10, usage: 1, ttl, unit };
        link.wait(link.link.quota(&[QuotaAsk { key: &key, ask }], &visit, &mut answers));
        assert!(answers[0].is_ok(), "{answers:?}");
        let rule = ratekeeper::algorithm::average::Rule::new(5.0, 1e9, number % 2 == 0).unwrap();
        let mut answers = Vec::new();
        link.wait(link.link.average(&[AverageAsk { key: &key, rule }], &visit, &mut answers));
        assert!(answers[0].is_ok(), "{answers:?}");
    }
    let script = "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do \
                  if redis.call('PTTL', k) < 0 then return k end n = n + 1 end return n";
    let keys: u64 = server.text(&["EVAL", script, "0"]).parse().unwrap_or_else(|key| {
        panic!("seed {seed}: a key lives for ever ({key})");
    });
    assert!(keys > 100, "seed {seed}: only {keys} keys");
}

#[test]
fn a_clock_that_steps_back_forgives_nothing_and_goes_on_from_there() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let rule = rule(2, 1, 1);
    link.gcra(&[spend(b"a", &rule, 2)], Some(START));
    let hour_ago = START.before(Nanos::from_secs(3_600));
    let denied = link.gcra(&[spend(b"a", &rule, 1)], Some(hour_ago))[0].outcome;
    assert_eq!((denied.verdict, denied.retry_in), (Verdict::Deny, Nanos::from_secs(1)));
    // The denial tells the truth also by the new clock.
    let later = hour_ago.after(denied.retry_in);
    let early = later.before(Nanos::new(1_000));
    assert_eq!(link.gcra(&[spend(b"a", &rule, 1)], Some(early))[0].outcome.verdict, Verdict::Deny);
    assert_eq!(link.gcra(&[spend(b"a", &rule, 1)], Some(later))[0].outcome.verdict, Verdict::Allow);
}

#[test]
fn a_new_rule_counts_from_its_moment_but_not_from_before_the_last_write_or_after_now() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let (fast, slow) = (rule(100, 10, 1), rule(100, 1, 1));
    let second = |n| START.after(Nanos::from_secs(n));
    // Four seconds after all was spent: as of when the slow rule came, so many are back.
    for (bucket, since, back) in [
        (&b"before"[..], START.before(Nanos::from_secs(9)), 4),
        (b"at", second(1), 13),
        (b"after", second(9), 40),
    ] {
        link.gcra(&[spend(bucket, &fast, 100)], Some(START));
        let ask = Ask { since, ..spend(bucket, &slow, 0) };
        assert_eq!(link.gcra(&[ask], Some(second(4)))[0].outcome.remaining, back);
        // It was written, though nothing was asked for: what comes now counts from there.
        let again = Ask { since: START, ..spend(bucket, &slow, 0) };
        assert_eq!(link.gcra(&[again], Some(second(6)))[0].outcome.remaining, back + 2);
    }
}

#[test]
fn the_clock_of_redis_gives_tokens_back() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let rule = rule(1, 20, 1);
    let ask = || link.gcra(&[spend(b"a", &rule, 1)], None)[0].outcome;
    assert_eq!(ask().verdict, Verdict::Allow);
    assert!(within(GENEROUS, || ask().verdict == Verdict::Allow), "nothing came back");
}

#[test]
fn what_is_not_a_bucket_is_left_alone_and_said() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let rule = rule(1, 1, 1);
    server.command(&["SET", "ratekeeper:{text}", "hello"]);
    server.command(&["LPUSH", "ratekeeper:{list}", "hello"]);
    for bucket in [&b"text"[..], b"list"] {
        let mut answers = Vec::new();
        let asks = [spend(bucket, &rule, 1)];
        link.wait(link.link.gcra(&asks, &Visit::within(GENEROUS), &mut answers));
        assert!(matches!(&answers[0], Err(Failure::Nonsense(_))), "{answers:?}");
    }
    assert_eq!(server.text(&["GET", "ratekeeper:{text}"]), "hello");
}

#[test]
fn what_is_not_a_bucket_disturbs_nobody_who_is_asked_for_beside_it() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let rule = rule(2, 1, 3_600);
    server.command(&["SET", "ratekeeper:{text}", "hello"]);
    server.command(&["LPUSH", "ratekeeper:{list}", "hello"]);
    let buckets = ["a", "text", "a", "b", "list", "a", "b"];
    let asks = buckets.map(|name| Ask { joined: false, ..spend(name.as_bytes(), &rule, 1) });
    let mut answers = Vec::new();
    link.wait(link.link.gcra(&asks, &Visit::within(GENEROUS), &mut answers));
    let told = answers.iter().map(|answer| match answer {
        Ok(Answer { outcome, .. }) => Some((outcome.verdict, outcome.remaining)),
        Err(Failure::Nonsense(_)) => None,
        Err(other) => panic!("{other}"),
    });
    let (allow, deny) = (Verdict::Allow, Verdict::Deny);
    let expected = [
        Some((allow, 1)),
        None,
        Some((allow, 0)),
        Some((allow, 1)),
        None,
        Some((deny, 0)),
        Some((allow, 0)),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_rule_that_redis_rounds_never_admits_more_than_the_exact_one() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    // A third of ten hours, less a nanosecond, with a burst that needs coarse ticks.
    let exact = gcra::Rule::new(1 << 18, 3, Nanos::new(35_999_999_999_998)).unwrap();
    let kept = Rule::new(&exact).unwrap();
    assert!(!kept.is_exact());
    let seed = 21;
    let mut random = Random::new(seed);
    let (mut tat, mut now) = (gcra::Tat::FULL, START);
    let mut late = 0;
    for _ in 0..500 {
        let cost = random.log_between(1, 1 << 18);
        let told = link.gcra(&[spend(b"r", &kept, cost)], Some(now))[0].outcome;
        let (after, expected) = gcra::spend(&exact, tat, cost, now);
        assert!(told.remaining <= expected.remaining, "seed {seed}: {told:?} {expected:?}");
        assert!(told.reset_in >= expected.reset_in, "seed {seed}: {told:?} {expected:?}");
        if told.verdict == Verdict::Allow {
            assert_eq!(expected.verdict, Verdict::Allow, "seed {seed}");
            tat = after;
        } else {
            late += u32::from(expected.verdict == Verdict::Allow);
        }
        now = now.after(Nanos::new(u128::from(random.log_between(1, 1 << 46)) * 1_000));
    }
    assert!(late < 5, "seed {seed}: {late} of 500 were denied that need not be");
}
