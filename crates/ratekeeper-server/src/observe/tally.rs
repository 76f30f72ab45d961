//! What one stripe has counted.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use ratekeeper::limiter::{Act, Decided, Ruling, Seen};

use super::names::Names;
use super::{ByDoor, Door, List, SEEN_LIMITS_MAX, Sketch};

/// The counts of each limit that this stripe has seen.
#[derive(Default)]
pub(super) struct Tally {
    limits: Vec<Limit>,
    /// From a name to its place in `limits`.
    places: HashMap<Arc<str>, usize>,
    /// Where the last one was: asks come in runs.
    last: usize,
    /// Under names beyond the bound.
    others: ByDoor,
    /// For writing an id, again and again.
    id: String,
}

struct Limit {
    name: Arc<str>,
    /// Among all names there are.
    number: usize,
    counts: ByDoor,
    /// Not of those beyond the bound.
    ids: Option<Box<Ids>>,
}

#[derive(Default)]
struct Ids {
    busiest: Sketch,
    most_denied: Sketch,
}

impl Tally {
    /// Counts what one call decided at a door.
    pub(super) fn count(&mut self, door: Door, decided: &Decided<'_>, names: &Mutex<Names>) {
        let (mut name, mut place) = ("", None);
        for seen in decided.iter() {
            // Who asks for nothing only looks.
            if !matches!(seen.act(), Act::Spend | Act::Check) || seen.cost() == 0 {
                continue;
            }
            // Asks of one call are often for one limit, and then it is the same text in memory.
            let limit = seen.limit();
            if !std::ptr::eq(name, limit) {
                (name, place) = (limit, self.place(limit, names));
            }
            let Self { limits, id, others, .. } = self;
            match place.and_then(|place| limits.get_mut(place)) {
                Some(limit) => limit.count(door, &seen, id),
                None => add(others, door, seen.ruling()),
            }
        }
    }

    /// Where a limit is counted. From one call to the next the text decides, not where it stands in
    /// memory: names come in buffers that are used again.
    fn place(&mut self, name: &str, names: &Mutex<Names>) -> Option<usize> {
        if self.limits.get(self.last).is_some_and(|limit| *limit.name == *name) {
            return Some(self.last);
        }
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => self.add(name, names)?,
        };
        self.last = place;
        Some(place)
    }

    /// A limit that this stripe has not seen before.
    #[cold]
    fn add(&mut self, name: &str, names: &Mutex<Names>) -> Option<usize> {
        let (number, name) = names.lock().number(name)?;
        let place = self.limits.len();
        self.places.insert(Arc::clone(&name), place);
        let ids = (number < SEEN_LIMITS_MAX).then(Box::default);
        self.limits.push(Limit { name, number, counts: ByDoor::default(), ids });
        Some(place)
    }

    /// Adds the counts of `most` limits, from the one at `from`, to those of others by number.
    /// Returns how many there were.
    pub(super) fn read(&self, from: usize, most: usize, counts: &mut Vec<ByDoor>) -> usize {
        let limits = self.limits.iter().skip(from).take(most);
        let read = limits.len();
        for limit in limits {
            if counts.len() <= limit.number {
                counts.resize(limit.number + 1, ByDoor::default());
            }
            counts[limit.number].add(&limit.counts);
        }
        read
    }

    pub(super) fn others(&self) -> &ByDoor {
        &self.others
    }

    pub(super) fn counts(&self, limit: &str) -> Option<&ByDoor> {
        self.limit(limit).map(|limit| &limit.counts)
    }

    pub(super) fn sketch(&self, limit: &str, list: List) -> Option<&Sketch> {
        let ids = self.limit(limit)?.ids.as_deref()?;
        Some(match list {
            List::Busiest => &ids.busiest,
            List::MostDenied => &ids.most_denied,
        })
    }

    fn limit(&self, name: &str) -> Option<&Limit> {
        self.places.get(name).and_then(|place| self.limits.get(*place))
    }
}

impl Limit {
    #[inline]
    fn count(&mut self, door: Door, seen: &Seen<'_>, id: &mut String) {
        let ruling = seen.ruling();
        add(&mut self.counts, door, ruling);
        let Some(ids) = &mut self.ids else { return };
        let key = seen.bucket().get();
        ids.busiest.count(key, || written(seen, id));
        if ruling != Ruling::Allowed {
            ids.most_denied.count(key, || written(seen, id));
        }
    }
}

fn add(counts: &mut ByDoor, door: Door, ruling: Ruling) {
    let rulings = &mut counts.0[door as usize];
    match ruling {
        Ruling::Allowed => rulings.allowed += 1,
        Ruling::Denied => rulings.denied += 1,
        Ruling::Shadow => rulings.shadow += 1,
    }
}

/// The id in its one spelling.
fn written<'a>(seen: &Seen<'_>, id: &'a mut String) -> &'a str {
    id.clear();
    seen.write_id(id);
    id
}
