//! Quotas with a lifetime: a number of uses that is spent until it is gone or expires.

use super::{Algorithm, Cell, Change, EvictionRank, Owner, Share};
use crate::{Moment, Nanos};

/// What a lifetime is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Milliseconds.
    #[default]
    Milliseconds,
    /// Seconds.
    Seconds,
}

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

impl Unit {
    const fn nanos(self) -> u64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Milliseconds => MILLISECOND,
            Self::Seconds => SECOND,
        }
    }

    const fn packed(self) -> u64 {
        match self {
            Self::Nanoseconds => 0,
            Self::Milliseconds => 1,
            Self::Seconds => 2,
        }
    }

    /// So many of this unit.
    pub fn length(self, value: u64) -> Nanos {
        Nanos::new(u128::from(value).saturating_mul(self.nanos().into()))
    }

    /// Whole units that will be left when the answer is read, which is later than `now`, if only
    /// by a nanosecond: 60 s read 59 at once, and 1 s that has just begun reads 0.
    #[inline]
    pub fn whole(self, length: Nanos) -> u64 {
        let left = length.get().saturating_sub(1);
        // Dividing 128 bits takes many times as long, and 64 last for centuries. By a number that the
        // compiler knows it takes less still.
        if let Ok(left) = u64::try_from(left) {
            return match self {
                Self::Nanoseconds => left,
                Self::Milliseconds => left / MILLISECOND,
                Self::Seconds => left / SECOND,
            };
        }
        let whole = left.checked_div(self.nanos().into()).unwrap_or_default();
        u64::try_from(whole).unwrap_or(u64::MAX)
    }
}

/// What a change to a quota or a lifetime does with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amend {
    /// Sets it.
    Patch,
    /// Adds to it, as far as it goes.
    Increase,
    /// Takes from it, down to zero.
    Decrease,
}

impl Amend {
    const fn apply(self, to: u64, value: u64) -> u64 {
        match self {
            Self::Patch => value,
            Self::Increase => to.saturating_add(value),
            Self::Decrease => to.saturating_sub(value),
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Uses the quota; makes it first where there is none.
    Insert {
        /// How many uses a new quota allows.
        quota: u64,
        /// How many to take now.
        usage: u64,
        /// How long a new quota lives, in `unit`.
        ttl: u64,
        /// The unit of `ttl` and of the answer.
        unit: Unit,
    },
    /// Reads the quota.
    Query,
    /// Changes how many uses are left.
    AmendQuota(Amend, u64),
    /// Changes when it expires, in the unit it was made with.
    AmendLifetime(Amend, u64),
    /// Asks only whether it exists.
    Touch,
    /// Removes it.
    Purge,
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it was done, or exists.
    pub can: bool,
    /// How many uses are left.
    pub remaining: u64,
    /// The unit of `ttl`.
    pub unit: Unit,
    /// How long it still lives.
    pub ttl: u64,
}

/// What is kept of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaCell {
    remaining: u64,
    expires: Moment,
    /// From the lowest bit: the unit; whether a use was denied; half of the quota, as far as it fits. They
    /// stay packed, because a use only moves them about.
    packed: u64,
}

const UNIT_BITS: u64 = 0b11;
const DENIED_BIT: u64 = 1 << 2;
const HALF_SHIFT: u32 = 3;
/// The largest half that is kept. A quota of more than twice that is protected later than others.
const HALF_MAX: u64 = u64::MAX >> HALF_SHIFT;

impl QuotaCell {
    /// A quota of which so many uses are left, until it expires. How many there were is not known.
    pub fn new(remaining: u64, expires: Moment, unit: Unit) -> Self {
        Self { remaining, expires, packed: unit.packed() }
    }

    /// The same quota, which counts as one of so many uses.
    fn out_of(self, quota: u64) -> Self {
        let half = quota.wrapping_shr(1).min(HALF_MAX).wrapping_shl(HALF_SHIFT);
        Self { packed: half | self.packed & UNIT_BITS, ..self }
    }

    #[inline]
    fn denied(self) -> Self {
        Self { packed: self.packed | DENIED_BIT, ..self }
    }

    #[inline]
    fn unit(&self) -> Unit {
        match self.packed & UNIT_BITS {
            0 => Unit::Nanoseconds,
            1 => Unit::Milliseconds,
            _ => Unit::Seconds,
        }
    }

    /// What part of the quota is used, from 0.0 to 1.0, as far as it is known how many uses there were.
    #[expect(clippy::cast_precision_loss, reason = "a rank among cells, not a decision")]
    fn used_part(&self) -> f64 {
        let quota = self.packed.wrapping_shr(HALF_SHIFT).saturating_mul(2).max(self.remaining);
        if quota == 0 { 0.0 } else { quota.saturating_sub(self.remaining) as f64 / quota as f64 }
    }

    /// Whether it was denied a use, or half of it or more is used. If that is not known, none may be left.
    fn is_protected(&self) -> bool {
        self.packed & DENIED_BIT != 0 || self.remaining <= self.packed.wrapping_shr(HALF_SHIFT)
    }

    #[inline]
    fn read_out(&self, can: bool, unit: Unit, now: Moment) -> Outcome {
        let ttl = unit.whole(self.expires.since(now));
        Outcome { can, remaining: self.remaining, unit, ttl }
    }
}

/// Answers one request.
pub fn answer(cell: Option<QuotaCell>, ask: &Ask, now: Moment) -> (Outcome, Change<QuotaCell>) {
    let live = cell.filter(|cell| now < cell.expires);
    match (live, *ask) {
        (Some(cell), Ask::Insert { usage, unit, .. }) => take(cell, usage, unit, now),
        (None, Ask::Insert { quota, usage, ttl, unit }) => create(quota, usage, ttl, unit, now),
        (Some(cell), Ask::Query | Ask::Touch) => {
            (cell.read_out(true, cell.unit(), now), Change::Keep)
        }
        (Some(cell), Ask::AmendQuota(amend, value)) => {
            let remaining = amend.apply(cell.remaining, value);
            let cell = QuotaCell { remaining, ..cell };
            // Who takes uses away has used them; other changes make a new quota of it.
            changed(if amend == Amend::Decrease { cell } else { cell.out_of(remaining) }, now)
        }
        (Some(cell), Ask::AmendLifetime(amend, value)) => {
            changed(QuotaCell { expires: amended(&cell, amend, value, now), ..cell }, now)
        }
        (Some(cell), Ask::Purge) => (cell.read_out(true, cell.unit(), now), Change::Remove),
        (None, _) => (Outcome::default(), Change::Keep),
    }
}

fn take(cell: QuotaCell, usage: u64, unit: Unit, now: Moment) -> (Outcome, Change<QuotaCell>) {
    match cell.remaining.checked_sub(usage) {
        Some(_) if usage == 0 => (cell.read_out(true, unit, now), Change::Keep),
        Some(remaining) => {
            let cell = QuotaCell { remaining, ..cell };
            (cell.read_out(true, unit, now), Change::Put(cell))
        }
        None => {
            let outcome = cell.read_out(false, unit, now);
            (outcome, Change::Mark(cell.denied()))
        }
    }
}

fn create(
    quota: u64,
    usage: u64,
    ttl: u64,
    unit: Unit,
    now: Moment,
) -> (Outcome, Change<QuotaCell>) {
    let expires = now.after(unit.length(ttl));
    let Some(remaining) = quota.checked_sub(usage) else {
        let ttl = unit.whole(expires.since(now));
        return (Outcome { can: false, remaining: quota, unit, ttl }, Change::Keep);
    };
    let cell = QuotaCell::new(remaining, expires, unit).out_of(quota);
    let outcome = cell.read_out(true, unit, now);
    (outcome, if expires > now { Change::Put(cell) } else { Change::Keep })
}

fn amended(cell: &QuotaCell, amend: Amend, value: u64, now: Moment) -> Moment {
    let length = cell.unit().length(value);
    match amend {
        Amend::Patch => now.after(length),
        Amend::Increase => cell.expires.after(length),
        Amend::Decrease => cell.expires.before(length),
    }
}

fn changed(cell: QuotaCell, now: Moment) -> (Outcome, Change<QuotaCell>) {
    let outcome = cell.read_out(true, cell.unit(), now);
    (outcome, if cell.expires > now { Change::Put(cell) } else { Change::Remove })
}

/// Quotas with a lifetime, as a store keeps them.
#[derive(Clone, Copy, Debug)]
pub struct Quota;

impl Algorithm for Quota {
    type Cell = QuotaCell;
    type Ask = Ask;
    type Outcome = Outcome;
    type Book = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "returned through memory it takes longer")]
    fn renew((): &(), cell: QuotaCell, ask: &Ask, now: Moment) -> Option<(Outcome, QuotaCell)> {
        let Ask::Insert { usage: usage @ 1.., unit, .. } = *ask else { return None };
        if now >= cell.expires {
            return None;
        }
        let remaining = cell.remaining.checked_sub(usage);
        let after = match remaining {
            Some(remaining) => QuotaCell { remaining, ..cell },
            None => cell.denied(),
        };
        Some((after.read_out(remaining.is_some(), unit, now), after))
    }

    fn decide(
        (): &(),
        cell: Option<QuotaCell>,
        ask: &Ask,
        now: Moment,
    ) -> (Outcome, Change<QuotaCell>) {
        answer(cell, ask, now)
    }

    fn vetoes(_: &Ask, _: &Outcome) -> bool {
        false
    }

    fn turn_away((): &(), ask: &Ask, _: Nanos) -> Outcome {
        match *ask {
            Ask::Insert { quota, unit, .. } => {
                Outcome { remaining: quota, unit, ..Outcome::default() }
            }
            _ => Outcome::default(),
        }
    }

    fn idle_at((): &(), cell: &QuotaCell) -> Moment {
        cell.expires
    }

    /// The one of which the smallest part is used goes first; of equals, the one that expires first.
    #[expect(clippy::cast_precision_loss, reason = "a rank among cells, not a decision")]
    fn eviction_rank((): &(), cell: &QuotaCell, now: Moment) -> Option<EvictionRank> {
        // No lifetime has so many nanoseconds.
        const LIFETIME_MAX: f64 = (1_u128 << 64) as f64;
        let rank = cell.used_part() * LIFETIME_MAX + cell.expires.since(now).get() as f64;
        let is_protected = cell.is_protected();
        (now < cell.expires).then_some(EvictionRank { rank, is_protected })
    }

    fn owed((): &(), cell: &QuotaCell, now: Moment) -> u64 {
        (now < cell.expires).into()
    }

    /// Quotas have no limits, so all of them are one owner's.
    fn owner((): &(), _: &QuotaCell) -> Owner {
        Owner::NOBODY
    }

    fn asker((): &(), _: &Ask) -> Owner {
        Owner::NOBODY
    }

    fn share((): &(), _: Owner) -> Share {
        Share::default()
    }

    fn differ((): &(), (): &()) -> bool {
        false
    }

    fn carry_over((): &(), cell: QuotaCell, _: Option<&Ask>, _: Moment) -> QuotaCell {
        cell
    }
}

impl Cell for QuotaCell {
    const WORDS: usize = 3;

    #[inline]
    fn read(word: impl Fn(usize) -> u64) -> Self {
        Self { remaining: word(0), expires: Moment::from_nanos(word(1)), packed: word(2) }
    }

    #[inline]
    fn write(self, mut put: impl FnMut(usize, u64)) {
        put(0, self.remaining);
        put(1, self.expires.as_nanos());
        put(2, self.packed);
    }
}
