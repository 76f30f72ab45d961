//! The state of a server that is stopped.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ratekeeper::limiter::EVERYBODY;
use ratekeeper::limits::{IdFormat, Limits, NamedLimit};
use ratekeeper::store::saved::SavedClocks;
use ratekeeper::{Mistake, Moment};
use ratekeeper_redis::{BucketValue, Entry, Put, Value};

use super::TransferError;
use crate::engine::{Shares, Stores};
use crate::overrides::ActiveOverrides;
use crate::state::StateDir;

/// How much more memory than a file has bytes its buckets can take.
const BYTES_PER_SAVED: usize = 4;
/// Room for what comes from elsewhere, about 20 million buckets. It is taken as it is used.
const ROOM_BYTES: usize = 1 << 30;
/// Room for averages, for quotas and for keys of `CL.THROTTLE`, which are kept as they are.
const SPARE_BYTES: usize = 1 << 24;
const NANOS_PER_MICRO: u64 = 1_000;

/// What a server saved when it was stopped. No server can start with it meanwhile.
pub struct SavedState {
    folder: StateDir,
    stores: Stores,
    limits: Arc<Limits>,
    /// The names of limits, by what stands for them in the names of buckets.
    names: HashMap<String, String>,
    /// What time it is, for people and for a shared store.
    wall: Moment,
    /// What time it is for the buckets.
    at: Moment,
}

impl SavedState {
    /// What is saved in `folder`, with `limits` in force when the wall clock says `wall`, and the overrides that were made
    /// at run time. Refuses a folder that a server uses, or in which nothing is saved.
    pub fn open(folder: &Path, limits: Limits, wall: Moment) -> Result<Self, TransferError> {
        if StateDir::bytes(folder).is_none() {
            // A server that uses it has perhaps not saved yet.
            if StateDir::was_used(folder) {
                StateDir::open(folder)?;
            }
            return Err(TransferError::Nothing { folder: folder.to_owned() });
        }
        Self::open_or_create(folder, limits, wall)
    }

    /// The same, and nothing was spent if nothing is saved. The folder is made if it is not there.
    pub fn open_or_create(
        folder: &Path,
        limits: Limits,
        wall: Moment,
    ) -> Result<Self, TransferError> {
        let folder = StateDir::open(folder)?;
        let saved = StateDir::bytes(folder.folder()).unwrap_or_default();
        let saved = usize::try_from(saved).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_SAVED);
        let spare = saved.saturating_add(SPARE_BYTES);
        let limits_bytes = saved.saturating_add(ROOM_BYTES);
        let (averages, quotas, inline_rules) = (spare, spare, spare);
        let shares = Shares { limits: limits_bytes, averages, quotas, inline_rules };
        let active_overrides = ActiveOverrides::open(limits, Some(folder.folder()), wall)?;
        let at = folder.clocks().map_or(wall, |saved| saved.resume(wall));
        let limits = Arc::clone(&active_overrides.load().limits);
        let stores = match folder.load(&limits, shares, at)? {
            Some(stores) => stores,
            None => Stores::new((*limits).clone(), shares).map_err(TransferError::Memory)?,
        };
        let state = Self { names: names(&limits), folder, stores, limits, wall, at };
        state.has_room()?;
        Ok(state)
    }

    /// The buckets whose names the files say: those with an override, and those of everybody.
    pub fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        self.limits.iter().flat_map(|named| {
            let own = named.overrides().iter().map(|over| &*over.id);
            let everybody = Some(EVERYBODY).filter(|_| named.id_format() == IdFormat::Any);
            own.chain(everybody).map(|id| (named.name(), id))
        })
    }

    /// What an id owes of a limit, if it owes something.
    pub fn find(&self, limit: &str, id: &str) -> Result<Option<Entry>, TransferError> {
        let limiter = &self.stores.limiter;
        let owed = match limiter.owed(limit, id, self.at) {
            Ok(owed) => owed,
            // Without a rule nothing can be owed.
            Err(Mistake::NoDefault { .. }) => return Ok(None),
            Err(mistake) => return Err(mistake.into()),
        };
        let bucket = limiter.bucket_key(limit, id)?;
        let terms = limiter.terms(limit, id)?;
        match BucketValue::of(terms.rule(), owed, self.wall) {
            Ok(Some(value)) => {
                Ok(Some(Entry { name: bucket.into_bytes(), value: Value::Bucket(value) }))
            }
            Ok(None) => Ok(None),
            Err(source) => Err(TransferError::TooSlow { bucket, source }),
        }
    }

    /// How many buckets of limits owe something, and how many averages, quotas and keys of
    /// `CL.THROTTLE` there are.
    pub fn held(&self) -> (usize, usize) {
        let Stores { limiter, averages, quotas, inline_rules, .. } = &self.stores;
        let others = averages.held().keys + quotas.held().keys + inline_rules.held().keys;
        (limiter.held().keys, others)
    }

    /// Has a bucket owe what an entry says, unless it owes as much. None for an entry that is not of
    /// a limit of the files.
    pub fn put(&self, entry: &Entry) -> Result<Option<Put>, TransferError> {
        let Value::Bucket(value) = &entry.value else { return Ok(None) };
        let Some((limit, id)) = self.limit_of(&entry.name) else { return Ok(None) };
        let limiter = &self.stores.limiter;
        let terms = match limiter.terms(limit, id) {
            Ok(terms) => terms,
            Err(Mistake::NoDefault { .. }) => return Ok(None),
            Err(mistake) => return Err(mistake.into()),
        };
        // It is counted from the beginning of the microsecond.
        let micros = self.wall.as_nanos() / NANOS_PER_MICRO;
        let wall = Moment::from_nanos(micros * NANOS_PER_MICRO);
        let at = self.at.before(self.wall.since(wall));
        let owed = value.owed(terms.rule(), wall);
        if owed.is_nothing() {
            return Ok(Some(Put::Over));
        }
        if !limiter.owe(limit, id, owed, at)? {
            return Ok(Some(Put::Kept));
        }
        // Where there is no memory for a bucket, it stays full.
        let is_full = limiter.owed(limit, id, at)?.is_nothing();
        if is_full { Err(TransferError::Full) } else { Ok(Some(Put::Written)) }
    }

    /// Replaces what is saved.
    pub fn save(&self) -> Result<(), TransferError> {
        self.has_room()?;
        Ok(self.folder.save(&self.stores, SavedClocks { buckets: self.at, wall: self.wall })?)
    }

    /// The limit and the id that a bucket is named after.
    fn limit_of<'a>(&'a self, bucket: &'a [u8]) -> Option<(&'a str, &'a str)> {
        let bucket = std::str::from_utf8(bucket).ok()?;
        // The name of a bucket may have a colon in it.
        bucket.match_indices(':').find_map(|(at, colon)| {
            let limit = self.names.get(bucket.get(..at)?)?;
            Some((&**limit, bucket.get(at + colon.len()..)?))
        })
    }

    fn has_room(&self) -> Result<(), TransferError> {
        let is_whole = self.stores.held().iter().all(|(_, held)| held.tally.evicted == 0);
        if is_whole { Ok(()) } else { Err(TransferError::Full) }
    }
}

/// What stands for each limit in the names of its buckets.
fn names(limits: &Limits) -> HashMap<String, String> {
    let prefix = |named: &NamedLimit| match named.number() {
        _ if named.is_bucket() => format!("bucket {}", named.name()),
        Some(number) => number.to_string(),
        None => named.name().to_owned(),
    };
    limits.iter().map(|named| (prefix(named), named.name().to_owned())).collect()
}
