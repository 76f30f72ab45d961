//! Tokens taken in advance, for limits that allow it.
//!
//! A server that asks often takes more than it was asked for, and answers the next asks from that.
//! It begins with what is asked for, and takes twice as much whenever it has used up what it took
//! within the time of the lease. If it has not, what is left is lost, and it goes on with half of
//! what it used, or begins anew if nobody asked for as long again. So a bucket that is seldom asked
//! for is decided exactly, and no server ever holds more of one than comes back within the time of
//! a lease.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;
use ratekeeper::store::Fingerprint;
use ratekeeper::{Moment, Nanos};

/// Parts that are locked on their own.
const PARTS: usize = 64;
/// How many buckets of a part can be leased at a time; others are decided exactly.
const LEASES_MAX: usize = 4096;
/// No fetch takes longer: a decision waits for no longer than this.
const FETCH_MAX: Nanos = Nanos::from_secs(10);

pub(super) struct Leases {
    parts: Box<[Mutex<HashMap<Fingerprint, Lease>>]>,
}

struct Lease {
    /// Tokens that are left of it.
    left: u64,
    /// How many were taken last.
    size: u64,
    expires: Moment,
    /// Whether somebody takes more.
    is_fetching: bool,
}

/// What becomes of an ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// It passes; so many tokens are left of the lease.
    Here(u64),
    /// So many tokens are to be taken for it and the next ones.
    Fetch(u64),
    /// It is to be decided by itself.
    Exact,
}

impl Lease {
    /// Whether more are on their way. Whoever fetches them may be given up with its client.
    fn is_awaited(&self, now: Moment) -> bool {
        self.is_fetching && now < self.expires.after(FETCH_MAX)
    }
}

impl Leases {
    pub(super) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }

    /// Takes tokens of a lease of which a server holds `most`.
    pub(super) fn take(
        &self,
        bucket: Fingerprint,
        cost: u64,
        most: u64,
        length: Nanos,
        now: Moment,
    ) -> Take {
        let mut part = self.part(bucket);
        if part.len() >= LEASES_MAX && !part.contains_key(&bucket) {
            part.retain(|_, lease| now < lease.expires || lease.is_awaited(now));
            if part.len() >= LEASES_MAX {
                return Take::Exact;
            }
        }
        let lease = match part.entry(bucket) {
            Entry::Occupied(lease) => lease.into_mut(),
            Entry::Vacant(place) => {
                let expires = now.after(length);
                place.insert(Lease { left: 0, size: cost, expires, is_fetching: false });
                return Take::Exact;
            }
        };
        if lease.is_awaited(now) {
            return Take::Exact;
        }
        if now >= lease.expires {
            let is_forgotten = now >= lease.expires.after(length);
            // The next are twice this many: what was used of these.
            let half = lease.size.saturating_sub(lease.left) / 2;
            let size = if is_forgotten { cost } else { half.max(cost) };
            *lease = Lease { left: 0, size, expires: now.after(length), is_fetching: false };
            return Take::Exact;
        }
        if let Some(left) = lease.left.checked_sub(cost) {
            lease.left = left;
            return Take::Here(left);
        }
        let size = lease.size.saturating_mul(2).max(cost).min(most);
        if size <= cost {
            return Take::Exact;
        }
        lease.is_fetching = true;
        Take::Fetch(size)
    }

    /// Tokens were taken, of which the ask that they were taken for has had its own. Returns how
    /// many are left.
    pub(super) fn granted(
        &self,
        bucket: Fingerprint,
        size: u64,
        cost: u64,
        length: Nanos,
        now: Moment,
    ) -> u64 {
        let mut part = self.part(bucket);
        let Some(lease) = part.get_mut(&bucket) else { return 0 };
        // What was left was less than the cost, so there is never more than `size`.
        lease.left = lease.left.saturating_add(size.saturating_sub(cost)).min(size);
        (lease.size, lease.expires, lease.is_fetching) = (size, now.after(length), false);
        lease.left
    }

    /// More are not taken this time.
    pub(super) fn postpone(&self, bucket: Fingerprint) {
        if let Some(lease) = self.part(bucket).get_mut(&bucket) {
            lease.is_fetching = false;
        }
    }

    /// There were not as many tokens, or nobody knows.
    pub(super) fn refused(&self, bucket: Fingerprint) {
        if let Some(lease) = self.part(bucket).get_mut(&bucket) {
            (lease.size, lease.is_fetching) = (1, false);
        }
    }

    /// The bucket was filled, or has another rule.
    pub(super) fn forget(&self, bucket: Fingerprint) {
        self.part(bucket).remove(&bucket);
    }

    fn part(
        &self,
        bucket: Fingerprint,
    ) -> parking_lot::MutexGuard<'_, HashMap<Fingerprint, Lease>> {
        self.parts[usize::try_from(bucket.get() >> 64).unwrap_or_default() % PARTS].lock()
    }
}

#[cfg(test)]
mod tests;
