//! Reading what overrides there are, page by page.

use std::iter::Peekable;
use std::slice;
use std::sync::Arc;

use ratekeeper::limits::{Limit, Limits, NamedLimit, Origin, Override};
use serde::Serialize;
use utoipa::ToSchema;

use super::active_overrides::{Dormant, Snapshot};
use super::audit::Record;
use super::table::RunTimeOverride;
use super::{OVERRIDES_PAGE_MAX, Seconds, Utc};
use crate::engine::ServerEngine;

/// An override, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ListedOverride {
    /// The name of the limit.
    pub limit: String,
    /// The id in its one spelling.
    pub id: String,
    /// How many tokens a full bucket holds.
    pub burst: u64,
    /// How many tokens come back in a period.
    pub count: u64,
    /// How long that takes, in seconds.
    pub period: Seconds,
    /// How long that takes, in nanoseconds.
    pub period_ns: u64,
    /// The same in words: `300 per 3h`.
    pub terms: String,
    /// Where it comes from.
    pub source: Source,
    /// Why it was made, if that was said.
    #[schema(required)]
    pub why: Option<String>,
    /// Who made it at run time.
    #[schema(required)]
    pub by: Option<String>,
    /// When it was made at run time.
    #[schema(required)]
    pub at: Option<Utc>,
    /// When it ends by itself.
    #[schema(required)]
    pub until: Option<Utc>,
    /// Where it is written, if it is from a file.
    #[schema(required)]
    pub origin: Option<Place>,
    /// Whether it applies.
    pub in_force: bool,
    /// Why it does not, if it does not.
    #[schema(required)]
    pub reason: Option<String>,
}

/// Where an override comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = OverrideSource)]
pub enum Source {
    /// Somebody made it while the server ran.
    RunTime,
    /// It is written in a file.
    File,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, from 1.
    #[schema(minimum = 1)]
    pub line: u32,
}

/// Some of the overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OverridesPage)]
pub struct Page {
    /// By limit and then id. An id that has one from a file and one that was made at run time has
    /// both: first the one that was made, which applies.
    pub overrides: Vec<ListedOverride>,
    /// What to ask for to read on; none at the end.
    #[schema(required)]
    pub next: Option<String>,
}

impl ServerEngine {
    /// Overrides from files and from run time, of one limit or of all, after where a page ended:
    /// about `max` of them, and never more than [`OVERRIDES_PAGE_MAX`] and one.
    pub(crate) fn overrides(&self, limit: Option<&str>, after: Option<&str>, max: usize) -> Page {
        self.active_overrides.load().page(limit, after, max.clamp(1, OVERRIDES_PAGE_MAX))
    }

    /// The override that was made at run time and is in force for an id, in any spelling.
    pub(crate) fn override_of(&self, limit: &str, id: &str) -> Option<Arc<RunTimeOverride>> {
        let snapshot = self.active_overrides.load();
        let id = snapshot.named(limit)?.canonical_id(id).ok()?;
        snapshot.in_force(limit, &id).cloned()
    }

    /// The last records of the audit, at most [`AUDIT_LAST_MAX`](super::AUDIT_LAST_MAX), the newest
    /// last. Fails where the file cannot be read.
    pub(crate) fn audit(&self, last: usize) -> std::io::Result<Vec<Record>> {
        self.active_overrides.ledger.last(last)
    }
}

impl Snapshot {
    fn page(&self, limit: Option<&str>, after: Option<&str>, max: usize) -> Page {
        // No limit has a colon in its name, so the first is where the id begins.
        let after = after.map(|after| after.split_once(':').unwrap_or((after, "")));
        let start = after.into_iter().chain(limit.map(|limit| (limit, ""))).max();
        let start = start.unwrap_or_default();
        let is_wanted = |name: &str| limit.is_none_or(|limit| limit == name);
        let mut made = self.table.after(start.0, start.1).iter().peekable();
        let mut written = Written::after(&self.base, start).peekable();
        let mut page = Page { overrides: Vec::new(), next: None };
        while let Some(key) = next_key(&mut made, &mut written).filter(|key| is_wanted(key.0)) {
            if page.overrides.len() >= max {
                page.next = page.overrides.last().map(|it| format!("{}:{}", it.limit, it.id));
                break;
            }
            let made = made.next_if(|over| (&*over.limit, &*over.id) == key);
            let written = written.next_if(|(named, over)| (named.name(), &*over.id) == key);
            page.overrides.extend(made.map(|over| self.listed(over)));
            page.overrides.extend(written.map(|(named, over)| {
                let is_replaced = self.in_force(named.name(), &over.id).is_some();
                ListedOverride::of_file(named, over, is_replaced)
            }));
        }
        page
    }

    fn listed(&self, over: &RunTimeOverride) -> ListedOverride {
        let reason = self.dormancy(&over.limit, &over.id).map(|dormant| match dormant {
            Dormant::Over => "it has ended",
            Dormant::DoesNotFit(reason) => reason,
        });
        ListedOverride::of_run_time(over, reason)
    }
}

/// The smaller of the two that come next.
fn next_key<'a>(
    made: &mut Peekable<slice::Iter<'a, Arc<RunTimeOverride>>>,
    written: &mut Peekable<Written<'a>>,
) -> Option<(&'a str, &'a str)> {
    let made = made.peek().map(|over| (&*over.limit, &*over.id));
    let written = written.peek().map(|(named, over)| (named.name(), &*over.id));
    made.into_iter().chain(written).min()
}

/// The overrides of the files, by limit and then id.
struct Written<'a> {
    /// By name, and those that are still to come last first.
    names: Vec<&'a NamedLimit>,
    now: Option<(&'a NamedLimit, slice::Iter<'a, Override>)>,
}

impl<'a> Written<'a> {
    fn after(limits: &'a Limits, (limit, id): (&str, &str)) -> Self {
        let has_some = |named: &&NamedLimit| !named.overrides().is_empty();
        let mut names: Vec<_> =
            limits.iter().filter(has_some).filter(|named| named.name() >= limit).collect();
        names.sort_by(|a, b| b.name().cmp(a.name()));
        let mut all = Self { names, now: None };
        if let Some(first) = all.names.pop_if(|named| named.name() == limit) {
            let start = first.overrides().partition_point(|over| &*over.id <= id);
            all.now = Some((first, first.overrides().get(start..).unwrap_or_default().iter()));
        }
        all
    }
}

impl<'a> Iterator for Written<'a> {
    type Item = (&'a NamedLimit, &'a Override);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((named, overrides)) = &mut self.now
                && let Some(over) = overrides.next()
            {
                return Some((*named, over));
            }
            let named = self.names.pop()?;
            self.now = Some((named, named.overrides().iter()));
        }
    }
}

impl ListedOverride {
    /// One that was made at run time; `reason` says why it is not in force, if it is not.
    pub(super) fn of_run_time(over: &RunTimeOverride, reason: Option<&str>) -> Self {
        Self {
            why: Some(over.why.to_string()),
            by: Some(over.by.to_string()),
            at: Some(Utc(over.at)),
            until: over.until.map(Utc),
            in_force: reason.is_none(),
            reason: reason.map(str::to_owned),
            ..Self::new(&over.limit, &over.id, &over.terms, Source::RunTime)
        }
    }

    fn of_file(named: &NamedLimit, over: &Override, is_replaced: bool) -> Self {
        Self {
            why: over.comment.as_deref().map(str::to_owned),
            origin: Some(Place::from(&over.origin)),
            in_force: !is_replaced,
            reason: is_replaced.then(|| "one that was made at run time applies".to_owned()),
            ..Self::new(named.name(), &over.id, &over.limit, Source::File)
        }
    }

    fn new(limit: &str, id: &str, terms: &Limit, source: Source) -> Self {
        let period = terms.period();
        Self {
            limit: limit.to_owned(),
            id: id.to_owned(),
            burst: terms.burst(),
            count: terms.count(),
            period: Seconds(period),
            period_ns: u64::try_from(period.get()).unwrap_or(u64::MAX),
            terms: terms.to_string(),
            source,
            why: None,
            by: None,
            at: None,
            until: None,
            origin: None,
            in_force: true,
            reason: None,
        }
    }
}

impl From<&Origin> for Place {
    fn from(origin: &Origin) -> Self {
        Self { file: origin.file().to_owned(), line: origin.line() }
    }
}
