//! Overrides: reading them, and making, changing and removing them while the server runs.

use std::sync::Arc;

use axum::Extension;
use axum::http::Uri;
use ratekeeper::limits::parse_duration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::address::{self, InPath};
use super::app::Inside;
use super::body::{self, Object, Whole, length, present, whole};
use super::connection::Caller;
use super::decide::Answer;
use super::problem::{self, Problem};
use super::schema::{NewOverrideSchema, NewOverridesSchema};
use crate::admin::ServerAdmin;
use crate::overrides::{
    AUDIT_LAST_MAX, Changed, NewOverride, OVERRIDES_PAGE_MAX, OverrideError, Page,
    RUN_TIME_OVERRIDES_MAX, Record, Refused, Utc, Who,
};

/// Where many of them are put at once.
pub(super) const MANY_PATH: &str = "/v1/overrides";
/// How large a body may be there: enough for as many as there can be, with short reasons. Only the
/// operator gets so far.
pub(super) const IMPORT_BYTES_MAX: usize = 16 << 20;

/// How many records of the audit are read if nothing is said.
const AUDIT_LAST_DEFAULT: u64 = 100;

/// An override, but for whom.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    #[serde(deserialize_with = "whole")]
    burst: u64,
    #[serde(deserialize_with = "whole")]
    count: u64,
    #[serde(deserialize_with = "length")]
    period: String,
    why: String,
    #[serde(default, deserialize_with = "present")]
    until: Option<String>,
    #[serde(default)]
    lower: bool,
}

/// Many of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutMany {
    overrides: Vec<Object<PutOne>>,
    #[serde(default)]
    lower: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutOne {
    limit: String,
    id: String,
    #[serde(deserialize_with = "whole")]
    burst: u64,
    #[serde(deserialize_with = "whole")]
    count: u64,
    #[serde(deserialize_with = "length")]
    period: String,
    why: String,
    #[serde(default, deserialize_with = "present")]
    until: Option<String>,
}

/// What a change of many did.
#[derive(Serialize, ToSchema)]
#[schema(as = Changes)]
pub(super) struct ChangesBody {
    /// In the order in which they were sent.
    changes: Vec<Changed>,
    /// Whether this only tells what would be.
    dry_run: bool,
    /// Whether they outlive the process.
    durable: bool,
}

/// Who changed what.
#[derive(Serialize, ToSchema)]
pub(super) struct AuditRecords {
    /// The newest last.
    records: Vec<Record>,
}

/// The overrides, from files and from run time, page by page
#[utoipa::path(get, path = "/v1/overrides", tag = "overrides", security(("token" = ["read"])),
    params(
        ("limit" = Option<String>, Query, description = "Only those of this limit."),
        ("after" = Option<String>, Query, description = "Where to begin: `next` of the page before.")),
    responses(
        (status = 200, description = "About 1000 of them", body = Page),
        (status = 404, description = "There is no such limit, and no override of it: `no-such-limit`")))]
pub(super) async fn overrides(Inside(admin): Inside, uri: Uri) -> Answer {
    let [limit, after] = address::query(&uri, ["limit", "after"])?;
    let (limit, after) = (limit.as_deref(), after.as_deref());
    let page = admin.engine.overrides(limit, after, OVERRIDES_PAGE_MAX);
    // Overrides of a limit that went away are there still, and listed.
    if let Some(limit) = limit.filter(|_| page.overrides.is_empty()) {
        let limits = &admin.engine.active_overrides.load().limits;
        super::limits::named(limits, limit, "limit")?;
    }
    Ok(body::json(&page))
}

/// Make an override, or change it
///
/// It is in force, and on the disk if there is a state directory, when this answers. What was spent
/// stays spent. To allow an id less than now, say `lower`.
#[utoipa::path(put, path = "/v1/overrides/{limit}/{id}", tag = "overrides", security(("token" = ["admin"])),
    request_body = NewOverrideSchema,
    params(
        ("limit" = String, Path, description = "The name of the limit.", min_length = 1, example = "LoginsPerUser"),
        ("id" = String, Path, description = "Whom it is for, percent-encoded.", min_length = 1, example = "ada"),
        ("dry_run" = Option<bool>, Query, description = "Only tell what would change.")),
    responses(
        (status = 200, description = "What it did, or would do", body = Changed),
        (status = 404, description = "There is no such limit: `no-such-limit`"),
        (status = 409, description = "Not as things are: `would-lower`, `too-many`"),
        (status = 422, description = "It cannot be: `bad-id`, `bad-override`, `not-overridable`"),
        (status = 507, description = "It could not be kept, so it was not made: `storage`")))]
pub(super) async fn put_override(
    Inside(admin): Inside,
    InPath((limit, id)): InPath<(String, String)>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    Whole(bytes): Whole,
) -> Answer {
    let [dry_run] = address::query(&uri, ["dry_run"])?;
    let dry_run = address::flag("dry_run", dry_run.as_deref())?;
    let Put { burst, count, period, why, until, lower } = body::parse(&bytes)?;
    let one = PutOne { limit, id, burst, count, period, why, until };
    let new = one.read(lower, "")?;
    let changed = on_disk(admin, move |admin| {
        admin.engine.put_override(new, caller.who(), dry_run, &*admin.time)
    });
    let changed = changed.await?.map_err(|error| refusal(&error, "", Target::Path))?;
    Ok(body::json(&changed))
}

/// Make or change many overrides, all of them or none
#[utoipa::path(put, path = "/v1/overrides", tag = "overrides", security(("token" = ["admin"])),
    request_body = NewOverridesSchema,
    params(("dry_run" = Option<bool>, Query, description = "Only tell what would change.")),
    responses(
        (status = 200, description = "What it did, or would do", body = ChangesBody),
        (status = 409, description = "Not as things are: `would-lower`, `too-many`"),
        (status = 422, description = "One of them cannot be: `unknown-limit`, `bad-id`, `bad-override`, \
            `not-overridable`"),
        (status = 507, description = "They could not be kept, so they were not made: `storage`")))]
pub(super) async fn put_overrides(
    Inside(admin): Inside,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    Whole(bytes): Whole,
) -> Answer {
    let [dry_run] = address::query(&uri, ["dry_run"])?;
    let dry_run = address::flag("dry_run", dry_run.as_deref())?;
    let PutMany { overrides, lower } = body::parse(&bytes)?;
    if overrides.len() > RUN_TIME_OVERRIDES_MAX {
        let error = OverrideError::TooMany { overrides: overrides.len() };
        return Err(refusal(&error, "", Target::Body));
    }
    let mut many = Vec::with_capacity(overrides.len());
    for (place, Object(one)) in overrides.into_iter().enumerate() {
        many.push(one.read(lower, &format!("overrides[{place}]."))?);
    }
    let durable = admin.engine.active_overrides.counts().durable;
    let changed = on_disk(admin, move |admin| {
        admin.engine.put_overrides(many, caller.who(), dry_run, &*admin.time)
    });
    let made = changed.await?.map_err(|Refused { at, error }| {
        let at = at.map_or_else(String::new, |place| format!("overrides[{place}]."));
        refusal(&error, &at, Target::Body)
    })?;
    Ok(body::json(&ChangesBody { changes: made, dry_run, durable }))
}

/// Remove an override that was made at run time
#[utoipa::path(delete, path = "/v1/overrides/{limit}/{id}", tag = "overrides", security(("token" = ["admin"])),
    params(
        ("limit" = String, Path, description = "The name of the limit.", min_length = 1, example = "LoginsPerUser"),
        ("id" = String, Path, description = "Whom it is for, percent-encoded.", min_length = 1, example = "ada"),
        ("why" = String, Query, description = "Why, for whoever reads the audit.",
            min_length = 1, max_length = 1024, pattern = r"\S", example = "the campaign is over"),
        ("dry_run" = Option<bool>, Query, description = "Only tell what would change.")),
    responses(
        (status = 200, description = "What it did, or would do; `override` is the one that was removed", body = Changed),
        (status = 404, description = "There is nothing to remove: `no-such-limit`, `no-such-override`"),
        (status = 409, description = "Not as things are: `only-in-file`, `too-many`"),
        (status = 422, description = "It cannot be: `bad-id`, `bad-override`, `not-overridable`"),
        (status = 507, description = "It could not be kept, so it was not removed: `storage`")))]
pub(super) async fn remove_override(
    Inside(admin): Inside,
    InPath((limit, id)): InPath<(String, String)>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Answer {
    let [why, dry_run] = address::query(&uri, ["why", "dry_run"])?;
    let why = why.ok_or_else(|| address::bad("why", OverrideError::NoWhy))?;
    let dry_run = address::flag("dry_run", dry_run.as_deref())?;
    let changed = on_disk(admin, move |admin| {
        admin.engine.remove_override(&limit, &id, &why, caller.who(), dry_run, &*admin.time)
    });
    let changed = changed.await?.map_err(|error| refusal(&error, "", Target::Path))?;
    Ok(body::json(&changed))
}

/// Who changed which override, when and why
#[utoipa::path(get, path = "/v1/audit", tag = "overrides", security(("token" = ["admin"])),
    params(("last" = Option<u64>, Query, description = "How many records; 100 if nothing is said.",
        minimum = 0, maximum = 1000)),
    responses(
        (status = 200, description = "The last changes, the newest last", body = AuditRecords),
        (status = 507, description = "The file could not be read: `storage`")))]
pub(super) async fn audit(Inside(admin): Inside, uri: Uri) -> Answer {
    let [last] = address::query(&uri, ["last"])?;
    let max = u64::try_from(AUDIT_LAST_MAX).unwrap_or(u64::MAX);
    let last = address::number("last", last.as_deref(), max, AUDIT_LAST_DEFAULT)?;
    let last = usize::try_from(last).unwrap_or(AUDIT_LAST_MAX);
    let records = on_disk(admin, move |admin| admin.engine.audit(last)).await?;
    let failed =
        |error| Problem::new(&problem::STORAGE, format_args!("reading the audit: {error}"));
    Ok(body::json(&AuditRecords { records: records.map_err(failed)? }))
}

impl Caller {
    fn who(&self) -> Who<'_> {
        Who { by: &self.name, from: Some(self.source) }
    }
}

impl PutOne {
    /// The override; `at` is where it is in the body.
    fn read(self, may_lower: bool, at: &str) -> Result<NewOverride, Problem> {
        let bad = |field: &str, detail: String| {
            Problem::field(&problem::BAD_OVERRIDE, format_args!("{at}{field}"), detail)
        };
        let Self { limit, id, burst, count, period, why, until } = self;
        let period = parse_duration(&period).map_err(|error| {
            let detail = format!("`{period}` {error}: expected a time such as 90s, 1.5h or 1h30m, or a number of seconds");
            bad("period", detail)
        })?;
        let until = match until {
            Some(text) => {
                let end: Utc =
                    text.parse().map_err(|error| bad("until", format!("`{text}` is {error}")))?;
                Some(end.0)
            }
            None => None,
        };
        Ok(NewOverride { limit, id, burst, count, period, why, until, may_lower })
    }
}

/// Does what may wait for a disk on another thread, as this one has others to answer.
async fn on_disk<T: Send + 'static>(
    admin: Arc<ServerAdmin>,
    work: impl FnOnce(&ServerAdmin) -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(move || work(&admin)).await;
    done.map_err(|error| {
        tracing::error!(%error, "a change of overrides did not come to its end");
        Problem::new(&problem::STORAGE, "it did not come to its end: see /v1/overrides")
    })
}

/// Where the limit and the id were written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Path,
    Body,
}

/// The problem of a change that was refused; `at` is where it is in the body.
fn refusal(error: &OverrideError, at: &str, target: Target) -> Problem {
    use OverrideError as E;
    let kind = match error {
        E::NoWhy
        | E::TooLong { .. }
        | E::UntilPast { .. }
        | E::Terms { .. }
        | E::TooSlow { .. }
        | E::Twice { .. } => &problem::BAD_OVERRIDE,
        E::UnknownLimit { .. } if target == Target::Path => &problem::NO_SUCH_LIMIT,
        E::UnknownLimit { .. } => &problem::UNKNOWN_LIMIT,
        E::Bucket { .. } | E::DoesNotFit { .. } => &problem::NOT_OVERRIDABLE,
        E::Id { .. } => &problem::BAD_ID,
        E::WouldLower { .. } => &problem::WOULD_LOWER,
        E::NotFound { .. } => &problem::NO_SUCH_OVERRIDE,
        E::OnlyInFile { .. } => &problem::ONLY_IN_FILE,
        E::TooMany { .. } | E::BookFull(_) => &problem::TOO_MANY,
        E::Storage(_) => &problem::STORAGE,
    };
    // The others say their cause themselves.
    let detail = match error {
        E::Storage(_) => crate::with_causes(error),
        _ => error.to_string(),
    };
    let problem = match error.field() {
        // Of many it is said once, for all of them.
        Some(field @ "lower") => Problem::field(kind, field, detail),
        Some(field) => Problem::field(kind, format_args!("{at}{field}"), detail),
        None => Problem::new(kind, detail),
    };
    problem.with_rule(error.rule())
}
