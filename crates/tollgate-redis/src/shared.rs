//! A store that processes share: decided in Redis, and while Redis is away by what is known here.

mod buckets;
mod denials;
mod health;
mod keyed;
mod lease;
mod rules;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::algorithm::average::Average;
use tollgate::algorithm::book::Gcra;
use tollgate::algorithm::quota::Quota;
use tollgate::store::shared::SharedStore;

use crate::address::{Address, AddressError, Tls};
use crate::failure::Failure;
use crate::link::Link;
use crate::startup::Warning;
use buckets::Buckets;
use denials::Denials;
use health::Tally;
pub use health::{Health, State};
use keyed::KeyedBuckets;

/// How long a decision may wait for Redis, unless it is told otherwise.
pub const WITHIN_DEFAULT: Duration = Duration::from_millis(25);

/// How much of that time, at most, is kept for deciding without Redis: timers are late by a
/// millisecond or two.
const MARGIN_MAX: Duration = Duration::from_millis(3);

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
    denials: Arc<Denials>,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LINKS: RefCell<Vec<(u64, Arc<Link>)>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    /// A store at `address`. Every decision may take as long as `within` says. Nothing is connected
    /// yet. Refuses what can be told without the server, such as a certificate that
    /// cannot be read.
    pub fn new(address: Address, tls: Tls, within: Duration) -> Result<Self, SharedError> {
        crate::address::Access::new(&address, &tls)?;
        let denials = Arc::new(Denials::new()?);
        let within = within.saturating_sub((within / 8).min(MARGIN_MAX));
        let home = Arc::new(Home {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            address,
            tls,
            within,
            tally: Tally::default(),
            denials,
        });
        let buckets = Arc::new(Buckets::new(Arc::clone(&home)));
        Ok(Self { home, buckets })
    }

    /// The buckets of named limits.
    pub fn buckets(&self) -> Arc<dyn SharedStore<Gcra>> {
        Arc::clone(&self.buckets) as _
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
    /// This thread's way to Redis. Must be called inside a Tokio runtime.
    fn link(&self) -> Result<Arc<Link>, AddressError> {
        let known = LINKS.with_borrow(|links| {
            links.iter().find(|(number, _)| *number == self.number).map(|(_, link)| link.clone())
        });
        if let Some(link) = known {
            return Ok(link);
        }
        // Each hears of what changes, so that none depends on the thread of another.
        let denials = Arc::clone(&self.denials);
        let heard = move |name: Option<&[u8]>| denials.forget(name);
        let link = Link::open_and_listen(&self.address, &self.tls, heard)?;
        let link = Arc::new(link);
        LINKS.with_borrow_mut(|links| {
            if links.len() >= LINKS_MAX {
                links.remove(0);
            }
            links.push((self.number, Arc::clone(&link)));
        });
        Ok(link)
    }
}
