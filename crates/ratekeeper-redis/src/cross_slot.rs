//! Transactions over buckets in different slots of a cluster, which no one script can reach.
//!
//! First each slot's part is held: what it asks for is taken, with a record in the value that says
//! so. If every part could be, all are told to keep it; otherwise all give back what was taken, and
//! the transaction has spent nothing. A record that nobody comes back for, because the server died
//! half-way, is undone by whatever touches the bucket once [`RESERVATION_LIFETIME`] has passed.
//!
//! A bucket is held by one such transaction at a time. One that finds a bucket held lets go of all
//! its own, waits a little and tries again, so two never wait for each other, and neither sees the
//! other half done. An ask in one slot does not wait: to it, what is held is spent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::gcra::Verdict;
use ratekeeper::{Clock, Moment, Nanos};
use redis::{Pipeline, Value};
use tokio::time::sleep;

use crate::bucket::{Answer, Ask, integers, nonsense, write_moment};
use crate::failure::Failure;
use crate::key::{Kind, slot};
use crate::link::{Link, Visit, read_debts};
use crate::script::{Call, HOLD, Script};

/// How long a part of a transaction is held for a server that says nothing more.
pub const RESERVATION_LIFETIME: Duration = Duration::from_secs(1);

/// How long a transaction waits at first before it tries again, and at most.
const WAIT_MIN: Duration = Duration::from_micros(100);
const WAIT_MAX: Duration = Duration::from_millis(4);

/// What the script answers to a hold.
const BUSY: u64 = 0;
const DENIED: u64 = 1;
const DONE: u64 = 2;

/// Decides one transaction.
pub(crate) async fn decide(
    link: &Link,
    asks: &[Ask<'_>],
    visit: &Visit,
) -> Result<Vec<Answer>, Failure> {
    let clock = Clock::start();
    let end = clock.now().after(Nanos::from(visit.within));
    let mut wait = WAIT_MIN;
    let attempt = Attempt { link, asks, now: visit.now, clock, end };
    loop {
        let left = attempt.left();
        if let Some(answers) = attempt.run().await? {
            return Ok(answers);
        }
        let took = left.saturating_sub(attempt.left());
        wait = jitter(wait.min(WAIT_MAX));
        // An attempt that is late is not known to have held nothing: begin none that may be.
        if attempt.left() <= wait + 4 * took {
            return Err(Failure::Held);
        }
        sleep(wait).await;
        wait *= 3;
    }
}

/// Between half of it and all of it, so that two that met do not meet again.
fn jitter(wait: Duration) -> Duration {
    let random = u32::try_from(number() % 512).unwrap_or_default();
    wait * (512 + random) / 1024
}

/// One attempt to hold all buckets of a transaction.
struct Attempt<'a> {
    link: &'a Link,
    asks: &'a [Ask<'a>],
    now: Option<Moment>,
    clock: Clock,
    end: Moment,
}

impl Attempt<'_> {
    /// How much time there is left.
    fn left(&self) -> Duration {
        self.end.since(self.clock.now()).into()
    }

    /// The answers; nothing if a bucket is held by another transaction.
    async fn run(&self) -> Result<Option<Vec<Answer>>, Failure> {
        let transaction = format!("{:016x}", number());
        let mut parts = parts(self.asks, &transaction, self.now);
        let mut replies = Vec::new();
        // What is held must be let go of in time too.
        self.link.call(&parts, self.left() / 2, &mut replies).await;
        let held: Vec<_> =
            parts.iter().zip(&replies).map(|(part, reply)| part.read(reply)).collect();
        let failure = held.iter().find_map(|held| held.as_ref().err().cloned());
        let is = |status| held.iter().flatten().any(|held| held.status == status);
        let is_allowed = failure.is_none() && !is(BUSY) && !is(DENIED);
        let mut answers = vec![None; self.asks.len()];
        for (part, held) in parts.iter_mut().zip(&held) {
            part.step = if is_allowed { "keep" } else { "drop" };
            if let Ok(held) = held {
                part.tell(held, &mut answers);
            }
        }
        // What is not known to be held may be, unless it was said not to be.
        let mut known = held.iter();
        parts.retain(|_| !matches!(known.next(), Some(Ok(held)) if held.status != DONE));
        self.link.call(&parts, self.left(), &mut replies).await;
        match failure {
            Some(failure) => return Err(failure),
            None if is(BUSY) => return Ok(None),
            None if !is_allowed => {}
            None => {
                for (part, reply) in parts.iter().zip(&replies) {
                    part.read(reply)?;
                }
            }
        }
        Ok(answers.into_iter().collect())
    }
}

/// What is asked of the buckets of one slot.
struct Part<'a> {
    step: &'static str,
    transaction: &'a str,
    slot: u16,
    asks: Vec<Ask<'a>>,
    /// Where each ask stands in the transaction.
    places: Vec<usize>,
    now: Option<Moment>,
}

struct Held {
    status: u64,
    answers: Vec<Answer>,
}

fn parts<'a>(asks: &[Ask<'a>], transaction: &'a str, now: Option<Moment>) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    for (place, ask) in asks.iter().enumerate() {
        let slot = slot(&Kind::Bucket.key(ask.bucket));
        let index = parts.iter().position(|part| part.slot == slot).unwrap_or_else(|| {
            let (asks, places) = (Vec::new(), Vec::new());
            parts.push(Part { step: "hold", transaction, slot, asks, places, now });
            parts.len() - 1
        });
        parts[index].asks.push(*ask);
        parts[index].places.push(place);
    }
    parts
}

impl Part<'_> {
    /// Puts the answers where they belong, and forgets about asking for what was not taken: it is
    /// not to be kept either.
    fn tell(&mut self, held: &Held, answers: &mut [Option<Answer>]) {
        for ((&place, answer), ask) in self.places.iter().zip(&held.answers).zip(&mut self.asks) {
            answers[place] = Some(*answer);
            if answer.outcome.verdict != Verdict::Allow {
                (ask.action, ask.cost) = (Action::CheckOnly, 0);
            }
        }
    }

    fn read(&self, reply: &Result<Value, Failure>) -> Result<Held, Failure> {
        let reply = reply.as_ref().map_err(Clone::clone)?;
        match integers(reply).as_deref() {
            Some([now, status, owed @ ..])
                if owed.len() == 2 * self.asks.len() && *status <= DONE =>
            {
                let (owed, _) = owed.as_chunks();
                Ok(Held { status: *status, answers: read_debts(&self.asks, *now, owed)? })
            }
            _ => Err(nonsense(reply)),
        }
    }
}

impl Call for Part<'_> {
    fn script(&self) -> &'static Script {
        &HOLD
    }

    fn slot(&self) -> u16 {
        self.slot
    }

    fn write(&self, to: &mut Pipeline) {
        to.arg(self.asks.len());
        for ask in &self.asks {
            to.arg(Kind::Bucket.key(ask.bucket));
        }
        write_moment(self.now, to);
        to.arg(self.step).arg(self.transaction);
        for ask in &self.asks {
            ask.write(to);
        }
    }
}

/// A number that no other transaction has, on any server: chance tells servers apart, counting
/// tells the transactions of one apart.
fn number() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    use std::sync::LazyLock;
    static SERVER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    SERVER.hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
}
