//! Which budget a request belongs to.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};
use std::num::NonZeroU64;

use foldhash::fast::FixedState;
use ratekeeper_time::Moment;

use crate::arena::Slot;
use crate::paces::{Class, PaceCosts};

/// The longest name of a bucket; the rest is left out.
pub const NAME_BYTES_MAX: usize = 160;
/// Any number will do. It is fixed so that the same requests take the same way every time.
const SEED: u64 = 0x7011_6a7e;

/// What a profile's route function writes into: the pieces that tell routes apart.
///
/// The pieces are hashed, and where somebody wants to read the name of the bucket, also written
/// down. Nothing is allocated otherwise.
pub struct RouteWriter<'n> {
    key: u64,
    major: u64,
    home: Option<u64>,
    exempt: bool,
    alone: bool,
    now: Moment,
    name: Option<&'n mut String>,
}

/// Where a request belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// The route itself.
    pub(crate) key: u64,
    /// The bucket it belongs to until the server names one.
    pub(crate) home: u64,
    /// What keeps buckets apart that the server gives the same name.
    pub(crate) major: u64,
    pub(crate) exempt: bool,
    /// Whether no answer to it has a body.
    pub(crate) is_bodiless: bool,
    /// What it counts for in the limits kept in advance.
    pub(crate) costs: PaceCosts,
    /// Where it is known to lead, to be found again without a search.
    pub(crate) lead: Option<Slot>,
}

impl Route {
    /// The key of the bucket that the server calls `name`.
    pub(crate) fn named(&self, name: &str) -> NonZeroU64 {
        named(self.major, name)
    }

    /// The limits on everything that apply to it.
    pub(crate) fn class(&self) -> Class {
        Class { exempt: self.exempt, limits: self.costs.limits() }
    }
}

impl<'n> RouteWriter<'n> {
    pub(crate) fn new(now: Moment, name: Option<&'n mut String>) -> Self {
        Self { key: SEED, major: SEED, home: None, exempt: false, alone: false, now, name }
    }

    /// A piece that tells routes apart.
    pub fn piece(&mut self, piece: &str) {
        self.key = hash(self.key, piece.as_bytes());
        self.write(piece);
    }

    /// A piece that also keeps buckets apart to which the server gives the same name.
    #[inline]
    pub fn major(&mut self, piece: &str) {
        self.separate(piece);
        self.write(piece);
    }

    /// Like [`major`](Self::major), but nobody may read it.
    pub fn secret(&mut self, piece: &str) {
        self.separate(piece);
        self.write(":token");
    }

    /// All that have the same pieces up to here share a budget until the server names others, and
    /// what people call it ends here.
    /// Without it each route has its own.
    pub fn shares(&mut self) {
        self.home = Some(self.key);
        self.name = None;
    }

    /// All of the same majors and this name share a budget, the one that the server most likely
    /// calls so. One that it calls otherwise leaves alone. To be called after all majors.
    pub fn resource(&mut self, name: &str) {
        self.home = Some(named(self.major, name).get());
        self.write(name);
        self.name = None;
    }

    /// The limits on all requests do not count it: no pace, nor how many may be in flight at once.
    pub fn exempt(&mut self) {
        self.exempt = true;
    }

    /// Shares its budget with no other route, even if the server gives both the same name.
    pub fn alone(&mut self) {
        self.alone = true;
    }

    /// What time it is, for routes that depend on how old something is.
    pub fn now(&self) -> Moment {
        self.now
    }

    pub(crate) fn finish(&self) -> Route {
        let key = self.key;
        let major = if self.alone { hash(self.major, &key.to_le_bytes()) } else { self.major };
        let (home, exempt) = (self.home.unwrap_or(key), self.exempt);
        let (costs, lead) = (PaceCosts::default(), None);
        Route { key, home, major, exempt, is_bodiless: false, costs, lead }
    }

    /// What tells buckets apart tells routes apart; so it is hashed once for both.
    fn separate(&mut self, piece: &str) {
        self.major = hash(self.major, piece.as_bytes());
        self.key = hash(self.key, &self.major.to_le_bytes());
    }

    #[inline]
    fn write(&mut self, piece: &str) {
        if self.name.is_some() {
            self.write_down(piece);
        }
    }

    #[cold]
    fn write_down(&mut self, piece: &str) {
        let Some(name) = &mut self.name else { return };
        if name.len() + piece.len() < NAME_BYTES_MAX {
            let gap = if name.is_empty() { "" } else { "/" };
            // Writing into a string cannot fail.
            let _ = write!(name, "{gap}{piece}");
        }
    }
}

impl std::fmt::Debug for RouteWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = f.debug_struct("RouteWriter");
        all.field("name", &self.name).field("exempt", &self.exempt).field("alone", &self.alone);
        all.finish_non_exhaustive()
    }
}

/// The key of a bucket by its name. It is never zero, so one that may be missing takes no more room.
fn named(major: u64, name: &str) -> NonZeroU64 {
    NonZeroU64::new(hash(major, name.as_bytes())).unwrap_or(NonZeroU64::MIN)
}

/// The hash of what was hashed before and a piece behind it. The piece's length is in it, so that
/// "ab", "c" is not "a", "bc".
#[inline]
fn hash(before: u64, piece: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(before).build_hasher();
    hasher.write(piece);
    hasher.finish()
}
