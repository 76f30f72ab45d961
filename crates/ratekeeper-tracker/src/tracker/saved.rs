//! What is known, written down for the process that comes after this one.
//!
//! A state is one line that says what it is, and JSON. Moments are the caller's own and mean nothing to
//! another process: they are told from all else by how they are written, so that all of them can be
//! moved by what lies between saving and loading. Only what this library wrote is read again; a
//! checksum shows it.

use std::hash::{BuildHasher as _, Hasher as _};
use std::num::NonZeroU64;
use std::sync::Arc;

use foldhash::fast::FixedState;
use ratekeeper_time::Moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::queue::Queues;
use super::{Account, BUCKETS_MAX, Lead, ORIGINS_MAX, ROUTES_MAX, Tracker};
use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::dialect::Dialect;
use crate::invalid::Invalid;
use crate::length::Length;
use crate::paces::NamedPlaces;
use crate::recent::Recent;
use crate::refused_limit::RefusedLimit;
use crate::verdict::Reservation;

/// The longest state that is loaded. The fullest tracker there can be is hardly so long.
pub const SAVED_BYTES_MAX: usize = 1 << 28;
/// What the first line begins with, and which way of writing the rest it announces.
const MAGIC: &str = "ratekeeper-tracker";
const FORMAT: &str = "3";
/// Any number will do.
const SEED: u64 = 0x5afe_57a7;
/// How a moment and a text begin when they are written: a text never is a moment.
const MOMENT: char = '@';
const TEXT: char = '=';
/// So much of what was found is told.
const FOUND_CHARS: usize = 40;

/// Why a state is not loaded. The tracker is as it was before, so it can be used without one.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is too long to be one.
    #[error("a saved state has at most {SAVED_BYTES_MAX} bytes, and this has {bytes}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// It is something else.
    #[error(
        "line 1: expected `{MAGIC} {FORMAT} CHECKSUM`, as `save` writes it, and found `{found}`"
    )]
    NotSaved {
        /// What it begins with.
        found: String,
    },
    /// Another version of the library has written it.
    #[error("line 1: it is in format {found}, and this version reads {FORMAT}: begin without it")]
    Format {
        /// Which format it is in.
        found: String,
    },
    /// It was cut or changed.
    #[error(
        "line 2: it was cut or changed since it was saved: its checksum is {found}, and line 1 says \
         {expected}; begin without it"
    )]
    Damaged {
        /// What line 1 says.
        expected: String,
        /// That of what is there.
        found: String,
    },
    /// It is of another API.
    #[error(
        "it is of profile `{found}`, and this tracker has `{expected}`: use that profile, or begin without it"
    )]
    Profile {
        /// The name of the tracker's profile.
        expected: String,
        /// The name of the one that it was saved with.
        found: String,
    },
    /// It is whole, and yet not what this version writes.
    #[error("line 2: it is not what this version saves: begin without it")]
    Unreadable(#[source] serde_json::Error),
    /// It has more than a tracker ever has.
    #[error("line 2: it has {found} {what}, and there are at most {max}: begin without it")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// The tracker has been used.
    #[error("{requests} requests are in flight or wait: load a state before the first request")]
    InUse {
        /// How many.
        requests: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(with = "text")]
    profile: Arc<str>,
    /// When it was saved, by the tracker's own time and by the clock on the wall, in nanoseconds
    /// since 1970.
    now_nanos: u64,
    wall_nanos: u64,
    accounts: Vec<SavedAccount>,
}

#[derive(Serialize, Deserialize)]
struct SavedAccount {
    key: u64,
    #[serde(with = "text")]
    origin: Arc<str>,
    dialect: Dialect,
    refused_of_all: RefusedLimit,
    refused_of_paced: RefusedLimit,
    /// For each limit of the profile.
    places: Vec<SavedPlaces>,
    /// When requests were refused, and how many.
    invalid: Vec<(Moment, u32)>,
    /// By key.
    buckets: Vec<(u64, Bucket)>,
    routes: Vec<SavedLead>,
}

/// Who holds places of a limit that is kept in advance, and which limit that is.
#[derive(Serialize, Deserialize)]
struct SavedPlaces {
    #[serde(with = "text")]
    name: Arc<str>,
    count: u32,
    window: Length,
    /// When the answers came, and how many places each holds.
    answered: Vec<(Moment, u16)>,
}

#[derive(Serialize, Deserialize)]
struct SavedLead {
    key: u64,
    /// The place of the bucket among those saved.
    bucket: usize,
    confirmed: Option<NonZeroU64>,
}

impl Tracker {
    /// What is known, as a text for [`load`](Self::load) in another process.
    ///
    /// Budgets, when their windows end, for how long the server refuses what, names of buckets, and
    /// what was learnt of the API. Requests in flight count as spent. `wall` is what the clock on
    /// the wall says, counted from 1970; `now` is the tracker's own time, which may be the same.
    pub fn save(&self, now: Moment, wall: Moment) -> String {
        let accounts = self.accounts.entries();
        let accounts = accounts.map(|(key, account)| account.clone().save(key, now)).collect();
        let profile = Arc::from(self.profile.name);
        let (now_nanos, wall_nanos) = (now.as_nanos(), wall.as_nanos());
        let saved = Saved { profile, now_nanos, wall_nanos, accounts };
        // Numbers and texts can always be written.
        let body = serde_json::to_string(&saved).unwrap_or_default();
        format!("{MAGIC} {FORMAT} {}\n{body}\n", checksum(&body))
    }

    /// Takes over what another process has saved, before the first request.
    ///
    /// What passed since then by the clock on the wall has passed for each wait; where that clock
    /// was put back meanwhile, nothing has.
    ///
    /// # Errors
    ///
    /// If it is not what [`save`](Self::save) wrote for this profile, or if requests are in flight
    /// or wait. Nothing is changed then.
    pub fn load(&mut self, text: &str, now: Moment, wall: Moment) -> Result<(), LoadError> {
        let body = check(text)?;
        let requests = self.accounts.iter().map(Account::unsettled).sum();
        if requests > 0 {
            return Err(LoadError::InUse { requests });
        }
        let mut value: Value = serde_json::from_str(body).map_err(LoadError::Unreadable)?;
        let nanos = |name| value.get(name).and_then(Value::as_u64).unwrap_or_default();
        let passed = wall.as_nanos().saturating_sub(nanos("wall_nanos"));
        let shift =
            i128::from(now.as_nanos()) - i128::from(nanos("now_nanos")) - i128::from(passed);
        move_all(&mut value, shift);
        let saved: Saved = serde_json::from_value(value).map_err(LoadError::Unreadable)?;
        if *saved.profile != *self.profile.name {
            let (expected, found) = (self.profile.name.to_owned(), saved.profile.to_string());
            return Err(LoadError::Profile { expected, found });
        }
        saved.accounts.iter().try_for_each(SavedAccount::check)?;
        bound("origins", saved.accounts.len(), ORIGINS_MAX)?;
        self.replace(saved.accounts, now);
        Ok(())
    }

    fn replace(&mut self, saved: Vec<SavedAccount>, now: Moment) {
        let mut accounts = Recent::new(ORIGINS_MAX);
        for saved in saved {
            let profile = self.profile_of(saved.key);
            let new = |me| Account::new(profile, me, Arc::clone(&saved.origin));
            let slot = accounts.insert_with(saved.key, new, |_| false);
            if let Some(account) = slot.and_then(|slot| accounts.at_mut(slot)) {
                account.set_queue(self.queue_max);
                account.load(saved, now);
            }
        }
        let origins = accounts.len().max(1);
        accounts.iter_mut().for_each(|account| account.share_room(origins, now));
        self.accounts = accounts;
        self.forget_latest();
    }
}

impl Account {
    /// How many requests are in flight or wait.
    fn unsettled(&self) -> usize {
        self.reservations.len() + self.queues.len()
    }

    fn save(mut self, key: u64, now: Moment) -> SavedAccount {
        // Who waits has sent nothing; what is in flight may arrive.
        self.queues = Queues::new();
        self.buckets.iter_mut().for_each(|bucket| bucket.lines = None);
        for slot in self.reservations.slots() {
            let reservation = Reservation::new(self.me, slot);
            self.lost(reservation, now);
        }
        let mut places = hashbrown::HashMap::new();
        let mut buckets = Vec::new();
        for (slot, key, bucket) in self.buckets.into_entries() {
            places.insert(slot, buckets.len());
            buckets.push((key, bucket));
        }
        let lead = |(_, key, lead): (_, u64, Lead)| {
            let bucket = *places.get(&lead.bucket)?;
            Some(SavedLead { key, bucket, confirmed: lead.confirmed })
        };
        SavedAccount {
            key,
            origin: self.origin,
            dialect: self.dialect,
            refused_of_all: self.refused_of_all,
            refused_of_paced: self.refused_of_paced,
            places: self.places.all().iter().map(SavedPlaces::of).collect(),
            invalid: self.invalid.iter().flat_map(Invalid::counted).collect(),
            routes: self.routes.into_entries().filter_map(lead).collect(),
            buckets,
        }
    }

    fn load(&mut self, saved: SavedAccount, now: Moment) {
        self.now = now;
        // How long answers take is seen anew, and nobody goes early until then.
        self.credit = Credit::new();
        self.dialect = saved.dialect;
        self.refused_of_all = saved.refused_of_all;
        self.refused_of_paced = saved.refused_of_paced;
        self.load_places(saved.places, now);
        if let Some(invalid) = &mut self.invalid {
            saved.invalid.into_iter().for_each(|(at, count)| invalid.add_many(at.min(now), count));
        }
        // The process before may have believed in longer waits.
        let longest = self.profile.longest_wait;
        self.refused_of_all.wait_at_most(longest, now);
        self.refused_of_paced.wait_at_most(longest, now);
        let insert = |(key, mut bucket): (u64, Bucket)| {
            bucket.wait_at_most(longest, now);
            self.buckets.insert(key, bucket, |_| false)
        };
        let slots: Vec<_> = saved.buckets.into_iter().map(insert).collect();
        for SavedLead { key, bucket, confirmed } in saved.routes {
            if let Some(&Some(bucket)) = slots.get(bucket) {
                self.routes.insert(key, Lead { bucket, confirmed }, |_| false);
            }
        }
    }
}

impl Account {
    /// The order of limits says nothing: profiles change.
    fn load_places(&mut self, mut saved: Vec<SavedPlaces>, now: Moment) {
        for limit in self.places.all_mut() {
            let Some(place) = saved.iter().position(|saved| saved.is_of(limit)) else { continue };
            for (at, cost) in saved.remove(place).answered {
                limit.places.answer(cost, at.min(now));
            }
        }
    }
}

impl SavedPlaces {
    fn of(limit: &NamedPlaces) -> Self {
        let (name, pace) = (Arc::clone(&limit.name), limit.places.pace());
        let answered = limit.places.answered().collect();
        Self { name, count: pace.count, window: pace.window.into(), answered }
    }

    /// Whether they are those of a limit. One that has a name may count up to another number now.
    fn is_of(&self, limit: &NamedPlaces) -> bool {
        let pace = limit.places.pace();
        let is_same = !self.name.is_empty() || self.count == pace.count;
        is_same && self.name == limit.name && self.window == pace.window.into()
    }
}

impl SavedAccount {
    fn check(&self) -> Result<(), LoadError> {
        bound("buckets", self.buckets.len(), BUCKETS_MAX)?;
        bound("routes", self.routes.len(), ROUTES_MAX)
    }
}

fn bound(what: &'static str, found: usize, max: usize) -> Result<(), LoadError> {
    if found > max { Err(LoadError::TooMany { what, found, max }) } else { Ok(()) }
}

/// What is behind the first line, if that announces it rightly.
fn check(text: &str) -> Result<&str, LoadError> {
    if text.len() > SAVED_BYTES_MAX {
        return Err(LoadError::TooLong { bytes: text.len() });
    }
    let (first, body) = text.split_once('\n').unwrap_or((text, ""));
    let mut words = first.split(' ');
    let (Some(MAGIC), Some(format), Some(expected)) = (words.next(), words.next(), words.next())
    else {
        let found = first.chars().take(FOUND_CHARS).collect();
        return Err(LoadError::NotSaved { found });
    };
    if format != FORMAT {
        return Err(LoadError::Format { found: format.chars().take(FOUND_CHARS).collect() });
    }
    // Editors end lines as they like.
    let body = body.trim_end();
    let found = checksum(body);
    if found != expected {
        let expected = expected.chars().take(FOUND_CHARS).collect();
        return Err(LoadError::Damaged { expected, found });
    }
    Ok(body)
}

fn checksum(body: &str) -> String {
    let mut hasher = FixedState::with_seed(SEED).build_hasher();
    hasher.write(body.as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Moves all moments.
fn move_all(value: &mut Value, shift: i128) {
    match value {
        Value::String(text) => {
            if let Some(nanos) = text.strip_prefix(MOMENT).and_then(|text| text.parse().ok()) {
                *text = written(moved(nanos, shift));
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| move_all(value, shift)),
        Value::Object(values) => values.values_mut().for_each(|value| move_all(value, shift)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn moved(nanos: u64, shift: i128) -> Moment {
    let nanos = (i128::from(nanos) + shift).max(0);
    Moment::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn written(moment: Moment) -> String {
    format!("{MOMENT}{}", moment.as_nanos())
}

/// A text, which is never taken for a moment.
pub(crate) mod text {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::TEXT;

    pub(crate) fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{TEXT}{text}"))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Arc<str>, D::Error> {
        let text = String::deserialize(from)?;
        Ok(Arc::from(text.strip_prefix(TEXT).unwrap_or(&text)))
    }
}
