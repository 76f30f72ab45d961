//! The overrides that were made at run time, by limit and id.

use std::sync::Arc;

use ratekeeper::Moment;
use ratekeeper::limits::{Limit, Origin, Override};

use super::Utc;

/// An override that somebody made while the server ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTimeOverride {
    /// The name of the limit.
    pub limit: Box<str>,
    /// The id in its one spelling.
    pub id: Box<str>,
    /// How much it is allowed.
    pub terms: Limit,
    /// Why.
    pub why: Box<str>,
    /// Who made it.
    pub by: Box<str>,
    /// When it was made.
    pub at: Moment,
    /// When it ends by itself.
    pub until: Option<Moment>,
}

impl RunTimeOverride {
    fn key(&self) -> (&str, &str) {
        (&self.limit, &self.id)
    }

    /// Whether it has ended by `now`.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// The same in the words of the engine.
    pub(super) fn to_engine(&self) -> Override {
        let origin = match self.until {
            Some(until) => format!("at run time by {}, until {}", self.by, Utc(until)),
            None => format!("at run time by {}", self.by),
        };
        Override {
            id: self.id.clone(),
            limit: self.terms,
            origin: Origin::named(&origin),
            comment: Some(self.why.clone()),
        }
    }
}

/// Overrides, sorted by limit and then id, each pair once.
///
/// A copy costs a pointer for each, so every change makes a new table and readers keep the old one.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<Arc<RunTimeOverride>>);

impl Table {
    /// Refuses nothing: of several for one id, the last stays.
    pub(super) fn new(overrides: Vec<Arc<RunTimeOverride>>) -> Self {
        Self::default().with(overrides)
    }

    /// With these; they take the place of those for the same ids.
    pub(super) fn with(&self, new: Vec<Arc<RunTimeOverride>>) -> Self {
        let mut all = self.0.clone();
        all.extend(new);
        // The sort is stable, so of two for one id the newer stands second.
        all.sort_by(|a, b| a.key().cmp(&b.key()));
        all.dedup_by(|newer, kept| {
            let is_same = newer.key() == kept.key();
            if is_same {
                std::mem::swap(newer, kept);
            }
            is_same
        });
        Self(all)
    }

    /// Without those that `is_gone` is true for.
    pub(super) fn without(&self, is_gone: impl Fn(&RunTimeOverride) -> bool) -> Self {
        Self(self.0.iter().filter(|over| !is_gone(over)).cloned().collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Arc<RunTimeOverride>> {
        self.0.iter()
    }

    pub(super) fn at(&self, place: usize) -> Option<&Arc<RunTimeOverride>> {
        self.0.get(place)
    }

    /// Where the override of an id in its one spelling is.
    pub(super) fn place(&self, limit: &str, id: &str) -> Option<usize> {
        self.0.binary_search_by(|over| over.key().cmp(&(limit, id))).ok()
    }

    pub(super) fn find(&self, limit: &str, id: &str) -> Option<&Arc<RunTimeOverride>> {
        self.place(limit, id).and_then(|place| self.0.get(place))
    }

    /// Those that come after a limit and an id.
    pub(super) fn after(&self, limit: &str, id: &str) -> &[Arc<RunTimeOverride>] {
        let start = self.0.partition_point(|over| over.key() <= (limit, id));
        self.0.get(start..).unwrap_or_default()
    }

    /// When the next one ends.
    pub(super) fn next_end(&self) -> Option<Moment> {
        self.0.iter().filter_map(|over| over.until).min()
    }

    /// When the next one ends of those that are not over by `now`.
    pub(super) fn next_end_after(&self, now: Moment) -> Option<Moment> {
        self.0.iter().filter_map(|over| over.until).filter(|until| *until > now).min()
    }
}
