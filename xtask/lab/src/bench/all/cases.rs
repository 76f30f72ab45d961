//! What is measured beside what, and what it has to show.

use std::fmt;

use ratekeeper_bench::GCRA_SCRIPT;

use super::super::Failure;
use super::goal::{Bound, Metric};
use super::servers::{BURST, COUNT, HOT_LIMIT, Kind, LIMIT, PERIOD_SECS, QUOTA};
use Bound::{Any, AtLeast, AtMost};
use Metric::{Cpu, P50, PerCpu, Rate};

/// The names of the doors, as `--only` takes them.
pub(super) const DOORS: [&str; 5] = ["udp", "bucket", "throttr", "resp", "http"];

/// What is measured in turns, and what is made of it.
pub(super) struct Group {
    pub(super) door: &'static str,
    pub(super) load: String,
    pub(super) contenders: Vec<Contender>,
    pub(super) comparisons: Vec<Comparison>,
}

/// One server under one load.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) load: Load,
}

pub(super) enum Load {
    /// By `ratekeeper bench`, with these words behind the door.
    Bench { door: &'static str, keys: u64, words: Vec<String> },
    /// By `redis-benchmark`, over 50 connections.
    Redis { depth: u32, keys: u64, command: Command },
}

/// Two of the contenders, by their names.
pub(super) struct Comparison {
    pub(super) ours: &'static str,
    pub(super) theirs: &'static str,
    pub(super) metric: Metric,
    pub(super) bound: Bound,
}

/// What Redis' own tool asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    ClThrottle,
    Throttle,
    /// Of keys that have no lifetime, as the tool's own test reads them.
    Get,
    /// What has them be there.
    Set,
    EvalSha,
    /// The same words mean something else to throttlecrab.
    Throttlecrab,
}

/// How many keys there are, usually and at most.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) usual: u64,
    pub(super) most: u64,
    pub(super) most_name: &'static str,
}

/// As many as the goals are about.
pub(super) const KEYS: Keys =
    Keys { usual: 1_000_000, most: 10_000_000, most_name: "10 million keys" };
/// For a quick look.
pub(super) const KEYS_QUICK: Keys =
    Keys { usual: 100_000, most: 2_000_000, most_name: "2 million keys" };

/// Many datagrams as one.
const SEGMENTS: [&str; 6] = ["--connections", "4", "--depth", "64", "--segments", "64"];

/// As few as fit in any cache.
const FEW: u64 = 1_000;

/// Everything, in the order of the table.
pub(super) fn all(keys: Keys) -> Vec<Group> {
    let mut groups = vec![udp(keys), segments(keys)];
    groups.extend(["udp", "bucket", "throttr"].map(|door| latency(door, keys)));
    groups.extend(["bucket", "throttr"].map(|door| shallow(door, keys)));
    groups.extend(["bucket", "throttr"].map(|door| deep(door, keys)));
    let goals = [(1, 1.0, 1.5), (16, 1.1, 10.0), (100, 2.0, 25.0)];
    groups.extend(goals.map(|(depth, get, script)| resp(depth, get, script, keys)));
    groups.extend(["1", "16", "100"].map(|depth| resp_bare(depth, keys)));
    groups.push(http(keys));
    groups.extend(DOORS.map(|door| spread(door, keys)));
    groups
}

fn udp(keys: Keys) -> Group {
    let shape = ["--connections", "4", "--depth", "64"];
    Group {
        door: "udp",
        load: "4 sockets, 64 in flight on each".into(),
        contenders: vec![
            ask("udp", Kind::Ratekeeper, keys.usual, &shape).named("ratekeeper"),
            echo(Kind::EchoUdp, &shape).named("bare recvmmsg/sendmmsg"),
            redis(keys.usual, &shape).named("redis EVALSHA GCRA"),
            throttlecrab(keys.usual, &shape).named("throttlecrab"),
        ],
        comparisons: vec![
            compare("ratekeeper", "bare recvmmsg/sendmmsg", Rate, AtLeast(0.9)),
            compare("ratekeeper", "redis EVALSHA GCRA", Rate, Any),
            compare("ratekeeper", "throttlecrab", Rate, Any),
        ],
    }
}

fn segments(keys: Keys) -> Group {
    Group {
        door: "udp",
        load: "the same, sent as segments (GSO)".into(),
        contenders: vec![
            ask("udp", Kind::Ratekeeper, keys.usual, &SEGMENTS).named("ratekeeper"),
            echo(Kind::EchoSegments, &SEGMENTS).named("bare GRO/GSO"),
        ],
        comparisons: vec![compare("ratekeeper", "bare GRO/GSO", Rate, AtLeast(0.5))],
    }
}

fn latency(door: &'static str, keys: Keys) -> Group {
    // Waking up the client takes longer than a decision, and would be counted with it.
    let shape = ["--connections", "1", "--depth", "1", "--spin"];
    Group {
        door,
        load: "1 connection, 1 in flight".into(),
        contenders: vec![
            ask(door, Kind::Ratekeeper, keys.usual, &shape).named("ratekeeper"),
            echo(bare(door), &shape).named("bare echo"),
            ask(door, Kind::Polling, keys.usual, &shape).named("ratekeeper --poll 50us"),
            echo(polling(door), &shape).named("bare polling echo"),
        ],
        comparisons: vec![
            compare("ratekeeper", "bare echo", P50, AtMost(1.3)),
            compare("ratekeeper --poll 50us", "ratekeeper", Rate, AtLeast(5.0)),
            compare("ratekeeper --poll 50us", "bare polling echo", Rate, Any),
            compare("bare polling echo", "ratekeeper", Rate, Any),
        ],
    }
}

fn shallow(door: &'static str, keys: Keys) -> Group {
    let shape = ["--connections", "50", "--depth", "1"];
    Group {
        door,
        load: "50 connections, depth 1".into(),
        contenders: vec![
            ask(door, Kind::Ratekeeper, keys.usual, &shape).named("ratekeeper"),
            echo(bare(door), &shape).named("bare tokio echo"),
        ],
        comparisons: vec![compare("ratekeeper", "bare tokio echo", Rate, AtLeast(0.9))],
    }
}

/// The client is busier than our server here, so it is the server's processor time that counts.
fn deep(door: &'static str, keys: Keys) -> Group {
    let shape = ["--connections", "50", "--depth", "100"];
    Group {
        door,
        load: "50 connections, depth 100".into(),
        contenders: vec![
            ask(door, Kind::Ratekeeper, keys.usual, &shape).named("ratekeeper"),
            echo(bare(door), &shape).named("bare tokio echo"),
            redis(keys.usual, &shape).named("redis EVALSHA GCRA"),
            throttlecrab(keys.usual, &shape).named("throttlecrab"),
        ],
        comparisons: vec![
            compare("ratekeeper", "bare tokio echo", Cpu, AtMost(2.0)),
            compare("ratekeeper", "redis EVALSHA GCRA", Rate, AtLeast(50.0)),
            compare("ratekeeper", "redis EVALSHA GCRA", PerCpu, Any),
            compare("ratekeeper", "throttlecrab", Rate, AtLeast(50.0)),
            compare("ratekeeper", "throttlecrab", PerCpu, Any),
        ],
    }
}

fn resp(depth: u32, get: f64, script: f64, keys: Keys) -> Group {
    let load = |command| Load::Redis { depth, keys: keys.usual, command };
    let contender = |name, kind, command| Contender { name, kind, load: load(command) };
    let mut comparisons = Vec::new();
    // The client pays for waking a server that sleeps; what it pays otherwise, the polling one shows.
    let asleep = ["CL.THROTTLE", "THROTTLE"];
    let polling = ["CL.THROTTLE, --poll 50us", "THROTTLE, --poll 50us"];
    for (ours, bare) in [(asleep, "bare RESP"), (polling, "bare polling RESP")] {
        for ours in ours {
            comparisons.push(compare(ours, "redis GET", Rate, AtLeast(get)));
            comparisons.push(compare(ours, "redis EVALSHA GCRA", Rate, AtLeast(script)));
            comparisons.push(compare(ours, "throttlecrab", Rate, Any));
            comparisons.push(compare(ours, bare, Rate, Any));
        }
        // What this client gets of who decides nothing.
        comparisons.push(compare(bare, "redis GET", Rate, Any));
        comparisons.push(compare(bare, "redis EVALSHA GCRA", Rate, Any));
    }
    Group {
        door: "resp",
        load: format!("redis-benchmark, 50 connections, depth {depth}"),
        contenders: vec![
            contender(asleep[0], Kind::Ratekeeper, Command::ClThrottle),
            contender(asleep[1], Kind::Ratekeeper, Command::Throttle),
            contender(polling[0], Kind::Polling, Command::ClThrottle),
            contender(polling[1], Kind::Polling, Command::Throttle),
            contender("redis EVALSHA GCRA", Kind::Redis, Command::EvalSha),
            contender("redis GET", Kind::Redis, Command::Get),
            contender("throttlecrab", Kind::Throttlecrab, Command::Throttlecrab),
            contender("bare RESP", Kind::ConstantResp, Command::ClThrottle),
            contender("bare polling RESP", Kind::PollingResp, Command::ClThrottle),
        ],
        comparisons,
    }
}

/// Redis' own tool cannot ask an echo that knows only lengths, so ours asks both.
fn resp_bare(depth: &str, keys: Keys) -> Group {
    let shape = ["--connections", "50", "--depth", depth];
    Group {
        door: "resp",
        load: format!("ratekeeper bench, 50 connections, depth {depth}"),
        contenders: vec![
            ask("resp", Kind::Ratekeeper, keys.usual, &shape).named("THROTTLE"),
            echo(Kind::EchoResp, &shape).named("bare tokio echo"),
        ],
        comparisons: vec![
            compare("THROTTLE", "bare tokio echo", Rate, Any),
            compare("THROTTLE", "bare tokio echo", Cpu, Any),
        ],
    }
}

fn http(keys: Keys) -> Group {
    let [one, many] = ["1", "16"].map(|depth| ["--connections", "50", "--depth", depth]);
    Group {
        door: "http",
        load: "50 connections".into(),
        contenders: vec![
            ask("http", Kind::Ratekeeper, keys.usual, &one).named("depth 1"),
            ask("http", Kind::EchoHttp, keys.usual, &one).named("bare hyper, depth 1"),
            ask("http", Kind::Ratekeeper, keys.usual, &many).named("depth 16"),
            ask("http", Kind::EchoHttp, keys.usual, &many).named("bare hyper, depth 16"),
            redis(keys.usual, &one).named("redis EVALSHA GCRA, depth 1"),
            redis(keys.usual, &many).named("redis EVALSHA GCRA, depth 16"),
            throttlecrab(keys.usual, &one).named("throttlecrab, depth 1"),
            throttlecrab(keys.usual, &many).named("throttlecrab, depth 16"),
        ],
        comparisons: vec![
            compare("depth 1", "bare hyper, depth 1", Rate, AtLeast(0.8)),
            compare("depth 16", "bare hyper, depth 16", Rate, AtLeast(0.8)),
            // One that stalled would be slower.
            compare("depth 16", "depth 1", Rate, AtLeast(1.0)),
            compare("depth 1", "redis EVALSHA GCRA, depth 1", Rate, Any),
            compare("depth 16", "redis EVALSHA GCRA, depth 16", Rate, Any),
            compare("depth 1", "throttlecrab, depth 1", Rate, Any),
            compare("depth 16", "throttlecrab, depth 16", Rate, Any),
        ],
    }
}

fn spread(door: &'static str, keys: Keys) -> Group {
    let shape = match door {
        "udp" => ["--connections", "4", "--depth", "64"],
        _ => ["--connections", "50", "--depth", "16"],
    };
    let hot = [&shape[..], &["--spread", "one"]].concat();
    let hot = ask_of(HOT_LIMIT, door, Kind::Ratekeeper, FEW, &hot).named("one hot key");
    Group {
        door,
        load: format!("{} connections, depth {}", shape[1], shape[3]),
        contenders: vec![
            ask(door, Kind::Ratekeeper, FEW, &shape).named("1 thousand keys"),
            ask(door, Kind::Ratekeeper, 1_000_000, &shape).named("1 million keys"),
            ask(door, Kind::Ratekeeper, keys.most, &shape).named(keys.most_name),
            hot,
        ],
        comparisons: vec![
            compare("1 million keys", "1 thousand keys", Rate, AtLeast(0.75)),
            compare(keys.most_name, "1 thousand keys", Rate, AtLeast(0.75)),
            compare("one hot key", "1 thousand keys", Rate, AtLeast(0.6)),
        ],
    }
}

/// What carries a door's bytes and decides nothing.
fn bare(door: &str) -> Kind {
    match door {
        "udp" => Kind::EchoUdp,
        "bucket" => Kind::EchoBucket,
        _ => Kind::EchoThrottr,
    }
}

/// The echo beside the polling server.
fn polling(door: &str) -> Kind {
    match door {
        "udp" => Kind::PollingEchoUdp,
        "bucket" => Kind::PollingEchoBucket,
        _ => Kind::PollingEchoThrottr,
    }
}

fn compare(ours: &'static str, theirs: &'static str, metric: Metric, bound: Bound) -> Comparison {
    Comparison { ours, theirs, metric, bound }
}

/// A door is asked for keys of one kind, so that all doors with named limits have the same ones.
pub(super) fn ask(door: &'static str, kind: Kind, keys: u64, shape: &[&str]) -> Contender {
    ask_of(LIMIT, door, kind, keys, shape)
}

fn ask_of(limit: &str, door: &'static str, kind: Kind, keys: u64, shape: &[&str]) -> Contender {
    let user = keyed("user");
    let (address, bucket) = (keyed("ws ip=1.1.1."), format!("{limit}:{user}"));
    let what: &[&str] = match door {
        "udp" => &["--key", &address],
        "bucket" => &["--name", &bucket],
        "throttr" => &["--consumer", &user, "--quota", QUOTA, "--ttl", "24h"],
        "http" => &["--limit", limit, "--id", &user],
        _ => &["--command", "throttle", "--limit", limit, "--key", &user],
    };
    words(door, kind, keys, &[what, shape].concat())
}

/// Redis with the script, by its own protocol whatever the door.
fn redis(keys: u64, shape: &[&str]) -> Contender {
    let (key, burst, count) = (keyed("user"), BURST.to_string(), COUNT.to_string());
    let period = format!("{PERIOD_SECS}s");
    let script = ["--command", "evalsha", "--key", &key, "--burst", &burst, "--count", &count];
    words("resp", Kind::Redis, keys, &[&script[..], &["--period", &period], shape].concat())
}

/// throttlecrab, by the same protocol.
fn throttlecrab(keys: u64, shape: &[&str]) -> Contender {
    let command = format!("THROTTLE user{{key}} {BURST} {COUNT} {PERIOD_SECS}");
    let command = ["--command", &command, "--denied", "0"];
    words("resp", Kind::Throttlecrab, keys, &[&command[..], shape].concat())
}

fn keyed(before: &str) -> String {
    format!("{before}{{key}}")
}

fn words(door: &'static str, kind: Kind, keys: u64, words: &[&str]) -> Contender {
    let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    words.extend(["--keys".to_owned(), keys.to_string()]);
    Contender { name: "", kind, load: Load::Bench { door, keys, words } }
}

/// Datagrams are as long as those of the usual keys.
fn echo(kind: Kind, shape: &[&str]) -> Contender {
    let (door, bytes) = match kind.bytes() {
        None => ("echo-udp", vec!["--bytes", "42"]),
        Some([bytes, answer]) => ("echo-tcp", vec!["--bytes", bytes, "--answer-bytes", answer]),
    };
    words(door, kind, 1, &[&bytes, shape].concat())
}

impl Contender {
    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// What has the server know the same keys soonest.
    pub(super) fn filler(&self) -> Self {
        let deep = ["--connections", "50", "--depth", "100"];
        match (&self.load, self.kind) {
            (Load::Bench { door, keys, .. }, Kind::Ratekeeper | Kind::Polling) => match *door {
                "udp" => ask("udp", self.kind, *keys, &SEGMENTS),
                "throttr" => ask("throttr", self.kind, *keys, &deep),
                // All that name a limit share its buckets.
                _ => ask("bucket", self.kind, *keys, &deep),
            },
            (Load::Bench { keys, .. }, Kind::Redis) => redis(*keys, &deep),
            (Load::Bench { keys, .. }, Kind::Throttlecrab) => throttlecrab(*keys, &deep),
            (Load::Bench { door, keys, words }, kind) => {
                let load = Load::Bench { door, keys: *keys, words: words.clone() };
                Self { name: "", kind, load }
            }
            (&Load::Redis { keys, command, .. }, kind) => {
                let command = if command == Command::Get { Command::Set } else { command };
                Self { name: "", kind, load: Load::Redis { depth: 100, keys, command } }
            }
        }
    }

    pub(super) fn door(&self) -> &'static str {
        match self.load {
            Load::Bench { door, .. } => door,
            Load::Redis { .. } => "resp",
        }
    }

    pub(super) fn words(&self) -> &[String] {
        match &self.load {
            Load::Bench { words, .. } => words,
            Load::Redis { .. } => &[],
        }
    }

    /// How many keys it has to know before it is measured.
    #[expect(clippy::cast_precision_loss, reason = "ten million at most")]
    pub(super) fn keys(&self) -> f64 {
        match self.load {
            Load::Bench { keys, .. } | Load::Redis { keys, .. } => keys as f64,
        }
    }
}

/// What is sent to whom.
impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.load {
            Load::Bench { door, words, .. } => {
                write!(f, "{:?} {door} {}", self.kind, words.join(" "))
            }
            Load::Redis { keys, command, .. } => write!(f, "{:?} {command} {keys}", self.kind),
        }
    }
}

impl Command {
    /// As the tool takes them. The script is given to the server at this address first.
    pub(super) fn words(self, address: &str) -> Result<Vec<String>, Failure> {
        let text = match self {
            Self::EvalSha => {
                let client = redis::Client::open(format!("redis://{address}"))?;
                let mut load = redis::cmd("SCRIPT");
                let load = load.arg("LOAD").arg(GCRA_SCRIPT);
                let digest: String = load.query(&mut client.get_connection()?)?;
                format!("EVALSHA {digest} 1 key:__rand_int__ {BURST} {COUNT} {PERIOD_SECS} 1")
            }
            other => other.to_string(),
        };
        Ok(text.split(' ').map(str::to_owned).collect())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, rule) = ("key:__rand_int__", format!("{COUNT} {PERIOD_SECS}"));
        match self {
            Self::ClThrottle => write!(f, "CL.THROTTLE {key} {} {rule} 1", BURST - 1),
            Self::Throttle => write!(f, "THROTTLE {LIMIT} {key} 1"),
            Self::Get => write!(f, "GET value:__rand_int__"),
            Self::Set => write!(f, "SET value:__rand_int__ 1234567890123456"),
            Self::EvalSha => f.write_str("EVALSHA"),
            Self::Throttlecrab => write!(f, "THROTTLE {key} {BURST} {rule}"),
        }
    }
}

#[cfg(test)]
mod tests;
