//! What only a cluster does: transactions across slots, slots that move, primaries that fail.

use std::time::Duration;

use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::gcra::{self, Verdict};
use ratekeeper::{Moment, Nanos};
use ratekeeper_redis::{Answer, Ask, Failure, Kind, Rule, Visit, slot};

use crate::servers::{Blocking, Cluster, START, Single, until};

const DEADLINE: Duration = Duration::from_millis(100);

fn rule(burst: u64) -> Rule {
    Rule::new(&gcra::Rule::new(burst, 1, Nanos::from_secs(3_600)).unwrap()).unwrap()
}

fn spend<'a>(bucket: &'a [u8], rule: &'a Rule, cost: u64) -> Ask<'a> {
    let (since, action) = (Moment::EPOCH, Action::CheckAndSpend);
    Ask { bucket, rule, since, action, is_shadow: false, cost, joined: true }
}

fn left(link: &Blocking, bucket: &[u8], rule: &Rule) -> u64 {
    link.gcra(&[spend(bucket, rule, 0)], None)[0].outcome.remaining
}

/// Buckets of which each is on another primary.
fn apart() -> [Vec<u8>; 3] {
    [0, 1, 2].map(|wanted| {
        (0..100)
            .map(|n| n.to_string().into_bytes())
            .find(|name| Cluster::owner(slot(&Kind::Bucket.key(name))) == wanted)
            .unwrap()
    })
}

#[test]
fn slots_are_those_that_the_server_computes() {
    let cluster = Cluster::start();
    for name in ["a", "6:ada", "{", "}", "{}", "a}b{c}", ""] {
        let key = Kind::Bucket.key(name.as_bytes());
        let text = String::from_utf8(key.clone()).unwrap();
        let theirs = cluster.servers[0].text(&["CLUSTER", "KEYSLOT", &text]);
        assert_eq!(slot(&key).to_string(), theirs, "{text}");
    }
}

#[test]
fn a_transaction_across_slots_is_all_or_nothing_and_leaves_no_reservation() {
    let cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let [a, b, c] = apart();
    let (small, large) = (rule(2), rule(10));
    let all = |cost| [spend(&a, &large, 1), spend(&b, &small, cost), spend(&c, &large, 3)];
    let answers = link.gcra(&all(2), None);
    assert!(answers.iter().all(|answer| answer.outcome.verdict == Verdict::Allow));
    assert_eq!(
        [9, 0, 7],
        [left(&link, &a, &large), left(&link, &b, &small), left(&link, &c, &large)]
    );
    let answers = link.gcra(&all(1), None);
    let verdicts = [0, 1, 2].map(|index| answers[index].outcome.verdict);
    assert_eq!(verdicts, [Verdict::Allow, Verdict::Deny, Verdict::Allow]);
    assert_eq!(
        [9, 0, 7],
        [left(&link, &a, &large), left(&link, &b, &small), left(&link, &c, &large)]
    );
    let never = [spend(&a, &large, 1), spend(&b, &small, 3)];
    assert_eq!(link.gcra(&never, None)[1].outcome.verdict, Verdict::Never);
    assert_eq!(left(&link, &a, &large), 9);
    for (index, name) in [&a, &b, &c].into_iter().enumerate() {
        let key = String::from_utf8(Kind::Bucket.key(name)).unwrap();
        let value = cluster.servers[index].text(&["GET", &key]);
        assert_eq!(value.split(' ').count(), 4, "a reservation is left in {value}");
    }
}

#[test]
fn every_action_works_across_slots() {
    let cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let [a, b, _] = apart();
    let rule = rule(10);
    let both = |action, cost| [&a, &b].map(|bucket| Ask { action, ..spend(bucket, &rule, cost) });
    link.gcra(&both(Action::CheckAndSpend, 6), None);
    let refunded = link.gcra(&both(Action::Refund, 2), None);
    assert!(refunded.iter().all(|answer| answer.outcome.remaining == 6));
    let offered = [spend(&a, &rule, 1), Ask { action: Action::SpendOnly, ..spend(&b, &rule, 9) }];
    let answers = link.gcra(&offered, None);
    assert_eq!(answers[1].outcome.verdict, Verdict::Deny);
    assert_eq!([5, 6], [left(&link, &a, &rule), left(&link, &b, &rule)]);
    link.gcra(&both(Action::Reset, 0), None);
    assert_eq!([10, 10], [left(&link, &a, &rule), left(&link, &b, &rule)]);
    let refused = link.gcra(&both(Action::Refund, 2), None);
    assert!(refused.iter().all(|answer| answer.outcome.verdict == Verdict::Deny));
}

#[test]
fn a_reservation_that_nobody_comes_back_for_is_given_back() {
    let cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let [a, _, _] = apart();
    let rule = rule(10);
    // What a server that died half-way leaves behind.
    let (step, micros) = (rule.emission_interval().0, START.as_nanos() / 1_000);
    let key = String::from_utf8(Kind::Bucket.key(&a)).unwrap();
    let value = format!("{micros} {} {rule} 00000000000000aa {} {micros}", 7 * step, 4 * step);
    cluster.servers[0].command(&["SET", &key, &value, "PX", "60000"]);
    let at = |nanos| Some(START.after(Nanos::new(nanos)));
    let seen = |nanos| link.gcra(&[spend(&a, &rule, 0)], at(nanos))[0].outcome.remaining;
    assert_eq!(seen(999_999_000), 3);
    // A second's worth has come back of seven; what is given back is no more than what is missing.
    assert_eq!(seen(1_000_000_000), 7);
    let value = cluster.servers[0].text(&["GET", &key]);
    assert_eq!(value.split(' ').count(), 4, "{value}");
}

#[test]
fn what_was_held_goes_back_as_if_it_had_never_been_taken() {
    let cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let [a, _, _] = apart();
    let rule = Rule::new(&gcra::Rule::new(10, 10, Nanos::from_secs(4)).unwrap()).unwrap();
    let (step, micros) = (rule.emission_interval().0, START.as_nanos() / 1_000);
    let key = String::from_utf8(Kind::Bucket.key(&a)).unwrap();
    let at = |millis: u128| Some(START.after(Nanos::new(millis * 1_000_000)));
    let seen = |millis| link.gcra(&[spend(&a, &rule, 10)], at(millis))[0];
    // Of nine that were missing six were held: without them the bucket has been full since 1.2 s.
    for (owed, held, millis, left) in [(9, 6, 1_200, 10), (9, 6, 1_000, 9), (9, 2, 1_000, 5)] {
        let (owed, held) = (owed * step, held * step);
        let value = format!("{micros} {owed} {rule} 00000000000000aa {held} {micros}");
        cluster.servers[0].command(&["SET", &key, &value, "PX", "60000"]);
        let before = seen(999);
        assert_eq!((before.outcome.verdict, before.is_held), (Verdict::Deny, true));
        let after = seen(millis);
        let is_full = left == 10;
        assert_eq!(after.outcome.remaining, if is_full { 0 } else { left }, "{held} of {owed}");
        assert_eq!((after.outcome.verdict == Verdict::Allow, after.is_held), (is_full, false));
    }
    // Spent from while it was held, once 1.6 tokens had come back: two are owed besides the six.
    let (owed, held) = (7 * step, 6 * step);
    let value = format!("{micros} {owed} {rule} 00000000000000aa {held} {micros}");
    cluster.servers[0].command(&["SET", &key, &value, "PX", "60000"]);
    assert_eq!(link.gcra(&[spend(&a, &rule, 2)], at(640))[0].outcome.remaining, 2);
    assert_eq!(link.gcra(&[spend(&a, &rule, 0)], at(1_040))[0].outcome.remaining, 9);
}

#[test]
fn a_bucket_that_is_held_for_ever_by_another_is_a_failure_in_time() {
    let cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let [a, b, _] = apart();
    let rule = rule(10);
    let micros = START.as_nanos() / 1_000;
    let key = String::from_utf8(Kind::Bucket.key(&a)).unwrap();
    let value = format!("{micros} 0 {rule} 00000000000000aa 0 {micros}");
    assert_eq!([10, 10], [left(&link, &b, &rule), left(&link, &a, &rule)]);
    cluster.servers[0].command(&["SET", &key, &value, "PX", "60000"]);
    let mut answers = Vec::new();
    let asks = [spend(&a, &rule, 1), spend(&b, &rule, 1)];
    let visit = Visit { within: 5 * DEADLINE, now: Some(START) };
    link.wait(link.link.gcra(&asks, &visit, &mut answers));
    assert!(answers.iter().all(|answer| *answer == Err(Failure::Held)), "{answers:?}");
    let later = Some(START.after(Nanos::from_secs(2)));
    assert_eq!(link.gcra(&asks, later)[1].outcome.remaining, 9);
}

#[test]
fn transactions_in_opposite_order_all_finish_and_spend_the_same() {
    let cluster = Cluster::start();
    let [a, b, _] = apart();
    let rule = rule(10_000);
    std::thread::scope(|scope| {
        for reverse in [false, true, false, true] {
            let (cluster, rule, a, b) = (&cluster, &rule, &a, &b);
            scope.spawn(move || {
                let link = Blocking::open(&cluster.url());
                let mut asks = [spend(a, rule, 1), spend(b, rule, 1)];
                if reverse {
                    asks.reverse();
                }
                for _ in 0..100 {
                    link.gcra(&asks, None);
                }
            });
        }
    });
    let link = Blocking::open(&cluster.url());
    assert_eq!([9_600, 9_600], [left(&link, &a, &rule), left(&link, &b, &rule)]);
}

#[test]
fn a_server_of_a_cluster_at_a_plain_address_is_asked_as_one() {
    let server = Single::with(&["--cluster-enabled", "yes"]);
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until("a cluster of one", || server.says(&["CLUSTER", "INFO"], "cluster_state:ok"));
    let link = Blocking::open(&server.url());
    let [a, b, _] = apart();
    let rule = rule(10);
    let alone = |bucket, cost| Ask { joined: false, ..spend(bucket, &rule, cost) };
    let mut answers = Vec::new();
    let visit = Visit::within(5 * DEADLINE);
    until("answers to both", || {
        let asks = [alone(&a, 0), alone(&b, 0)];
        link.wait(link.link.gcra(&asks, &visit, &mut answers));
        answers.iter().all(Result::is_ok)
    });
    link.gcra(&[alone(&a, 1), alone(&b, 2), alone(&a, 3)], None);
    link.gcra(&[spend(&a, &rule, 1), spend(&b, &rule, 1)], None);
    assert_eq!([5, 7], [left(&link, &a, &rule), left(&link, &b, &rule)]);
}

fn ask(link: &Blocking, bucket: &[u8], rule: &Rule) -> Result<Answer, Failure> {
    let mut answers = Vec::new();
    let asks = [spend(bucket, rule, 1)];
    link.wait(link.link.gcra(&asks, &Visit::within(DEADLINE), &mut answers));
    answers.remove(0)
}

#[test]
fn a_slot_that_moves_takes_its_buckets_along_and_nothing_is_spent_twice() {
    let cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let [a, _, _] = apart();
    let rule = rule(1_000);
    let key = String::from_utf8(Kind::Bucket.key(&a)).unwrap();
    let number = slot(key.as_bytes()).to_string();
    let (from, to) = (&cluster.servers[0], &cluster.servers[1]);
    let (from_id, to_id, port) = (cluster.id(0), cluster.id(1), to.port.to_string());
    let mut spent = 0;
    let mut spend_some = || {
        for _ in 0..20 {
            let asks = [spend(&a, &rule, 1)];
            spent += 1;
            assert_eq!(link.gcra(&asks, None)[0].outcome.remaining, 1_000 - spent);
        }
    };
    spend_some();
    to.command(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &from_id]);
    from.command(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &to_id]);
    spend_some();
    from.command(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
    spend_some();
    for server in [to, from] {
        server.command(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]);
    }
    spend_some();
}

#[test]
fn a_transaction_waits_for_buckets_that_are_half_way_to_another_node() {
    let cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let [a, _, _] = apart();
    let slot_of = |name: &[u8]| slot(&Kind::Bucket.key(name));
    let mut names = (0..1_000_000).map(|n| format!("n{n}").into_bytes());
    let b = names.find(|name| slot_of(name) == slot_of(&a)).unwrap();
    let rule = rule(10);
    let both = [spend(&a, &rule, 1), spend(&b, &rule, 1)];
    link.gcra(&both, None);
    let (from, to) = (&cluster.servers[0], &cluster.servers[1]);
    let (number, port) = (slot_of(&a).to_string(), to.port.to_string());
    to.command(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &cluster.id(0)]);
    from.command(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &cluster.id(1)]);
    let migrate = |name: &[u8]| {
        let key = String::from_utf8(Kind::Bucket.key(name)).unwrap();
        from.command(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
    };
    migrate(&a);
    let mut answers = Vec::new();
    link.wait(link.link.gcra(&both, &Visit::within(DEADLINE), &mut answers));
    assert!(answers.iter().all(|answer| *answer == Err(Failure::Timeout)), "{answers:?}");
    migrate(&b);
    let answers = link.gcra(&both, None);
    let remaining = [0, 1].map(|index: usize| answers[index].outcome.remaining);
    assert_eq!(remaining, [8, 8], "what was not run was not spent");
}

#[test]
fn a_dead_primary_fails_its_own_asks_only_and_its_replica_takes_over() {
    let mut cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let [a, b, _] = apart();
    let rule = rule(1_000);
    link.gcra(&[spend(&b, &rule, 0)], None);
    assert_eq!(link.gcra(&[spend(&a, &rule, 1)], None)[0].outcome.remaining, 999);
    until("a replica that has it", || cluster.servers[3].says(&["DBSIZE"], "1"));
    cluster.servers[0].kill();
    let mut answers = Vec::new();
    let asks = [spend(&a, &rule, 1), Ask { joined: false, ..spend(&b, &rule, 1) }];
    link.wait(link.link.gcra(&asks, &Visit::within(DEADLINE), &mut answers));
    assert!(answers[0].is_err(), "{answers:?}");
    assert!(answers[1].is_ok(), "{answers:?}");
    until("an answer from the replica", || ask(&link, &a, &rule).is_ok());
    let remaining = link.gcra(&[spend(&a, &rule, 0)], None)[0].outcome.remaining;
    assert_eq!(remaining, 998, "what was replicated is still spent");
}
