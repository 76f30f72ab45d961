//! A store that processes share: decided in Redis, and while Redis is away by what is known here.

mod buckets;
mod denials;
mod health;
mod inline;
mod keyed;
mod lease;
mod rules;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use ratekeeper::algorithm::average::Average;
use ratekeeper::algorithm::book::Gcra;
use ratekeeper::algorithm::inline_rule::InlineGcra;
use ratekeeper::algorithm::quota::Quota;
use ratekeeper::store::shared::SharedStore;
use ratekeeper::{Clock, Moment};

use crate::address::{Address, AddressError, Tls};
use crate::failure::Failure;
use crate::link::Link;
use crate::node::Heard;
use crate::startup::Warning;
use buckets::Buckets;
use denials::Denials;
use health::Tally;
pub use health::{Health, State};
use inline::InlineBuckets;
use keyed::KeyedBuckets;

/// How long a decision may wait for Redis, unless it is told otherwise.
pub const WITHIN_DEFAULT: Duration = Duration::from_millis(25);

/// How much of that time, at most, is kept for deciding without Redis: timers are late by a
/// millisecond or two.
const MARGIN_MAX: Duration = Duration::from_millis(10);

/// How many links a thread keeps in mind. A process has one store, a test a few.
const LINKS_MAX: usize = 16;

/// Redis, shared by all that are given the same address.
///
/// Each thread that decides has connections of its own, which belong to the Tokio runtime that it
/// decides in.
#[derive(Clone)]
pub struct Shared {
    home: Arc<Home>,
    buckets: Arc<Buckets>,
}

/// What all threads have in common.
pub(crate) struct Home {
    /// Which store of this process it is.
    number: u64,
    address: Address,
    tls: Tls,
    /// How long Redis may take.
    within: Duration,
    tally: Tally,
    denials: Arc<Denials<Gcra>>,
    inline_denials: Arc<Denials<InlineGcra>>,
    /// The link that hears what changes, as long as its thread is there.
    listener: Mutex<Weak<Link>>,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

tokio::task_local! {
    /// By when all that is decided in a task has to be.
    static DEADLINE: (Clock, Moment);
}

/// How long Redis may take, of the time that a decision may take.
pub fn patience(within: Duration) -> Duration {
    within.saturating_sub((within / 8).min(MARGIN_MAX))
}

/// Has all of a future's decisions made within `length`, however many trips they take: what
/// is late is decided without Redis.
pub async fn in_time<F: Future>(length: Duration, future: F) -> F::Output {
    let clock = Clock::start();
    let end = clock.now().after(length.into());
    DEADLINE.scope((clock, end), future).await
}

thread_local! {
    static LINKS: RefCell<Vec<(u64, Arc<Link>)>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    /// A store at `address`. Every decision may take as long as `within` says. Nothing is connected
    /// yet. Refuses what can be told without the server, such as a certificate that
    /// is none.
    pub fn new(address: Address, tls: Tls, within: Duration) -> Result<Self, SharedError> {
        crate::address::Access::new(&address, &tls)?;
        let (denials, inline_denials) = (Arc::new(Denials::new()?), Arc::new(Denials::new()?));
        let within = patience(within);
        let home = Arc::new(Home {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            address,
            tls,
            within,
            tally: Tally::default(),
            denials,
            inline_denials,
            listener: Mutex::default(),
        });
        let buckets = Arc::new(Buckets::new(Arc::clone(&home)));
        Ok(Self { home, buckets })
    }

    /// The buckets of named limits.
    pub fn buckets(&self) -> Arc<dyn SharedStore<Gcra>> {
        Arc::clone(&self.buckets) as _
    }

    /// Buckets whose rules come with the asks.
    pub fn inline_rules(&self) -> Arc<dyn SharedStore<InlineGcra>> {
        Arc::new(InlineBuckets::new(Arc::clone(&self.home)))
    }

    /// Decaying averages.
    pub fn averages(&self) -> Arc<dyn SharedStore<Average>> {
        Arc::new(KeyedBuckets::new(Arc::clone(&self.home)))
    }

    /// Quotas with a lifetime.
    pub fn quotas(&self) -> Arc<dyn SharedStore<Quota>> {
        Arc::new(KeyedBuckets::new(Arc::clone(&self.home)))
    }

    /// Where it is. Neither way of showing it shows credentials.
    pub fn address(&self) -> &Address {
        &self.home.address
    }

    /// What was asked, and how it went.
    pub fn health(&self) -> Health {
        self.home.tally.health()
    }

    /// What an operator should know about the servers, in words; or why they cannot be asked. Must
    /// be called inside a Tokio runtime.
    pub async fn check(&self, within: Duration) -> Result<Vec<Warning>, Failure> {
        let link = self.home.link().map_err(|error| Failure::Refused(error.to_string()))?;
        link.check(within).await
    }
}

/// Why there is no such store.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The address, or what goes with it, cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The system does not give memory for remembering denials.
    #[error("reserving memory for denials")]
    Memory(#[from] std::io::Error),
}

impl Home {
    /// How much time there is left for a decision that is made now.
    fn left(&self) -> Duration {
        let left = DEADLINE.try_with(|(clock, end)| Duration::from(end.since(clock.now())));
        left.map_or(self.within, |left| left.min(self.within))
    }

    /// This thread's way to Redis. Must be called inside a Tokio runtime.
    fn link(&self) -> Result<Arc<Link>, AddressError> {
        let known = LINKS.with_borrow(|links| {
            links.iter().find(|(number, _)| *number == self.number).map(|(_, link)| link.clone())
        });
        let mut listener = self.listener.lock();
        // One link hears for all threads. When its thread has ended, another takes over.
        let listens = listener.strong_count() > 0;
        if let Some(link) = known.filter(|_| listens) {
            return Ok(link);
        }
        let link = if listens {
            Arc::new(Link::open(&self.address, &self.tls)?)
        } else {
            let (named, inline) = (Arc::clone(&self.denials), Arc::clone(&self.inline_denials));
            let heard = move |heard: Heard<'_>| {
                named.hear(heard);
                inline.hear(heard);
            };
            let link = Arc::new(Link::open_and_listen(&self.address, &self.tls, heard)?);
            *listener = Arc::downgrade(&link);
            link
        };
        LINKS.with_borrow_mut(|links| {
            links.retain(|(number, _)| *number != self.number);
            if links.len() >= LINKS_MAX {
                links.remove(0);
            }
            links.push((self.number, Arc::clone(&link)));
        });
        Ok(link)
    }
}
