//! Looking: which limits there are, how full a bucket is, and why an ask is answered as it is.

use axum::http::Uri;
use ratekeeper::algorithm::OnFull;
use ratekeeper::algorithm::gcra::BURST_MAX;
use ratekeeper::limits::document::nearest;
use ratekeeper::limits::{Limit, Limits, NamedLimit, Origin};
use ratekeeper::{Decision, Explanation, Mistake};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::address::{self, InPath};
use super::app::Inside;
use super::body;
use super::decide::{Answer, COST_DEFAULT};
use super::decision::{LimitBody, StateBody, seconds};
use super::fields;
use super::problem::{self, Problem};
use crate::overrides::{Place, RunTimeOverride, Utc};

/// How many limits one page of them can have.
pub(super) const PAGE_MAX: usize = 1000;

/// Some of the limits.
#[derive(Serialize, ToSchema)]
#[schema(as = Limits)]
pub(super) struct LimitsPage {
    /// By name.
    limits: Vec<ListedLimit>,
    /// What to ask for with `after` to read on; null at the end.
    #[schema(required)]
    next: Option<String>,
}

/// A limit, as it is in force.
#[derive(Serialize, ToSchema)]
pub struct ListedLimit {
    name: String,
    /// The number that stands for the name in the keys of buckets, if it has one.
    #[schema(required)]
    number: Option<u32>,
    /// What its ids look like.
    #[schema(value_type = String, examples("ipAddress"))]
    id_format: &'static str,
    /// How many tokens a full bucket holds; null, as the next four, if there is no default.
    #[schema(required)]
    burst: Option<u64>,
    /// How many tokens come back in a period.
    #[schema(required)]
    count: Option<u64>,
    /// The period in seconds.
    #[schema(required, value_type = Option<f64>, minimum = 0)]
    period: Option<Box<RawValue>>,
    /// The same in nanoseconds.
    #[schema(required, value_type = Option<u64>)]
    period_ns: Option<u128>,
    /// The same in words.
    #[schema(required, examples("300 per 3h"))]
    terms: Option<String>,
    /// Whether it never denies.
    shadow: bool,
    /// Whether it is a bucket that everybody shares.
    is_bucket: bool,
    /// How many ordinary shares of memory it has, once memory is full.
    #[schema(value_type = f64, minimum = 0.01, maximum = 1000)]
    share: f64,
    /// What becomes of a new id of it that finds no room in its share.
    on_full: OnFullName,
    /// How many overrides are in force.
    overrides: usize,
    /// Where the default is written.
    #[schema(required)]
    origin: Option<Place>,
}

/// What becomes of a new id where a limit holds its share of a full memory.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OnFull)]
pub(super) enum OnFullName {
    /// It is denied, until another id of the limit has all its tokens back.
    Deny,
    /// Another id of the limit is forgotten for it.
    Forget,
}

/// A bucket, as it is.
#[derive(Serialize, ToSchema)]
#[schema(as = Bucket)]
pub(super) struct BucketBody {
    limit: LimitBody,
    /// The id in its one spelling.
    id: String,
    /// The key of the bucket.
    bucket: String,
    #[serde(flatten)]
    level: Level,
    /// Seconds until it has one more token; 0 if it is full.
    #[schema(value_type = f64, minimum = 0)]
    next_in: Box<RawValue>,
    /// The same in nanoseconds.
    #[schema(value_type = u64, format = "uint128")]
    next_in_ns: u128,
}

/// How full a bucket is.
#[derive(Serialize, ToSchema)]
pub(super) struct Level {
    /// How many tokens are left.
    remaining: u64,
    /// Seconds until the bucket is full.
    #[schema(value_type = f64, minimum = 0)]
    reset_in: Box<RawValue>,
    /// The same in nanoseconds.
    #[schema(value_type = u64, format = "uint128")]
    reset_in_ns: u128,
}

/// What applies to an id and why, and what an ask would be answered.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub struct ExplanationBody {
    limit: LimitBody,
    /// The id in its one spelling.
    id: String,
    /// The key of the bucket.
    bucket: String,
    /// The cost that was asked about.
    cost: u64,
    applies: TermsBody,
    /// What would apply without an override, if anything.
    #[schema(required)]
    default: Option<TermsBody>,
    now: Level,
    answer: StateBody,
    /// The whole of it for people.
    text: String,
}

/// How much is allowed, and who says so.
#[derive(Serialize, ToSchema)]
#[schema(as = Terms)]
pub(super) struct TermsBody {
    kind: TermsKind,
    /// How many tokens a full bucket holds.
    burst: u64,
    /// How many tokens come back in a period.
    count: u64,
    /// The period in seconds.
    #[schema(value_type = f64, minimum = 0)]
    period: Box<RawValue>,
    /// The same in nanoseconds.
    #[schema(value_type = u64)]
    period_ns: u128,
    /// The same in words.
    #[schema(examples("300 per 3h"))]
    terms: String,
    /// Where it is written, if it is.
    #[schema(required)]
    origin: Option<Place>,
    /// Who made it while the server ran, if somebody did.
    #[schema(required)]
    run_time: Option<RunTime>,
    /// What the file says about it.
    #[schema(required)]
    comment: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum TermsKind {
    Default,
    Override,
}

/// Who made an override while the server ran.
#[derive(Serialize, ToSchema)]
pub(super) struct RunTime {
    by: String,
    at: Utc,
    /// When it ends by itself, if it does.
    #[schema(required)]
    until: Option<Utc>,
    why: String,
}

/// The limits, page by page
#[utoipa::path(get, path = "/v1/limits", tag = "look", security(("token" = ["read"])),
    params(("after" = Option<String>, Query, description = "The name after which to begin: `next` of the page before.")),
    responses((status = 200, description = "At most 1000 of them", body = LimitsPage)))]
pub(super) async fn limits(Inside(admin): Inside, uri: Uri) -> Answer {
    let [after] = address::query(&uri, ["after"])?;
    let limits = &admin.engine.active_overrides.load().limits;
    Ok(body::json(&LimitsPage::new(limits, after.as_deref().unwrap_or(""))))
}

/// One limit
#[utoipa::path(get, path = "/v1/limits/{name}", tag = "look", security(("token" = ["read"])),
    params(("name" = String, Path, description = "The name of the limit.", min_length = 1, example = "LoginsPerUser")),
    responses(
        (status = 200, description = "It is there", body = ListedLimit),
        (status = 404, description = "There is no such limit: `no-such-limit`")))]
pub(super) async fn limit(Inside(admin): Inside, InPath(name): InPath<String>, uri: Uri) -> Answer {
    let [] = address::query(&uri, [])?;
    let limits = &admin.engine.active_overrides.load().limits;
    Ok(body::json(&ListedLimit::from(named(limits, &name, "name")?)))
}

/// The limit of that name. `field` is where the name was said.
pub(super) fn named<'a>(
    limits: &'a Limits,
    name: &str,
    field: &str,
) -> Result<&'a NamedLimit, Problem> {
    limits.named(name).ok_or_else(|| {
        let nearest = nearest(name, limits.iter().map(NamedLimit::name)).map(str::to_owned);
        let mistake = Mistake::UnknownLimit { name: name.to_owned(), nearest };
        Problem::field(&problem::NO_SUCH_LIMIT, field, mistake)
    })
}

/// How full a bucket is, without touching it
#[utoipa::path(get, path = "/v1/buckets/{limit}/{id}", tag = "look", security(("token" = ["read"])),
    params(
        ("limit" = String, Path, description = "The name of the limit.", min_length = 1, example = "LoginsPerUser"),
        ("id" = String, Path, description = "Whom it counts for, percent-encoded.", min_length = 1, example = "ada")),
    responses(
        (status = 200, description = "As it is now", body = BucketBody),
        (status = 404, description = "There is no such limit: `no-such-limit`"),
        (status = 422, description = "There is no such bucket: `bad-id`, `no-default`")))]
pub(super) async fn bucket(
    Inside(admin): Inside,
    InPath((limit, id)): InPath<(String, String)>,
    uri: Uri,
) -> Answer {
    let [] = address::query(&uri, [])?;
    // Nobody asked for anything, so whoever counts asks is not told.
    let limiter = &admin.engine.stores.limiter;
    let told = limiter.wherever().explain(&limit, &id, 0, admin.time.now()).await;
    let told = told.map_err(|mistake| Problem::in_path(&mistake))?;
    let next_in = fields::next_in(&told.terms, &told.before);
    Ok(body::json(&BucketBody {
        limit: LimitBody::explained(&told),
        level: Level::from(&told.before),
        next_in: seconds(next_in),
        next_in_ns: next_in.get(),
        id: told.id,
        bucket: told.bucket,
    }))
}

/// Why an ask would be answered as it would be
#[utoipa::path(get, path = "/v1/explain/{limit}/{id}", tag = "look", security(("token" = ["read"])),
    params(
        ("limit" = String, Path, description = "The name of the limit.", min_length = 1, example = "LoginsPerUser"),
        ("id" = String, Path, description = "Whom it counts for, percent-encoded.", min_length = 1, example = "ada"),
        ("cost" = Option<u64>, Query, description = "How many tokens are asked for; 1 if nothing is said.",
            minimum = 0, maximum = 4_294_967_296_u64)),
    responses(
        (status = 200, description = "What applies, and the arithmetic", body = ExplanationBody),
        (status = 404, description = "There is no such limit: `no-such-limit`"),
        (status = 422, description = "It could not be answered: `bad-id`, `no-default`, `cost-above-burst`")))]
pub(super) async fn explain(
    Inside(admin): Inside,
    InPath((limit, id)): InPath<(String, String)>,
    uri: Uri,
) -> Answer {
    let [cost] = address::query(&uri, ["cost"])?;
    let cost = address::number("cost", cost.as_deref(), BURST_MAX, COST_DEFAULT)?;
    let engine = &admin.engine;
    let limiter = engine.stores.limiter.wherever();
    let told = limiter.explain(&limit, &id, cost, admin.time.now()).await;
    let told = told.map_err(|mistake| Problem::in_path(&mistake))?;
    // One from a file has a place there.
    let is_made = told.is_override && told.origin.as_ref().is_none_or(|it| it.line() == 0);
    let made = is_made.then(|| engine.override_of(&told.limit, &told.id)).flatten();
    Ok(body::json(&ExplanationBody::new(told, made.as_deref())))
}

impl LimitsPage {
    /// Those that come after a name. The order is that of names, so that a reload between two pages
    /// shifts nothing.
    fn new(limits: &Limits, after: &str) -> Self {
        let mut later: Vec<&NamedLimit> =
            limits.iter().filter(|named| named.name() > after).collect();
        later.sort_unstable_by_key(|named| named.name());
        let has_more = later.len() > PAGE_MAX;
        later.truncate(PAGE_MAX);
        let next = later.last().filter(|_| has_more).map(|named| named.name().to_owned());
        Self { limits: later.into_iter().map(ListedLimit::from).collect(), next }
    }
}

impl From<&NamedLimit> for ListedLimit {
    fn from(named: &NamedLimit) -> Self {
        let default = named.default();
        let terms = default.map(|default| &default.limit);
        Self {
            name: named.name().to_owned(),
            number: named.number(),
            id_format: named.id_format().name(),
            burst: terms.map(Limit::burst),
            count: terms.map(Limit::count),
            period: terms.map(|terms| seconds(terms.period())),
            period_ns: terms.map(|terms| terms.period().get()),
            terms: terms.map(ToString::to_string),
            shadow: named.is_shadow(),
            is_bucket: named.is_bucket(),
            share: named.share().weight(),
            on_full: match named.share().on_full() {
                OnFull::Deny => OnFullName::Deny,
                OnFull::Forget => OnFullName::Forget,
            },
            overrides: named.overrides().len(),
            origin: default.and_then(|default| place(&default.origin)),
        }
    }
}

impl From<&Decision> for Level {
    fn from(decision: &Decision) -> Self {
        Self {
            remaining: decision.remaining,
            reset_in: seconds(decision.reset_in),
            reset_in_ns: decision.reset_in.get(),
        }
    }
}

impl ExplanationBody {
    /// What applies to an id, and why. `made` is the override, if it was made while the server ran.
    pub fn new(told: Explanation, made: Option<&RunTimeOverride>) -> Self {
        let text = told.to_string();
        let limit = LimitBody::explained(&told);
        let (now, answer) = (Level::from(&told.before), StateBody::new(&told.answer));
        let default =
            told.default.as_ref().map(|(terms, origin)| TermsBody::of_default(terms, origin));
        let kind = if told.is_override { TermsKind::Override } else { TermsKind::Default };
        let applies = TermsBody {
            origin: told.origin.as_ref().and_then(place),
            run_time: made.map(RunTime::from),
            comment: told.comment.filter(|_| told.is_override && made.is_none()),
            ..TermsBody::new(kind, &told.terms)
        };
        let Explanation { id, bucket, cost, .. } = told;
        Self { limit, id, bucket, cost, applies, default, now, answer, text }
    }
}

impl TermsBody {
    fn of_default(terms: &Limit, origin: &Origin) -> Self {
        Self { origin: place(origin), ..Self::new(TermsKind::Default, terms) }
    }

    fn new(kind: TermsKind, terms: &Limit) -> Self {
        Self {
            kind,
            burst: terms.burst(),
            count: terms.count(),
            period: seconds(terms.period()),
            period_ns: terms.period().get(),
            terms: terms.to_string(),
            origin: None,
            run_time: None,
            comment: None,
        }
    }
}

impl From<&RunTimeOverride> for RunTime {
    fn from(over: &RunTimeOverride) -> Self {
        Self {
            by: over.by.to_string(),
            at: Utc(over.at),
            until: over.until.map(Utc),
            why: over.why.to_string(),
        }
    }
}

/// Where something is written, if it is written in a file.
fn place(origin: &Origin) -> Option<Place> {
    (origin.line() > 0).then(|| Place::from(origin))
}
