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

use redis::{Pipeline, Value};
use tokio::time::{sleep, timeout};
use tollgate::Moment;
use tollgate::algorithm::book::Action;
use tollgate::algorithm::gcra::Verdict;

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
/// How long it is tried to give back what a transaction holds that ran out of time.
const GIVE_BACK_MAX: Duration = RESERVATION_LIFETIME;

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
    let mut is_held = false;
    let trying = async {
        let mut wait = WAIT_MIN;
        loop {
            match attempt(link, asks, visit).await {
                Ok(Some(answers)) => return Ok(answers),
                Ok(None) => is_held = true,
                Err(failure) => return Err(failure),
            }
            sleep(jitter(wait)).await;
            wait = (wait * 2).min(WAIT_MAX);
        }
    };
    match timeout(visit.within, trying).await {
        Ok(decided) => decided,
        Err(_) if is_held => Err(Failure::Held),
        Err(_) => Err(Failure::Timeout),
    }
}

/// Between half of it and all of it, so that two that met do not meet again.
fn jitter(wait: Duration) -> Duration {
    let random = u32::try_from(number() % 512).unwrap_or_default();
    wait * (512 + random) / 1024
}

/// One attempt; nothing if a bucket is held by another transaction.
async fn attempt(
    link: &Link,
    asks: &[Ask<'_>],
    visit: &Visit,
) -> Result<Option<Vec<Answer>>, Failure> {
    let transaction = format!("{:016x}", number());
    let mut parts = parts(asks, &transaction, visit.now);
    let mut replies = Vec::new();
    link.call(&parts, visit.within, &mut replies).await;
    let held: Vec<_> = parts.iter().zip(&replies).map(|(part, reply)| part.read(reply)).collect();
    let failure = held.iter().find_map(|held| held.as_ref().err().cloned());
    let is = |status| held.iter().flatten().any(|held| held.status == status);

    let mut answers = vec![None; asks.len()];
    let is_allowed = failure.is_none() && !is(BUSY) && !is(DENIED);
    for (part, held) in parts.iter_mut().zip(&held) {
        let Ok(held) = held else { continue };
        for ((&place, answer), ask) in part.places.iter().zip(&held.answers).zip(&mut part.asks) {
            answers[place] = Some(*answer);
            // What was not taken is not kept either.
            if answer.outcome.verdict != Verdict::Allow {
                (ask.action, ask.cost) = (Action::CheckOnly, 0);
            }
        }
    }
    for part in &mut parts {
        part.step = if is_allowed { "keep" } else { "drop" };
    }
    if !is_allowed {
        // Also where nobody knows whether it was held.
        let mut index = 0;
        parts.retain(|_| {
            index += 1;
            !matches!(&held[index - 1], Ok(held) if held.status != DONE)
        });
    }
    let within = if is_allowed { visit.within } else { GIVE_BACK_MAX };
    link.call(&parts, within, &mut replies).await;
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
    fn read(&self, reply: &Result<Value, Failure>) -> Result<Held, Failure> {
        let reply = reply.as_ref().map_err(Clone::clone)?;
        match integers(reply).as_deref() {
            Some([now, status, debts @ ..])
                if debts.len() == self.asks.len() && *status <= DONE =>
            {
                Ok(Held { status: *status, answers: read_debts(&self.asks, *now, debts)? })
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
