//! One change of one override: whether it can be made, and what is told of it.

use std::sync::Arc;

use ratekeeper::Moment;
use ratekeeper::limits::document::nearest;
use ratekeeper::limits::{Change, Effect, Limit, NamedLimit};

use super::active_overrides::{Dormant, Snapshot};
use super::audit::{Action, Record};
use super::change::{Changed, NewOverride, Who};
use super::error::{Lowered, OverrideError};
use super::list::ListedOverride;
use super::table::RunTimeOverride;
use super::{Utc, WHY_BYTES_MAX};

/// A change that was found to be possible.
pub(super) struct Step {
    pub(super) over: Arc<RunTimeOverride>,
    pub(super) action: Action,
    pub(super) why: Box<str>,
    pub(super) before: Applied,
    pub(super) after: Applied,
}

/// What applies to an id.
#[derive(Clone, Copy)]
pub(super) struct Applied {
    terms: Option<Limit>,
    is_override: bool,
}

impl Snapshot {
    /// What a new override would be, if it can be.
    pub(super) fn step(
        &self,
        new: NewOverride,
        action: Action,
        who: Who<'_>,
        at: Moment,
    ) -> Result<Step, OverrideError> {
        check_why(&new.why)?;
        if let Some(until) = new.until.filter(|until| *until <= at) {
            return Err(OverrideError::UntilPast { until: Utc(until) });
        }
        let named = self.limit(&new.limit)?;
        let NewOverride { limit, id, why, until, may_lower, .. } = new;
        let id = match named.canonical_id(&id) {
            Ok(id) => id,
            Err(source) => return Err(OverrideError::Id { limit, id, source }),
        };
        let terms = Limit::new(new.burst, new.count, new.period)
            .map_err(|source| OverrideError::Terms { source })?;
        let why: Box<str> = why.into();
        let (limit, id, by) = (limit.into(), id.into(), who.by.into());
        let over = RunTimeOverride { limit, id, terms, why: why.clone(), by, at, until };
        let before = self.applied(&over);
        match before.terms {
            Some(before) if terms.is_lower_than(&before) && !may_lower => {
                let (limit, id) = (over.limit.into(), over.id.into());
                let terms = Box::new(Lowered { before, after: terms });
                return Err(OverrideError::WouldLower { limit, id, terms });
            }
            _ => {}
        }
        let after = Applied { terms: Some(terms), is_override: true };
        Ok(Step { over: Arc::new(over), action, why, before, after })
    }

    /// What applies to the id of an override, whether or not that is the override.
    pub(super) fn applied(&self, over: &RunTimeOverride) -> Applied {
        let named = self.limits.named(&over.limit);
        Applied {
            terms: named.and_then(|named| named.limit_for(&over.id)).copied(),
            is_override: named.is_some_and(|named| named.override_for(&over.id).is_some()),
        }
    }

    fn limit(&self, limit: &str) -> Result<&NamedLimit, OverrideError> {
        match self.named(limit) {
            Some(named) if named.is_bucket() => {
                Err(OverrideError::Bucket { limit: limit.to_owned() })
            }
            Some(named) => Ok(named),
            None => {
                let names = self.limits.iter().filter(|it| !it.is_bucket()).map(NamedLimit::name);
                let nearest = nearest(limit, names).map(str::to_owned);
                Err(OverrideError::UnknownLimit { limit: limit.to_owned(), nearest })
            }
        }
    }

    /// The override that is to be removed.
    pub(super) fn find(
        &self,
        limit: &str,
        id: &str,
    ) -> Result<Arc<RunTimeOverride>, OverrideError> {
        if let Some(over) = self.table.find(limit, id) {
            return Ok(Arc::clone(over));
        }
        let named = self.limit(limit)?;
        let canonical = named.canonical_id(id).map_err(|source| OverrideError::Id {
            limit: limit.to_owned(),
            id: id.to_owned(),
            source,
        })?;
        if let Some(over) = self.table.find(limit, &canonical) {
            return Ok(Arc::clone(over));
        }
        match named.override_for(&canonical) {
            Some(over) => Err(OverrideError::OnlyInFile {
                limit: limit.to_owned(),
                id: canonical,
                origin: over.origin.clone(),
            }),
            None => Err(not_found(limit, &canonical)),
        }
    }

    /// Refuses an override that would be made and not be in force.
    pub(super) fn fits(&self, over: &RunTimeOverride) -> Result<(), OverrideError> {
        match self.dormancy(&over.limit, &over.id) {
            Some(Dormant::DoesNotFit(reason)) => {
                Err(OverrideError::DoesNotFit { reason: reason.clone() })
            }
            Some(Dormant::Over) | None => Ok(()),
        }
    }
}

impl Step {
    pub(super) fn changed(&self, is_dry_run: bool, is_durable: bool) -> Changed {
        let (before, after) = (self.before.terms, self.after.terms);
        let lowers = match (before, after) {
            (Some(before), Some(after)) => after.is_lower_than(&before),
            // Asks become errors.
            (Some(_), None) => true,
            (None, _) => false,
        };
        let removed = (self.action == Action::Delete).then_some("it is removed");
        Changed {
            over: ListedOverride::of_run_time(&self.over, removed),
            before,
            after,
            change: self.in_words(),
            lowers,
            dry_run: is_dry_run,
            durable: is_durable,
        }
    }

    fn in_words(&self) -> String {
        let effect = match (self.before, self.after) {
            (
                Applied { terms: before, is_override: false },
                Applied { terms: Some(after), is_override: true },
            ) => Effect::OverrideAdded { before, after },
            (
                Applied { terms: Some(before), is_override: true },
                Applied { terms: after, is_override: false },
            ) => Effect::OverrideRemoved { before, after },
            (Applied { terms: Some(before), .. }, Applied { terms: Some(after), .. }) => {
                Effect::OverrideChanged { before, after }
            }
            // The override did not apply, and goes.
            _ => return format!("{}: nobody is allowed more or less", self.over.limit),
        };
        let (name, id) = (self.over.limit.clone(), Some(self.over.id.clone()));
        Change { name, id, effect }.to_string()
    }

    pub(super) fn record(&self, who: Who<'_>, at: Moment) -> Record {
        let terms = |applied: Applied| applied.terms.map(|terms| terms.to_string());
        Record {
            at: Utc(at),
            by: who.by.to_owned(),
            from: who.from,
            action: self.action,
            limit: self.over.limit.to_string(),
            id: self.over.id.to_string(),
            before: terms(self.before),
            after: terms(self.after),
            why: self.why.to_string(),
            until: self.over.until.map(Utc),
        }
    }
}

pub(super) fn check_why(why: &str) -> Result<(), OverrideError> {
    if why.trim().is_empty() {
        return Err(OverrideError::NoWhy);
    }
    check_length("why", why, WHY_BYTES_MAX)
}

pub(super) fn check_length(
    field: &'static str,
    text: &str,
    max: usize,
) -> Result<(), OverrideError> {
    let bytes = text.len();
    if bytes > max { Err(OverrideError::TooLong { field, bytes, max }) } else { Ok(()) }
}

pub(super) fn not_found(limit: &str, id: &str) -> OverrideError {
    OverrideError::NotFound { limit: limit.to_owned(), id: id.to_owned() }
}
