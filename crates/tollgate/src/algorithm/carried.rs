//! Rules that come with their asks.
//!
//! Nobody reloads for them: whoever has a book sees a rule as soon as it is there. They have numbers
//! behind those of all other rules, so a named limit never looks here.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::book::{RULES_MAX, RuleId};
use super::gcra::Rule;
use super::shelf::Shelf;

/// How many different rules may come with asks while a process runs. Clients choose them, so they
/// are few next to [`RULES_MAX`].
pub const CARRIED_RULES_MAX: usize = Shelf::<Rule>::PLACES;

/// The number of the first rule that came with an ask.
#[expect(clippy::cast_possible_truncation, reason = "2^24")]
const FIRST: u32 = RULES_MAX as u32;
/// Twice as many as there are rules, so that one is found or known not to be there in a few steps.
const SLOTS: usize = 2 * CARRIED_RULES_MAX;

/// A rule that comes with its asks, as the limiter knows it that was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Carried(NonZeroU32);

impl Carried {
    /// The number of the rule.
    pub(crate) const fn rule(self) -> RuleId {
        RuleId::new(self.0.get())
    }
}

/// There were too many different rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "asks came with {CARRIED_RULES_MAX} different rules, and no more can be held: use fewer, or \
     restart to forget those that no bucket needs"
)]
pub struct TooManyRules;

/// All rules that came with asks. A rule that is known is found without a lock.
#[derive(Debug, Default)]
pub(crate) struct CarriedRules {
    rules: Shelf<Rule>,
    /// By their hashes: one more than the place of a rule, zero where there is none.
    slots: OnceLock<Box<[AtomicU32]>>,
    /// Clients choose the rules, so the hash is a keyed one.
    hasher: RandomState,
    /// No place before it is empty. Whoever adds a rule holds it.
    next: Mutex<usize>,
}

impl CarriedRules {
    /// The rule as one that comes with asks, whether or not it did before.
    #[inline]
    pub(crate) fn carry(&self, rule: Rule) -> Result<Carried, TooManyRules> {
        self.find(&rule).map_or_else(|| self.add(rule), Ok)
    }

    /// The rule of this number.
    #[inline]
    pub(crate) fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.find(id.carried()?)
    }

    /// Puts a rule back under the number that it was saved under. Refuses one where another is, or
    /// that has a number already.
    pub(crate) fn put_back(&self, id: RuleId, rule: Rule) -> bool {
        let _next = self.next.lock();
        let place = id.carried().filter(|place| self.rules.find(*place).is_none());
        let place = place.filter(|_| self.find(&rule).is_none());
        place.and_then(|place| self.put(place, rule)).is_some()
    }

    fn find(&self, rule: &Rule) -> Option<Carried> {
        let slots = self.slots.get()?;
        for slot in self.way(rule) {
            let place = slots.get(slot)?.load(Ordering::Acquire).checked_sub(1)?;
            if self.rules.find(place as usize) == Some(rule) {
                return carried(place);
            }
        }
        None
    }

    #[cold]
    fn add(&self, rule: Rule) -> Result<Carried, TooManyRules> {
        let mut next = self.next.lock();
        // Somebody else may just have added it.
        if let Some(known) = self.find(&rule) {
            return Ok(known);
        }
        // Some that were put back may be in the way.
        while self.rules.find(*next).is_some() {
            *next = next.saturating_add(1);
        }
        self.put(*next, rule).ok_or(TooManyRules)
    }

    /// Fills a place that is empty, if there is such a place.
    fn put(&self, place: usize, rule: Rule) -> Option<Carried> {
        self.rules.find_or_put(place, || rule)?;
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU32::new(0)).collect());
        let place = u32::try_from(place).ok()?;
        let mut way = self.way(&rule).filter_map(|slot| slots.get(slot));
        let free = way.find(|slot| slot.load(Ordering::Relaxed) == 0)?;
        // Last: whoever finds it here finds the rule in its place.
        free.store(place.saturating_add(1), Ordering::Release);
        carried(place)
    }

    /// Where to look for a rule, one slot after the other. Half of them stay empty, so it is short.
    #[expect(clippy::cast_possible_truncation, reason = "some bits of it are enough")]
    fn way(&self, rule: &Rule) -> impl Iterator<Item = usize> + use<> {
        let hash = self.hasher.hash_one((rule.burst(), rule.emission_interval())) as usize;
        (0..SLOTS).map(move |step| hash.wrapping_add(step) % SLOTS)
    }
}

fn carried(place: u32) -> Option<Carried> {
    NonZeroU32::new(FIRST.saturating_add(place)).map(Carried)
}

impl RuleId {
    /// Which of the rules that came with asks it is, from zero; none if it is of a named limit.
    #[inline]
    pub fn carried(self) -> Option<usize> {
        self.number().checked_sub(FIRST).map(|place| place as usize)
    }
}
