//! What was spent, read from servers and written to them.

use ratekeeper::Clock;
use ratekeeper_redis::{Entry, Kind, Put, Value};

use crate::servers::{Blocking, Cluster, GENEROUS, Single};

fn entry(kind: Kind, name: &str, value: &str) -> Entry {
    Entry { name: name.into(), value: Value::read(kind, value).unwrap() }
}

fn put(link: &Blocking, entry: &Entry) -> Put {
    let mut done = link.wait(link.link.put(std::slice::from_ref(entry), GENEROUS));
    done.remove(0).unwrap()
}

/// Everything that is there, in order, each once.
fn read(link: &Blocking) -> (Vec<String>, usize) {
    let (mut found, mut strange) = (Vec::new(), 0);
    let mut scan = link.wait(link.link.scan(GENEROUS)).unwrap();
    while let Some(page) = link.wait(scan.next(GENEROUS)).unwrap() {
        let shown = |it: Entry| format!("{} {}", String::from_utf8(it.name).unwrap(), it.value);
        found.extend(page.entries.into_iter().map(shown));
        strange += page.strange;
    }
    found.sort();
    found.dedup();
    (found, strange)
}

fn micros() -> u64 {
    Clock::start().now().as_nanos() / 1_000
}

#[test]
fn a_bucket_is_written_as_of_now_and_only_where_less_is_owed() {
    let redis = Single::start();
    let link = Blocking::open(&redis.url());
    // A token per second, of which ten seconds have passed.
    let at = micros() - 10_000_000;
    let owes = |ticks: u64| entry(Kind::Bucket, "6:ada", &format!("{at} {ticks} 1000000/1 100"));
    assert_eq!(put(&link, &owes(9_000_000)), Put::Over);
    assert_eq!(redis.text(&["DBSIZE"]), "0");
    assert_eq!(put(&link, &owes(50_000_000)), Put::Written);
    assert_eq!(put(&link, &owes(50_000_000)), Put::Kept);
    assert_eq!(put(&link, &owes(49_000_000)), Put::Kept);
    let value = redis.text(&["GET", "ratekeeper:{6:ada}"]);
    let words: Vec<u64> = value.split([' ', '/']).map(|word| word.parse().unwrap()).collect();
    assert!(words[0] >= at + 10_000_000, "{value}");
    assert_eq!(words[0] + words[1], at + 50_000_000, "full when it was: {value}");
    let left: u64 = redis.text(&["PTTL", "ratekeeper:{6:ada}"]).parse().unwrap();
    assert!(left > 30_000 && left <= 40_002, "{left}");
    assert_eq!(put(&link, &owes(60_000_000)), Put::Written);
    // Under another rule the tokens are compared: 49 and some are owed.
    let other =
        |ticks: u64| entry(Kind::Bucket, "6:ada", &format!("{} {ticks} 2000000/1 100", micros()));
    assert_eq!(put(&link, &other(90_000_000)), Put::Kept);
    assert_eq!(put(&link, &other(102_000_000)), Put::Written);
    assert!(redis.text(&["GET", "ratekeeper:{6:ada}"]).ends_with(" 2000000/1 100"));
}

#[test]
fn what_is_owed_besides_is_moved_and_compared_too() {
    let redis = Single::start();
    let link = Blocking::open(&redis.url());
    let owes = |ticks: u64, more: u64| {
        let value = format!("{} {ticks} 1000000/1 10 +{more}", micros());
        entry(Kind::Bucket, "6:ada", &value)
    };
    assert_eq!(put(&link, &owes(9_000_000, 500)), Put::Written);
    let (found, _) = read(&link);
    assert!(found[0].ends_with(" 1000000/1 10 +500"), "{found:?}");
    assert_eq!(put(&link, &owes(9_000_000, 499)), Put::Kept);
    assert_eq!(put(&link, &owes(9_999_999, 501)), Put::Written);
    let plain = entry(Kind::Bucket, "6:ada", &format!("{} 100000000 1000000/1 100", micros()));
    assert_eq!(put(&link, &plain), Put::Kept);
    // All but nothing of it came back long ago.
    let old = format!("{} 9000000 1000000/1 10 +90", micros() - 100_000_000);
    assert_eq!(put(&link, &entry(Kind::Bucket, "7", &old)), Put::Over);
    let left: u64 = redis.text(&["PTTL", "ratekeeper:{6:ada}"]).parse().unwrap();
    assert!((490_000..=511_002).contains(&left), "{left}");
}

#[test]
fn averages_and_quotas_are_moved_too() {
    let (from, to) = (Single::start(), Single::start());
    let (link, there) = (Blocking::open(&from.url()), Blocking::open(&to.url()));
    let (now, later) = (micros(), micros() / 1_000_000 + 100);
    let average = |rate: &str| entry(Kind::Average, "ip=1", &format!("{now} {rate} 20"));
    let quota = |left: u64| entry(Kind::Quota, "3:ada:/", &format!("{left} {later}.000000000 s"));
    assert_eq!(put(&link, &average("3.25")), Put::Written);
    assert_eq!(put(&link, &average("3")), Put::Kept);
    assert_eq!(put(&link, &average("4.5")), Put::Written);
    assert_eq!(put(&link, &entry(Kind::Average, "old", "1000000 4 20")), Put::Over);
    assert_eq!(put(&link, &quota(10)), Put::Written);
    assert_eq!(put(&link, &quota(u64::MAX)), Put::Kept);
    assert_eq!(put(&link, &quota(9)), Put::Written);
    assert_eq!(put(&link, &entry(Kind::Quota, "old", "9 1000.000000000 s")), Put::Over);
    from.command(&["SET", "ratekeeper:{strange}", "5"]);
    from.command(&["LPUSH", "ratekeeper:{list}", "5"]);
    from.command(&["SET", "ratekeeper:other", "5"]);
    let (found, strange) = read(&link);
    let expected = [format!("3:ada:/ 9 {later}.000000000 s"), format!("ip=1 {now} 4.5 20")];
    assert_eq!((found, strange), (expected.to_vec(), 2));
    for entry in [average("4.5"), quota(9)] {
        assert_eq!(put(&there, &entry), Put::Written);
        let key = String::from_utf8(entry.value.kind().key(&entry.name)).unwrap();
        assert_eq!(to.text(&["GET", &key]), from.text(&["GET", &key]));
        let left: i64 = to.text(&["PTTL", &key]).parse().unwrap();
        assert!(left > 0, "{key} lives for {left} ms");
    }
}

#[test]
fn every_primary_of_a_cluster_is_read_and_written() {
    let cluster = Cluster::start();
    let link = Blocking::open(&cluster.url());
    let at = micros();
    let value = format!("{at} 50000000 1000000/1 100");
    let all: Vec<_> =
        (0..3_000).map(|id| entry(Kind::Bucket, &format!("6:{id:04}"), &value)).collect();
    for done in link.wait(link.link.put(&all, GENEROUS)) {
        assert_eq!(done, Ok(Put::Written));
    }
    for server in &cluster.servers[..3] {
        let keys: usize = server.text(&["DBSIZE"]).parse().unwrap();
        assert!(keys > 500, "{keys}");
    }
    let (found, strange) = read(&link);
    assert_eq!((found.len(), strange), (3_000, 0));
    assert!(found[7].starts_with("6:0007 "), "{}", found[7]);
}
