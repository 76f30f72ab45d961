//! How the memory of a full store is shared out among limits.
//!
//! Every key belongs to an [`Owner`]: a named limit, or all asks that bring their rule along. While
//! there is room, anybody may have it. Once the store is full, each owner has a share: the table is
//! divided by weight among the owners that hold keys, and what one does not need goes to the others,
//! again by weight (max-min fairness). So there is one *level*, in keys per unit of weight: owners
//! below it keep all they have, and the others are held to it.
//!
//! Keys are counted exactly, over all shards. The level is worked out after every [`SURVEY_PART`] of
//! the keys that is new, and when rules or weights change, because that looks at every owner: at most
//! [`Shelf::PLACES`] of them, while no shard is locked. So that it may be a little old, and because
//! keys are not spread quite evenly over shards, a part of the table is left out of the shares: see
//! [`SPARE_PART`]. For this reason, whenever a shard is full, owners beyond their shares hold at least
//! that part of it, and a search of some slots almost certainly finds one of their keys.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::shelf::Shelf;
use crate::algorithm::{Owner, Share};

/// One part in so many of the table is in no share.
const SPARE_PART: usize = 16;
/// The level is worked out again when one part in so many of the keys is new. That is much less than
/// is spare.
const SURVEY_PART: usize = 64;
/// Up to so many owners are looked at without allocating.
const INLINE: usize = 64;
/// An ask that was denied within its share pays for looking at so many owners: see
/// [`Shares::doubt`].
const OWNERS_PER_DENIAL: usize = 16;

/// Who holds how many keys of a store, and how many each may hold while it is full.
#[derive(Debug)]
pub(super) struct Shares {
    accounts: Shelf<Account>,
    /// One more than the highest number of an owner that ever held a key.
    owners: AtomicUsize,
    /// How many keys the store holds at most.
    keys_max: usize,
    /// Keys per unit of weight that an owner may hold, as the bits of a float.
    level: AtomicU64,
    /// How many keys are new since the level was worked out, and after how many it is too old.
    new_keys: AtomicUsize,
    old_after: AtomicUsize,
    /// A thread is working out the level.
    is_surveying: AtomicBool,
}

/// What one owner holds, and what became of its keys for want of memory.
#[derive(Debug, Default)]
struct Account {
    keys: AtomicUsize,
    evicted: AtomicU64,
    tokens_forgiven: AtomicU64,
    turned_away: AtomicU64,
    share_full: AtomicU64,
}

/// What an owner holds of a store, and what it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The limit, or whatever else holds the keys.
    pub owner: Owner,
    /// How many keys it holds, also those that may be forgotten for free.
    pub keys: usize,
    /// How many keys it can hold at least, whatever the owners that hold keys now do.
    pub share: usize,
    /// How many of its keys were forgotten although they owed something.
    pub evicted: u64,
    /// How many tokens they owed.
    pub tokens_forgiven: u64,
    /// How many of its asks were denied because no key could be forgotten for them.
    pub turned_away: u64,
    /// How many of its new keys came when it held more than its share, and no key near them could be
    /// forgotten for free: also those for which a key was found farther away.
    pub share_full: u64,
}

impl Shares {
    /// Shares of a store that holds up to `keys_max` keys.
    pub(super) fn new(keys_max: usize) -> Self {
        Self {
            accounts: Shelf::default(),
            owners: AtomicUsize::new(0),
            keys_max,
            level: AtomicU64::new(f64::INFINITY.to_bits()),
            new_keys: AtomicUsize::new(0),
            old_after: AtomicUsize::new(0),
            is_surveying: AtomicBool::new(false),
        }
    }

    /// Counts one more key of an owner.
    pub(super) fn add(&self, owner: Owner) {
        self.new_keys.fetch_add(1, Ordering::Relaxed);
        let place = place(owner);
        if let Some(account) = self.accounts.find_or_put(place, Account::default)
            && account.keys.fetch_add(1, Ordering::Relaxed) == 0
        {
            self.owners.fetch_max(place + 1, Ordering::Relaxed);
        }
    }

    /// Counts one key less of an owner.
    pub(super) fn take(&self, owner: Owner) {
        if let Some(account) = self.accounts.find(place(owner)) {
            // Saturating, so that a miscount could only be a small one.
            let less = |keys: usize| keys.checked_sub(1);
            let _was_zero =
                account.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err();
        }
    }

    /// Whether an owner with this share holds more keys than that.
    pub(super) fn is_beyond(&self, owner: Owner, share: Share) -> bool {
        self.has_more(self.keys(owner), share)
    }

    /// Whether an owner with this share would hold more keys than that if it had one more. The first
    /// key is always within the share, however small that is.
    pub(super) fn is_full(&self, owner: Owner, share: Share) -> bool {
        let keys = self.keys(owner);
        keys > 0 && self.has_more(keys + 1, share)
    }

    fn has_more(&self, keys: usize, share: Share) -> bool {
        as_float(keys) > f64::from_bits(self.level.load(Ordering::Relaxed)) * share.weight()
    }

    pub(super) fn count_evicted(&self, owner: Owner, tokens: u64) {
        if let Some(account) = self.accounts.find_or_put(place(owner), Account::default) {
            account.evicted.fetch_add(1, Ordering::Relaxed);
            account.tokens_forgiven.fetch_add(tokens, Ordering::Relaxed);
        }
    }

    pub(super) fn count_share_full(&self, owner: Owner) {
        if let Some(account) = self.accounts.find_or_put(place(owner), Account::default) {
            account.share_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_turned_away(&self, owner: Owner) {
        if let Some(account) = self.accounts.find_or_put(place(owner), Account::default) {
            self.owners.fetch_max(place(owner) + 1, Ordering::Relaxed);
            account.turned_away.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets what became of an owner's keys: its number is about to be another's.
    pub(super) fn close(&self, owner: Owner) {
        if let Some(account) = self.accounts.find(place(owner)) {
            let Account { keys: _, evicted, tokens_forgiven, turned_away, share_full } = account;
            for count in [evicted, tokens_forgiven, turned_away, share_full] {
                count.store(0, Ordering::Relaxed);
            }
        }
    }

    /// An owner within its share found no key that could be forgotten for it, so the level may be
    /// wrong. It is worked out again as soon as such asks have paid for that.
    pub(super) fn doubt(&self) {
        let owners = self.owners.load(Ordering::Relaxed).max(1);
        let part = OWNERS_PER_DENIAL * self.old_after.load(Ordering::Relaxed) / owners;
        self.new_keys.fetch_add(part.max(1), Ordering::Relaxed);
    }

    /// Whether it is time to work the level out again.
    pub(super) fn is_old(&self) -> bool {
        self.new_keys.load(Ordering::Relaxed) >= self.old_after.load(Ordering::Relaxed)
    }

    /// Has the level be worked out again before long: rules or weights are others.
    pub(super) fn expire(&self) {
        self.new_keys.store(usize::MAX / 2, Ordering::Relaxed);
    }

    /// Works the level out again, by the shares that `read` finds, unless another thread does.
    pub(super) fn survey<S: Fn(Owner) -> Share>(&self, read: impl FnOnce() -> S) {
        if !self.is_surveying.swap(true, Ordering::Acquire) {
            // First: if the level expires meanwhile, it is worked out once more.
            self.new_keys.store(0, Ordering::Relaxed);
            self.find_level(read());
            self.is_surveying.store(false, Ordering::Release);
        }
    }

    fn find_level(&self, share: impl Fn(Owner) -> Share) {
        let mut demands: SmallVec<[(f64, f64); INLINE]> = self
            .in_use()
            .map(|(owner, account)| {
                (as_float(account.keys.load(Ordering::Relaxed)), share(owner).weight())
            })
            .filter(|(keys, _)| *keys > 0.0)
            .collect();
        let keys: f64 = demands.iter().map(|(keys, _)| keys).sum();
        // Saved keys are put back one shard after the other, so a shard can be full long before all
        // are: then the keys there are must be shared out, not the room there will be.
        let shared_out = keys.min(as_float(self.keys_max)) * SHARED_OUT;
        let old_after = (as_count(keys) / SURVEY_PART).min(self.keys_max / SURVEY_PART);
        self.old_after.store(old_after, Ordering::Relaxed);
        let level = level(&mut demands, shared_out);
        self.level.store(level.to_bits(), Ordering::Relaxed);
    }

    /// What every owner holds that holds anything, or was ever refused something.
    pub(super) fn held(&self, share: impl Fn(Owner) -> Share) -> Vec<Holding> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut weights = 0.0;
        let mut held: Vec<_> = self
            .in_use()
            .map(|(owner, account)| {
                let keys = account.keys.load(Ordering::Relaxed);
                weights += if keys > 0 { share(owner).weight() } else { 0.0 };
                Holding {
                    owner,
                    keys,
                    share: 0,
                    evicted: read(&account.evicted),
                    tokens_forgiven: read(&account.tokens_forgiven),
                    turned_away: read(&account.turned_away),
                    share_full: read(&account.share_full),
                }
            })
            .filter(Holding::is_known)
            .collect();
        for held in &mut held {
            let weight = share(held.owner).weight();
            let all = if held.keys > 0 { weights } else { weights + weight };
            held.share = as_count(as_float(self.keys_max) * SHARED_OUT * weight / all);
        }
        held
    }

    fn keys(&self, owner: Owner) -> usize {
        self.accounts.find(place(owner)).map_or(0, |held| held.keys.load(Ordering::Relaxed))
    }

    fn in_use(&self) -> impl Iterator<Item = (Owner, &Account)> {
        (0..self.owners.load(Ordering::Relaxed)).filter_map(|place| {
            Some((Owner::new(u32::try_from(place).ok()?), self.accounts.find(place)?))
        })
    }
}

impl Holding {
    /// Whether there is anything to tell of the owner.
    fn is_known(&self) -> bool {
        let Self { keys, evicted, turned_away, share_full, .. } = *self;
        keys > 0 || evicted > 0 || turned_away > 0 || share_full > 0
    }
}

/// What part of the table is in shares.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
const SHARED_OUT: f64 = 1.0 - 1.0 / SPARE_PART as f64;

/// How many keys per unit of weight each owner may hold, so that all owners together hold `keys`. Each
/// of `owners` is the number of keys that it holds now, which it will not exceed, and its weight.
fn level(owners: &mut [(f64, f64)], keys: f64) -> f64 {
    owners
        .sort_unstable_by(|(a, a_weight), (b, b_weight)| (a / a_weight).total_cmp(&(b / b_weight)));
    let mut weights: f64 = owners.iter().map(|(_, weight)| weight).sum();
    let mut left = keys;
    for &(held, weight) in &*owners {
        if held / weight >= left / weights {
            return left / weights;
        }
        left -= held;
        weights -= weight;
    }
    f64::INFINITY
}

/// Where the account of an owner is. All owners with higher numbers than there are places share the
/// last one.
fn place(owner: Owner) -> usize {
    (owner.number() as usize).min(Shelf::<Holding>::PLACES - 1)
}

#[expect(clippy::cast_precision_loss, reason = "a number of keys is far below 2^53")]
fn as_float(keys: usize) -> f64 {
    keys as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a number of keys"
)]
fn as_count(keys: f64) -> usize {
    keys as usize
}

#[cfg(test)]
mod tests;
