//! Rules that come with their asks.
//!
//! Nobody reloads for them: whoever has a book sees a rule as soon as it is there. They have numbers
//! behind those of all other rules, so a named limit never looks here.
//!
//! Clients choose them, so they are bounded, and those that nobody needs make room for others. Time is
//! cut into *eras* of at least [`ERA`], which only end when there are many rules. Whoever is told the
//! number of a rule may begin to ask by it in the same era and in the next, and an ask is over before
//! another era is. So a rule that nobody was told of for two whole eras is nobody's any more, and if no
//! bucket is under it either, its number is free for another. As long as somebody brings rules without
//! end, most numbers that come free are taken by those, too; but nobody waits for a restart.

use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::book::{RULES_MAX, RuleId};
use super::gcra::Rule;
use super::shelf::Shelf;
use crate::{Moment, Nanos};

/// How many different rules that come with asks a process holds. They are few next to [`RULES_MAX`].
pub const CARRIED_RULES_MAX: usize = Shelf::<Place>::PLACES;
/// How many of them there are before those that nobody needs are forgotten.
const MANY: usize = CARRIED_RULES_MAX / 4 * 3;
/// How long an era lasts at least, by the times of the asks that end it. It must be more than twice as long
/// as an ask can be under way, also one that waits for another process: the time that it says may be as
/// old as that, too.
pub const ERA: Nanos = Nanos::from_secs(30);

/// The number of the first rule that came with an ask.
#[expect(clippy::cast_possible_truncation, reason = "2^24")]
const FIRST: u32 = RULES_MAX as u32;
/// Twice as many as there are rules, so that one is found or known not to be there in a few steps.
const SLOTS: usize = 2 * CARRIED_RULES_MAX;

/// A rule that comes with its asks, as the limiter knows it that was told of it. It is good for a while:
/// see [`Limiter::carry`](crate::Limiter::carry). One that was carried again later is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Carried {
    rule: NonZeroU32,
    /// In which era it was told of.
    era: u32,
}

impl Carried {
    /// The number of the rule.
    pub(crate) const fn rule(self) -> RuleId {
        RuleId::new(self.rule.get())
    }
}

/// There are too many different rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "asks came with {CARRIED_RULES_MAX} different rules, and no more can be held: use fewer, or try \
     again in two minutes, when those that no bucket needs are forgotten"
)]
pub struct TooManyRules;

/// All rules that came with asks. A rule that is known is found without a lock.
#[derive(Debug, Default)]
pub(crate) struct CarriedRules {
    places: Shelf<Place>,
    /// By their hashes: one more than the place of a rule, zero where there is none.
    slots: OnceLock<Box<[AtomicU32]>>,
    /// Clients choose the rules, so the hash is a keyed one.
    hasher: RandomState,
    era: AtomicU32,
    /// Whoever adds a rule or forgets some holds it.
    desk: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    /// No place before it is free.
    next: usize,
    /// How many rules there are.
    len: usize,
    /// When the era began.
    since: Moment,
}

/// Where a rule is, or was. It is in words, because others may read while it is given to another rule:
/// they read a mix of both then, but nothing that is out of bounds.
#[derive(Debug)]
struct Place {
    /// The last era in which somebody was told of the rule; [`FREE`] where there is none.
    era: AtomicU32,
    burst: AtomicU64,
    step: AtomicU64,
    rate: AtomicU64,
}

/// The era of a place that is free.
const FREE: u32 = u32::MAX;

impl Place {
    fn free() -> Self {
        let [burst, step, rate] = [const { AtomicU64::new(0) }; 3];
        Self { era: AtomicU32::new(FREE), burst, step, rate }
    }

    #[inline]
    fn rule(&self) -> Option<Rule> {
        if self.is_free() { None } else { self.words() }
    }

    #[inline]
    fn words(&self) -> Option<Rule> {
        let [step, rate] =
            [&self.step, &self.rate].map(|word| NonZeroU64::new(word.load(Ordering::Relaxed)));
        Some(Rule::in_ticks(self.burst.load(Ordering::Relaxed), step?, rate?))
    }

    fn put(&self, rule: &Rule, era: u32) {
        let (step, rate) = rule.emission_interval();
        self.burst.store(rule.burst(), Ordering::Relaxed);
        self.step.store(step, Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
        self.era.store(era, Ordering::Release);
    }

    /// Has it be this rule's in this era too, if it is this rule's.
    #[inline]
    fn renew(&self, rule: &Rule, era: u32) -> bool {
        let (renewed, failed) = (Ordering::AcqRel, Ordering::Acquire);
        let mut last = self.era.load(Ordering::Acquire);
        while last != FREE && self.words().as_ref() == Some(rule) {
            if last >= era {
                return true;
            }
            // It may just be set free, and even be another's; or somebody else renews it.
            match self.era.compare_exchange(last, era, renewed, failed) {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        false
    }

    /// Sets it free, unless somebody was told of its rule since `era` began.
    fn vacate(&self, era: u32) -> bool {
        let is_old = |last: u32| (last < era).then_some(FREE);
        self.era.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_old).is_ok()
    }

    #[inline]
    fn is_free(&self) -> bool {
        self.era.load(Ordering::Acquire) == FREE
    }
}

impl CarriedRules {
    /// The rule as one that comes with asks, if it did before.
    #[inline]
    pub(crate) fn find(&self, rule: &Rule) -> Option<Carried> {
        let slots = self.slots.get()?;
        for slot in self.way(rule) {
            let place = slots.get(slot)?.load(Ordering::Acquire).checked_sub(1)?;
            let era = self.era.load(Ordering::Acquire);
            if self.places.find(place as usize)?.renew(rule, era) {
                return carried(place, era);
            }
        }
        None
    }

    /// The rule as one that comes with asks, whether or not it did before.
    #[cold]
    pub(crate) fn find_or_add(&self, rule: &Rule) -> Result<Carried, TooManyRules> {
        let mut desk = self.desk.lock();
        // Somebody else may just have added it.
        if let Some(known) = self.find(rule) {
            return Ok(known);
        }
        while self.is_taken(desk.next) {
            desk.next = desk.next.saturating_add(1);
        }
        let place = desk.next;
        self.put(&mut desk, place, rule).ok_or(TooManyRules)
    }

    /// The rule of this number.
    #[inline]
    pub(crate) fn rule(&self, id: RuleId) -> Option<Rule> {
        self.places.find(id.carried()?)?.rule()
    }

    /// Whether a rule that somebody was told of may still be asked by.
    #[inline]
    pub(crate) fn has(&self, carried: Carried) -> bool {
        self.era.load(Ordering::Relaxed).saturating_sub(carried.era) <= 1
    }

    /// Whether somebody who asks again and again need not be told anew.
    #[inline]
    pub(crate) fn is_of_this_era(&self, carried: Carried) -> bool {
        self.era.load(Ordering::Relaxed) == carried.era
    }

    /// Puts a rule back under the number that it was saved under. Refuses one where another is, or
    /// that has a number already.
    pub(crate) fn put_back(&self, id: RuleId, rule: &Rule) -> bool {
        let mut desk = self.desk.lock();
        let place = id.carried().filter(|place| !self.is_taken(*place));
        let place = place.filter(|_| self.find(rule).is_none());
        place.and_then(|place| self.put(&mut desk, place, rule)).is_some()
    }

    /// Begins another era, if there are many rules and this one was long enough. Something if rules may
    /// be forgotten for that.
    pub(crate) fn turn(&self, now: Moment) -> Option<Survey> {
        let mut desk = self.desk.lock();
        if desk.len < MANY || now.since(desk.since) < ERA {
            return None;
        }
        desk.since = now;
        // The last two eras are this one, which ends, and the one before it.
        let since = self.era.fetch_add(1, Ordering::AcqRel).saturating_sub(1);
        let is_old = |place: &Place| place.era.load(Ordering::Relaxed) < since;
        let mut places = (0..CARRIED_RULES_MAX).filter_map(|place| self.places.find(place));
        places.any(is_old).then(|| Survey { since, used: vec![false; CARRIED_RULES_MAX] })
    }

    /// Forgets the rules that nobody was told of for two eras, and that are not in use.
    pub(crate) fn forget(&self, survey: &Survey) {
        let mut desk = self.desk.lock();
        let Some(slots) = self.slots.get() else { return };
        for slot in slots {
            // Whoever does not find a rule meanwhile waits at the desk, and finds it then.
            slot.store(0, Ordering::Release);
        }
        *desk = Desk { next: 0, len: 0, ..*desk };
        for (number, used) in survey.used.iter().enumerate() {
            let Some(place) = self.places.find(number).filter(|place| !place.is_free()) else {
                continue;
            };
            if *used || !place.vacate(survey.since) {
                desk.len = desk.len.saturating_add(1);
                self.put_in_slot(number, place);
            }
        }
    }

    fn is_taken(&self, place: usize) -> bool {
        self.places.find(place).is_some_and(|place| !place.is_free())
    }

    /// Fills a place that is free, if there is such a place.
    fn put(&self, desk: &mut Desk, number: usize, rule: &Rule) -> Option<Carried> {
        let place = self.places.find_or_put(number, Place::free)?;
        let era = self.era.load(Ordering::Acquire);
        place.put(rule, era);
        desk.len = desk.len.saturating_add(1);
        // Last: whoever finds it here finds the rule in its place.
        self.put_in_slot(number, place);
        carried(u32::try_from(number).ok()?, era)
    }

    fn put_in_slot(&self, number: usize, place: &Place) {
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU32::new(0)).collect());
        let (Some(rule), Ok(number)) = (place.rule(), u32::try_from(number)) else { return };
        let mut way = self.way(&rule).filter_map(|slot| slots.get(slot));
        if let Some(free) = way.find(|slot| slot.load(Ordering::Relaxed) == 0) {
            free.store(number.saturating_add(1), Ordering::Release);
        }
    }

    /// Where to look for a rule, one slot after the other. Half of them stay empty, so it is short.
    #[expect(clippy::cast_possible_truncation, reason = "some bits of it are enough")]
    fn way(&self, rule: &Rule) -> impl Iterator<Item = usize> + use<> {
        let hash = self.hasher.hash_one((rule.burst(), rule.emission_interval())) as usize;
        (0..SLOTS).map(move |step| hash.wrapping_add(step) % SLOTS)
    }
}

/// Which rules are in use, whether or not somebody was told of them lately.
pub(crate) struct Survey {
    /// The first era that is not long ago.
    since: u32,
    /// By the places of the rules.
    used: Vec<bool>,
}

impl Survey {
    /// Keeps a rule, if it came with an ask, because a bucket is under it.
    #[inline]
    pub(crate) fn keep(&mut self, id: RuleId) {
        if let Some(used) = id.carried().and_then(|place| self.used.get_mut(place)) {
            *used = true;
        }
    }
}

fn carried(place: u32, era: u32) -> Option<Carried> {
    let rule = NonZeroU32::new(FIRST.saturating_add(place))?;
    Some(Carried { rule, era })
}

impl RuleId {
    /// Which of the rules that came with asks it is, from zero; none if it is of a named limit.
    #[inline]
    pub fn carried(self) -> Option<usize> {
        self.number().checked_sub(FIRST).map(|place| place as usize)
    }
}
