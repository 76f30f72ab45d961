//! One datagram through the UDP door with the rules of the example, beside the store alone.
//!
//! Every round makes the datagrams that it will send, then times them one by one, in batches, and
//! the bare store on the same keys. The table shows medians over the rounds.

use std::sync::Arc;
use std::time::Instant;

use ratekeeper::algorithm::average::{Average, Outcome, Rule};
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::Question;
use ratekeeper::{Keyed, Limiter, Moment, Nanos};
use ratekeeper_protocol::udp::{Door, Rules};
use ratekeeper_protocol::{Counts, DatagramDoor as _, Replies};
use ratekeeper_testkit::random::Random;

use super::Failure;

const BATCH: usize = 64;
const MEMORY: usize = 1 << 28;
pub(crate) const RULES: Source<'static> = Source {
    name: "examples/musicbrainz.yaml",
    text: include_str!("../../../../examples/musicbrainz.yaml"),
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many keys, at most 2^24
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// How many rounds; medians are shown
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// How many datagrams a round times
    #[arg(long, default_value_t = 200_000)]
    datagrams: usize,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    println!("nanoseconds per datagram, one thread, {} keys\n", args.keys);
    println!("{:28} {:>6} {:>6} {:>11}", "datagram", "one", "of 64", "store of 64");
    let address = |key: u64| {
        let [_, b, c, d] = u32::try_from(key).unwrap_or_default().to_be_bytes();
        format!("ws ip=172.{b}.{c}.{d}")
    };
    measure(args, "an address", address)?;
    measure(args, "one key, with statistics", |_| "ws global".to_owned())?;
    measure(args, "an address that is rewritten", |key| format!("ws ip=10.1.1.{key}"))?;
    measure(args, "no rule fits", |key| format!("ws ua=some client {key}"))
}

fn measure(args: &Args, name: &str, key: impl Fn(u64) -> String) -> Result<(), Failure> {
    let limits = Limits::new();
    let rules = Rules::parse(&RULES, &limits)?;
    let averages = Arc::new(Keyed::new(MEMORY)?);
    let door = Door::new(Arc::new(Limiter::new(limits)?), averages, rules);
    let bare = Keyed::<Average>::new(MEMORY)?;
    let rule = Rule::new(22.0, 20.0, true)?;
    let mut now = Moment::from_nanos(1_700_000_000_000_000_000);

    let all: Vec<String> = (0..args.keys).map(|n| format!("1 over_limit {}", key(n))).collect();
    for datagrams in all.chunks(BATCH) {
        send(&door, datagrams, BATCH, now);
        ask(&bare, rule, datagrams, now);
    }
    let mut random = Random::new(1);
    let mut rounds = [const { Vec::new() }; 3];
    for _ in 0..args.rounds {
        now = now.after(Nanos::from_secs(1));
        let pick = |random: &mut Random| all[random.index(all.len())].clone();
        let mut some = || -> Vec<_> { (0..args.datagrams).map(|_| pick(&mut random)).collect() };
        let (first, second, third) = (some(), some(), some());
        rounds[0].push(timed(&first, || send(&door, &first, 1, now)));
        rounds[1].push(timed(&second, || send(&door, &second, BATCH, now)));
        rounds[2].push(timed(&third, || ask(&bare, rule, &third, now)));
    }
    let [one, many, store] = rounds.map(median);
    println!("{name:28} {one:>6.0} {many:>6.0} {store:>11.0}");
    Ok(())
}

fn send(door: &Door, datagrams: &[String], size: usize, now: Moment) {
    let (mut replies, mut counts) = (Replies::default(), Counts::default());
    let mut requests: Vec<&[u8]> = Vec::with_capacity(size);
    for datagrams in datagrams.chunks(size) {
        requests.clear();
        requests.extend(datagrams.iter().map(String::as_bytes));
        replies.clear();
        door.answer(&requests, now, &mut replies, &mut counts);
    }
    assert_eq!(counts.requests, datagrams.len() as u64, "something was not understood");
}

fn ask(averages: &Keyed<Average>, rule: Rule, datagrams: &[String], now: Moment) {
    let mut questions: Vec<Question<Average>> = Vec::with_capacity(BATCH);
    let mut outcomes = [Outcome::default(); BATCH];
    for datagrams in datagrams.chunks(BATCH) {
        questions.clear();
        questions.extend(datagrams.iter().map(|text| averages.question(&[text.as_bytes()], rule)));
        averages.decide(&questions, &mut outcomes[..questions.len()], now);
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
#[expect(clippy::cast_precision_loss, reason = "shown as whole nanoseconds")]
fn timed(datagrams: &[String], work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_nanos() as f64 / datagrams.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
