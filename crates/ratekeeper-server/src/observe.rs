//! What was decided, by limit, door and ruling, and who asked most.
//!
//! Every worker counts in a stripe of its own, so they do not wait for each other; whoever reads
//! adds the stripes up. A decision is counted where it was made, with one lock for all that one
//! call of the limiter decided, and once everything was there before, nothing is allocated.

mod names;
mod sketch;
mod tally;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use ratekeeper::limiter::{Decided, Witness};
use serde::{Deserialize, Serialize};

use names::Names;
pub(crate) use sketch::Counted;
use sketch::{Sketch, Summary};
use tally::Tally;

/// More stripes than this are not made; then some workers share one.
const STRIPES_MAX: usize = 8;
/// Of so many limits the busiest ids are known; of the others, in the order of the files, only
/// how often they were asked.
pub(crate) const SEEN_LIMITS_MAX: usize = 256;
/// So many limits are read at once, so that no worker waits long for whoever reads.
const READ_LIMITS: usize = 1 << 10;

/// A door that asks the limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Door {
    Udp,
    Bucket,
    Throttr,
    Http,
    Resp,
}

impl Door {
    pub(crate) const ALL: [Self; 5] =
        [Self::Udp, Self::Bucket, Self::Throttr, Self::Http, Self::Resp];

    /// What settings and counters call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Bucket => "bucket",
            Self::Throttr => "throttr",
            Self::Http => "http",
            Self::Resp => "resp",
        }
    }
}

/// How often what was decided. Only spends and checks count; nobody is denied a refund or a reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Rulings {
    /// The tokens were there.
    pub allowed: u64,
    /// They were not.
    pub denied: u64,
    /// They were not, but the limit is in shadow, so it passed.
    pub shadow: u64,
}

impl Rulings {
    pub(crate) const fn asked(self) -> u64 {
        self.allowed + self.denied + self.shadow
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.shadow += other.shadow;
    }
}

/// What was decided at each door, as in [`Door::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByDoor(pub(crate) [Rulings; Door::ALL.len()]);

impl ByDoor {
    pub(crate) fn all(&self) -> Rulings {
        let mut all = Rulings::default();
        self.0.iter().for_each(|door| all.add(*door));
        all
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| mine.add(theirs));
    }
}

/// What was decided under each name, in the order in which the names were first seen in files.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByLimit {
    pub(crate) limits: Vec<(Arc<str>, ByDoor)>,
    /// Under names beyond the bound.
    pub(crate) others: ByDoor,
}

/// One of the lists of who asked most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Who asked most often.
    Busiest,
    /// Who was denied most often, also by limits in shadow.
    MostDenied,
}

/// Counts what doors decide.
pub(crate) struct DecisionObserver {
    stripes: Box<[Stripe]>,
    names: Mutex<Names>,
}

/// On cache lines of its own, so that workers do not disturb each other.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(Mutex<Tally>);

impl DecisionObserver {
    /// One for so many workers, which has seen nothing.
    pub(crate) fn new(workers: usize) -> Self {
        let stripes = workers.clamp(1, STRIPES_MAX);
        Self { stripes: (0..stripes).map(|_| Stripe::default()).collect(), names: Mutex::default() }
    }

    /// Whoever is to be told what this door decides.
    pub(crate) fn witness(self: &Arc<Self>, door: Door) -> Arc<dyn Witness> {
        Arc::new(DoorWitness { observer: Arc::clone(self), door })
    }

    /// Tells the names that are in force. They keep their order, and those that are gone their
    /// counts.
    pub(crate) fn expect<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut known = self.names.lock();
        for name in names {
            known.number(name);
        }
    }

    /// What was decided under each name.
    pub(crate) fn by_limit(&self) -> ByLimit {
        let (mut counts, mut others) = (Vec::new(), ByDoor::default());
        for stripe in &self.stripes {
            let mut next = 0;
            loop {
                // Again and again, so that a worker never waits for more than a few.
                let tally = stripe.0.lock();
                let read = tally.read(next, READ_LIMITS, &mut counts);
                next += read;
                if read < READ_LIMITS {
                    others.add(tally.others());
                    break;
                }
            }
        }
        // Read last: whatever was counted has its name by now.
        let names = self.names.lock().all();
        counts.resize(names.len(), ByDoor::default());
        ByLimit { limits: names.into_iter().zip(counts).collect(), others }
    }

    /// What was decided under one name, if there is such a limit.
    pub(crate) fn of_limit(&self, limit: &str) -> Option<ByDoor> {
        self.names.lock().find(limit)?;
        let mut all = ByDoor::default();
        for stripe in &self.stripes {
            if let Some(counts) = stripe.0.lock().counts(limit) {
                all.add(counts);
            }
        }
        Some(all)
    }

    /// Who asked this limit most, or was denied most, if there is such a limit.
    pub(crate) fn listed(&self, limit: &str, list: List, most: usize) -> Option<Vec<Counted>> {
        self.names.lock().find(limit)?;
        Some(self.summary(limit, list).busiest(most))
    }

    /// The `most` busiest of all limits.
    pub(crate) fn listed_overall(
        &self,
        by_limit: &ByLimit,
        list: List,
        most: usize,
    ) -> Vec<(Arc<str>, Counted)> {
        let asks = |counts: &ByDoor| {
            let all = counts.all();
            if list == List::Busiest { all.asked() } else { all.denied + all.shadow }
        };
        let seen = by_limit.limits.iter().take(SEEN_LIMITS_MAX);
        let mut limits: Vec<_> = seen.map(|(name, counts)| (asks(counts), name)).collect();
        limits.sort_by_key(|(asks, _)| std::cmp::Reverse(*asks));
        let mut all: Vec<(Arc<str>, Counted)> = Vec::new();
        for (asks, name) in limits {
            // Of a limit that was asked less often than the last of them, nobody is among them.
            let is_beaten = all.get(most.saturating_sub(1)).is_some_and(|it| it.1.count > asks);
            if asks == 0 || is_beaten {
                break;
            }
            let listed = self.summary(name, list).busiest(most);
            all.extend(listed.into_iter().map(|counted| (Arc::clone(name), counted)));
            all.sort_by_key(|(_, counted)| std::cmp::Reverse(counted.count));
            all.truncate(most);
        }
        all
    }

    fn summary(&self, limit: &str, list: List) -> Summary {
        let mut all = Summary::default();
        for stripe in &self.stripes {
            // Taken under the lock, added up without it.
            let sketch = stripe.0.lock().sketch(limit, list).map(Sketch::summary);
            all.add(sketch.unwrap_or_default());
        }
        all
    }

    fn stripe(&self) -> &Mutex<Tally> {
        &self.stripes[slot() % self.stripes.len()].0
    }
}

/// Counts for one door.
struct DoorWitness {
    observer: Arc<DecisionObserver>,
    door: Door,
}

impl Witness for DoorWitness {
    fn decided(&self, decided: &Decided<'_>) {
        let mut tally = self.observer.stripe().lock();
        tally.count(self.door, decided, &self.observer.names);
    }
}

/// The number of this thread, among those that ask.
fn slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SLOT: Cell<Option<usize>> = const { Cell::new(None) };
    }
    SLOT.get().unwrap_or_else(|| {
        let slot = NEXT.fetch_add(1, Ordering::Relaxed);
        SLOT.set(Some(slot));
        slot
    })
}
