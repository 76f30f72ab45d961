//! What is in force: what the files say, and the overrides that were made at run time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use ratekeeper::Moment;
use ratekeeper::limits::{Limits, NamedLimit};

use super::ledger::Ledger;
use super::table::{RunTimeOverride, Table};
use crate::state::StateError;

/// Limits and overrides, and where the overrides are kept.
///
/// Whoever makes or removes overrides holds `recording`, also while a disk is written to. Whoever puts
/// something in force holds `changing`, and that is never for as long as a disk takes: limits are
/// reloaded and overrides end also while a disk hangs. Whoever needs both takes `recording` first.
/// Whoever reads takes the last snapshot and waits for nobody.
#[derive(Debug)]
pub(crate) struct ActiveOverrides {
    recording: Mutex<()>,
    changing: Mutex<()>,
    /// Whether it was told that ended overrides could not be recorded, and they still are not.
    pub(super) is_unrecorded: AtomicBool,
    now: ArcSwap<Snapshot>,
    pub(super) ledger: Ledger,
}

/// Everything that is in force, as of the last change.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// How many there were before this one.
    pub(crate) version: u64,
    /// Since when.
    pub(crate) since: Moment,
    /// What the files say.
    pub(super) base: Arc<Limits>,
    /// With the overrides that were made at run time. The same as `base` if there are none.
    pub(crate) limits: Arc<Limits>,
    pub(super) table: Table,
    /// Overrides of the table that are not in force, by their place, and why.
    dormant: Vec<(usize, Dormant)>,
}

/// How many overrides there are, and whether they last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverrideCounts {
    /// How often limits or overrides have changed since the start.
    pub version: u64,
    /// How many are written in files.
    pub in_files: usize,
    /// How many were made at run time.
    pub at_run_time: usize,
    /// Whether those outlive the process.
    pub durable: bool,
}

/// Why an override that was made is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dormant {
    /// It has ended.
    Over,
    /// The files do not have its limit any more, or one with other ids.
    DoesNotFit(String),
}

/// The right to make and remove overrides, and to keep them on the disk.
#[derive(Debug)]
#[must_use = "it is given back when it is dropped"]
pub(crate) struct Recording<'a> {
    active_overrides: &'a ActiveOverrides,
    _only_one: MutexGuard<'a, ()>,
}

/// The right to change what is in force.
#[derive(Debug)]
#[must_use = "it is given back when it is dropped"]
pub(crate) struct Changing<'a> {
    active_overrides: &'a ActiveOverrides,
    _only_one: MutexGuard<'a, ()>,
}

impl ActiveOverrides {
    /// With what the files say, and the overrides of a state directory as far as they apply at `at`.
    pub(crate) fn open(
        base: Limits,
        folder: Option<&Path>,
        at: Moment,
    ) -> Result<Self, StateError> {
        let (ledger, table) = Ledger::open(folder, at)?;
        let snapshot = Snapshot::new(Arc::new(base), table, at, 0);
        snapshot.tell_dormant(None);
        let now = ArcSwap::from_pointee(snapshot);
        Ok(Self {
            recording: Mutex::default(),
            changing: Mutex::default(),
            is_unrecorded: AtomicBool::new(false),
            now,
            ledger,
        })
    }

    /// What is in force now.
    pub(crate) fn load(&self) -> Arc<Snapshot> {
        self.now.load_full()
    }

    /// Waits until nobody else makes or removes overrides, which may take as long as a disk takes.
    pub(crate) fn record(&self) -> Recording<'_> {
        Recording { active_overrides: self, _only_one: self.recording.lock() }
    }

    /// Waits until nobody else puts anything in force.
    pub(crate) fn change(&self) -> Changing<'_> {
        Changing { active_overrides: self, _only_one: self.changing.lock() }
    }

    /// How many overrides there are.
    pub(crate) fn counts(&self) -> OverrideCounts {
        let Snapshot { version, base, table, .. } = &*self.load();
        OverrideCounts {
            version: *version,
            in_files: base.iter().map(|named| named.overrides().len()).sum(),
            at_run_time: table.len(),
            durable: self.ledger.is_durable(),
        }
    }
}

impl Recording<'_> {
    /// What is in force, in which nobody else can change the overrides now. The files may be reloaded.
    pub(super) fn load(&self) -> Arc<Snapshot> {
        self.active_overrides.load()
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.active_overrides.ledger
    }
}

impl Changing<'_> {
    /// What is in force, which nobody else can change now.
    pub(crate) fn load(&self) -> Arc<Snapshot> {
        self.active_overrides.load()
    }

    /// Tells everybody what is in force now.
    pub(crate) fn publish(&self, next: Snapshot) {
        next.tell_dormant(Some(&*self.load()));
        self.active_overrides.now.store(Arc::new(next));
    }
}

impl Snapshot {
    fn new(base: Arc<Limits>, table: Table, now: Moment, version: u64) -> Self {
        let (mut dormant, mut fitting) = (Vec::new(), Vec::new());
        for (place, over) in table.iter().enumerate() {
            if over.is_over(now) {
                dormant.push((place, Dormant::Over));
            } else {
                fitting.push(place);
            }
        }
        let mut limits = Arc::clone(&base);
        if !fitting.is_empty() {
            let overrides = fitting.iter().filter_map(|place| table.at(*place));
            let overrides = overrides.map(|over| (&*over.limit, over.to_engine()));
            let (with_them, left_out) = (*base).clone().with_overrides(overrides);
            limits = Arc::new(with_them);
            for (at, error) in left_out {
                let place = fitting.get(at).copied().unwrap_or_default();
                dormant.push((place, Dormant::DoesNotFit(error.to_string())));
            }
            dormant.sort_by_key(|(place, _)| *place);
        }
        Self { version, since: now, base, limits, table, dormant }
    }

    /// With other files.
    pub(crate) fn with_files(&self, base: Limits, now: Moment) -> Self {
        Self::new(Arc::new(base), self.table.clone(), now, self.version.saturating_add(1))
    }

    /// With other overrides.
    pub(super) fn with_table(&self, table: Table, now: Moment) -> Self {
        Self::new(Arc::clone(&self.base), table, now, self.version.saturating_add(1))
    }

    /// What would be in force at another time.
    pub(super) fn as_of(&self, now: Moment) -> Self {
        self.with_table(self.table.clone(), now)
    }

    /// Why the override of an id is not in force, if it is not.
    pub(super) fn dormancy(&self, limit: &str, id: &str) -> Option<&Dormant> {
        let place = self.table.place(limit, id)?;
        let found = self.dormant.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.dormant.get(found).map(|(_, dormant)| dormant)
    }

    /// The override of an id, if one that was made at run time is in force for it.
    pub(super) fn in_force(&self, limit: &str, id: &str) -> Option<&Arc<RunTimeOverride>> {
        let over = self.table.find(limit, id)?;
        self.dormancy(limit, id).is_none().then_some(over)
    }

    /// Whether an override is in force that is over by `now`.
    pub(super) fn has_ended_in_force(&self, now: Moment) -> bool {
        let mut ended = self.table.iter().filter(|over| over.is_over(now));
        ended.any(|over| self.in_force(&over.limit, &over.id).is_some())
    }

    pub(super) fn named(&self, limit: &str) -> Option<&NamedLimit> {
        self.base.named(limit)
    }

    /// An override that does not fit is told once, and once more when it fits again.
    fn tell_dormant(&self, before: Option<&Self>) {
        let does_not_fit = |snapshot: &Self, over: &RunTimeOverride| {
            matches!(snapshot.dormancy(&over.limit, &over.id), Some(Dormant::DoesNotFit(_)))
        };
        for (place, dormant) in &self.dormant {
            let (Dormant::DoesNotFit(reason), Some(over)) = (dormant, self.table.at(*place)) else {
                continue;
            };
            if !before.is_some_and(|before| does_not_fit(before, over)) {
                let (limit, id) = (&over.limit, &over.id);
                tracing::warn!(%limit, %id, %reason, "an override does not apply for now");
            }
        }
        for over in before.into_iter().flat_map(Self::not_fitting) {
            if self.in_force(&over.limit, &over.id).is_some() {
                let (limit, id) = (&over.limit, &over.id);
                tracing::info!(%limit, %id, "an override applies again");
            }
        }
    }

    fn not_fitting(&self) -> impl Iterator<Item = &Arc<RunTimeOverride>> {
        let is_one = |(_, dormant): &&(usize, Dormant)| *dormant != Dormant::Over;
        self.dormant.iter().filter(is_one).filter_map(|(place, _)| self.table.at(*place))
    }
}
