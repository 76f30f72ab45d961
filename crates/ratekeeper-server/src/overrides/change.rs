//! Making and removing overrides.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use ratekeeper::limits::Limit;
use ratekeeper::{Moment, Nanos};
use serde::Serialize;
use utoipa::ToSchema;

use super::active_overrides::{Recording, Snapshot};
use super::audit::{Action, Record};
use super::error::{OverrideError, Refused};
use super::list::ListedOverride;
use super::notation;
use super::step::{Step, check_length, check_why, not_found};
use super::table::{RunTimeOverride, Table};
use super::{BY_BYTES_MAX, RUN_TIME_OVERRIDES_MAX};
use crate::engine::ServerEngine;
use crate::transport::Time;

/// An override that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOverride {
    /// The name of the limit.
    pub limit: String,
    /// The id, in any spelling.
    pub id: String,
    /// How many tokens a full bucket holds.
    pub burst: u64,
    /// How many tokens come back in a period.
    pub count: u64,
    /// How long that takes.
    pub period: Nanos,
    /// Why.
    pub why: String,
    /// When it ends by itself, if it does.
    pub until: Option<Moment>,
    /// Whether it may allow less than the id is allowed now.
    pub may_lower: bool,
}

/// Who makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// A name, such as that of a token.
    pub by: &'a str,
    /// The address that the change came from.
    pub from: Option<IpAddr>,
}

/// What a change of one override did, or would do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Changed {
    /// The override; for a removal, the one that was removed.
    #[serde(rename = "override")]
    pub over: ListedOverride,
    /// What the id was allowed before.
    #[serde(serialize_with = "notation::terms")]
    #[schema(required, value_type = Option<String>)]
    pub before: Option<Limit>,
    /// What it is allowed now.
    #[serde(serialize_with = "notation::terms")]
    #[schema(required, value_type = Option<String>)]
    pub after: Option<Limit>,
    /// The same in words.
    pub change: String,
    /// Whether it is allowed less than before.
    pub lowers: bool,
    /// Whether this only tells what would be.
    pub dry_run: bool,
    /// Whether it outlives the process.
    pub durable: bool,
}

impl ServerEngine {
    /// Makes an override, or changes it. Refuses terms that cannot be, and such that lower what is in
    /// force unless that is allowed. It is made at what `time` says to people, and takes effect at what
    /// it says to buckets.
    pub(crate) fn put_override(
        &self,
        new: NewOverride,
        who: Who<'_>,
        is_dry_run: bool,
        time: &dyn Time,
    ) -> Result<Changed, OverrideError> {
        let missing = not_found(&new.limit, &new.id);
        let changed = self.put(vec![new], Action::Put, who, is_dry_run, time);
        changed.map_err(|refused| refused.error)?.pop().ok_or(missing)
    }

    /// Makes or changes many, all of them or none.
    pub(crate) fn put_overrides(
        &self,
        many: Vec<NewOverride>,
        who: Who<'_>,
        is_dry_run: bool,
        time: &dyn Time,
    ) -> Result<Vec<Changed>, Refused> {
        self.put(many, Action::Import, who, is_dry_run, time)
    }

    fn put(
        &self,
        many: Vec<NewOverride>,
        action: Action,
        who: Who<'_>,
        is_dry_run: bool,
        time: &dyn Time,
    ) -> Result<Vec<Changed>, Refused> {
        check_length("by", who.by, BY_BYTES_MAX)?;
        let recording = self.active_overrides.record();
        let (old, at) = (recording.load(), time.wall());
        let mut steps = Vec::with_capacity(many.len().min(RUN_TIME_OVERRIDES_MAX));
        for (place, new) in many.into_iter().enumerate() {
            let step = old.step(new, action, who, at);
            let step = step.and_then(|step| self.countable(step));
            steps.push(step.map_err(|error| Refused { at: Some(place), error })?);
        }
        refuse_twice(&steps)?;
        let table = old.table.with(steps.iter().map(|step| Arc::clone(&step.over)).collect());
        if table.len() > RUN_TIME_OVERRIDES_MAX {
            return Err(OverrideError::TooMany { overrides: table.len() }.into());
        }
        let next = old.with_table(table, at);
        for (place, step) in steps.iter().enumerate() {
            next.fits(&step.over).map_err(|error| Refused { at: Some(place), error })?;
        }
        Ok(self.make(&recording, &next, &steps, (who, at), is_dry_run, time)?)
    }

    /// A step, unless the store that is shared cannot count what it makes.
    fn countable(&self, step: Step) -> Result<Step, OverrideError> {
        if self.stores.shared.is_some() {
            ratekeeper_redis::Rule::new(step.over.terms.rule())
                .map_err(|source| OverrideError::TooSlow { source })?;
        }
        Ok(step)
    }

    /// Removes an override that was made at run time. Never refuses because that lowers what the id
    /// is allowed. An id can be removed as it was listed, also if its limit is gone.
    pub(crate) fn remove_override(
        &self,
        limit: &str,
        id: &str,
        why: &str,
        who: Who<'_>,
        is_dry_run: bool,
        time: &dyn Time,
    ) -> Result<Changed, OverrideError> {
        check_why(why)?;
        check_length("by", who.by, BY_BYTES_MAX)?;
        let recording = self.active_overrides.record();
        let (old, at) = (recording.load(), time.wall());
        let over = old.find(limit, id)?;
        let table = old.table.without(|other| *other == *over);
        let next = old.with_table(table, at);
        let (before, after) = (old.applied(&over), next.applied(&over));
        let step = Step { over, action: Action::Delete, why: why.into(), before, after };
        let mut changed = self.make(&recording, &next, &[step], (who, at), is_dry_run, time)?;
        changed.pop().ok_or_else(|| not_found(limit, id))
    }

    /// Keeps a change, puts it in force, and tells what it did.
    fn make(
        &self,
        recording: &Recording<'_>,
        next: &Snapshot,
        steps: &[Step],
        (who, at): (Who<'_>, Moment),
        is_dry_run: bool,
        time: &dyn Time,
    ) -> Result<Vec<Changed>, OverrideError> {
        let is_durable = recording.ledger().is_durable();
        let changed = steps.iter().map(|step| step.changed(is_dry_run, is_durable)).collect();
        if is_dry_run || steps.is_empty() {
            return Ok(changed);
        }
        let records = steps.iter().map(|step| step.record(who, at)).collect();
        self.keep_and_apply(recording, &next.table, records, (at, time))?;
        Ok(changed)
    }

    /// Keeps what overrides will be, and then puts it in force. If anything fails, nothing changes.
    ///
    /// While a disk is written to, files may be reloaded and overrides may end: what is put in force is
    /// made of what the files say then, at `at` or when the disk is done.
    pub(super) fn keep_and_apply(
        &self,
        recording: &Recording<'_>,
        table: &Table,
        records: Vec<Record>,
        (at, time): (Moment, &dyn Time),
    ) -> Result<(), OverrideError> {
        let (ledger, old) = (recording.ledger(), recording.load());
        let entry = ledger.prepare(table, records).map_err(OverrideError::Storage)?;
        let committed = ledger.commit(&entry).map_err(OverrideError::Storage);
        let applied = committed.and_then(|()| {
            let changing = self.active_overrides.change();
            let next = changing.load().with_table(table.clone(), at.max(time.wall()));
            self.apply(&changing, next, time.now(), |swap| swap()).map_err(OverrideError::from)
        });
        match applied {
            Ok(()) => ledger.tell(entry),
            Err(error) => {
                ledger.undo(&entry, &old.table);
                return Err(error);
            }
        }
        Ok(())
    }
}

fn refuse_twice(steps: &[Step]) -> Result<(), Refused> {
    let mut seen = HashSet::with_capacity(steps.len());
    for (place, step) in steps.iter().enumerate() {
        let RunTimeOverride { limit, id, .. } = &*step.over;
        if !seen.insert((limit, id)) {
            let (limit, id) = (limit.to_string(), id.to_string());
            return Err(Refused { at: Some(place), error: OverrideError::Twice { limit, id } });
        }
    }
    Ok(())
}
