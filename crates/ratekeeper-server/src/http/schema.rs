//! The shapes of requests, for the document that describes the API: what is read is read by
//! `decide.rs` and `overrides.rs`, which say better what is wrong. Bounds are literals here, as what
//! derives the schemas reads nothing else; a test of the document compares each with its constant.

use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{IntoResponses, ToSchema};

use super::decide::AskMode;
use super::decision::DecisionBody;

/// One ask, or several that are decided as one: if one is denied, none is spent.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = Spend)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum SpendSchema {
    One(OneSchema),
    Many(ManySchema),
}

/// One ask, or several as one transaction.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = Transaction)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum TransactionSchema {
    One(OneSchema),
    Many(PlainManySchema),
}

/// One ask.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = One, example = json!({"limit": "LoginsPerUser", "id": "ada", "cost": 1}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct OneSchema {
    /// The name of the limit.
    #[schema(min_length = 1)]
    limit: String,
    /// Whom it counts for.
    #[schema(min_length = 1)]
    id: String,
    /// How many tokens; 1 if nothing is said.
    #[schema(required = false, minimum = 0, maximum = 4_294_967_296_u64, default = 1)]
    cost: u64,
}

/// Several asks, each with what the transaction does with it.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpendMany)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ManySchema {
    /// Each for a bucket of its own.
    #[schema(min_items = 1, max_items = 256)]
    asks: Vec<AskSchema>,
}

/// Several asks.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Many)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct PlainManySchema {
    /// Each for a bucket of its own.
    #[schema(min_items = 1, max_items = 256)]
    asks: Vec<OneSchema>,
}

/// One ask of several.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Ask, example = json!({"limit": "LoginsPerUser", "id": "ada", "cost": 1, "mode": "check-and-spend"}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct AskSchema {
    /// The name of the limit.
    #[schema(min_length = 1)]
    limit: String,
    /// Whom it counts for.
    #[schema(min_length = 1)]
    id: String,
    /// How many tokens; 1 if nothing is said.
    #[schema(required = false, minimum = 0, maximum = 4_294_967_296_u64, default = 1)]
    cost: u64,
    /// What the transaction does with it; `check-and-spend` if nothing is said.
    #[schema(required = false)]
    mode: AskMode,
}

/// Which buckets to fill.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = Reset)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum ResetSchema {
    One(ResetOneSchema),
    Many(ResetManySchema),
}

/// One bucket to fill.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ResetOne, example = json!({"limit": "LoginsPerUser", "id": "ada"}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ResetOneSchema {
    /// The name of the limit.
    #[schema(min_length = 1)]
    limit: String,
    /// Whom it counts for.
    #[schema(min_length = 1)]
    id: String,
}

/// Several buckets to fill.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ResetMany)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ResetManySchema {
    #[schema(min_items = 1, max_items = 256)]
    asks: Vec<ResetOneSchema>,
}

/// Many transactions, each on its own.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Batch)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchSchema {
    /// With at most 2048 asks in all.
    #[schema(min_items = 1, max_items = 1024)]
    transactions: Vec<BatchTransactionSchema>,
}

/// One transaction: what to do, and `limit` and `id`, or `asks`. Which limits and ids there are is not
/// looked at before it is decided.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = BatchTransaction)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum BatchTransactionSchema {
    One(BatchOneSchema),
    Spend(BatchSpendSchema),
    Many(BatchManySchema),
    Reset(BatchResetSchema),
    ResetMany(BatchResetManySchema),
}

/// One ask.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchOne, example = json!({"op": "spend", "limit": "LoginsPerUser", "id": "ada", "cost": 1}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchOneSchema {
    #[schema(inline)]
    op: CostOp,
    /// The name of the limit.
    limit: String,
    /// Whom it counts for.
    id: String,
    /// How many tokens; 1 if nothing is said.
    #[schema(required = false, minimum = 0, maximum = 18_446_744_073_709_551_615_u64, default = 1)]
    cost: u64,
}

/// Several asks that are spent as one.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchSpend)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchSpendSchema {
    #[schema(inline)]
    op: SpendOp,
    #[schema(min_items = 1, max_items = 256)]
    asks: Vec<BatchAskSchema>,
}

/// Several asks that are checked or refunded as one.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchMany)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchManySchema {
    #[schema(inline)]
    op: PlainOp,
    #[schema(min_items = 1, max_items = 256)]
    asks: Vec<BatchPlainAskSchema>,
}

/// One bucket to fill.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchReset)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchResetSchema {
    #[schema(inline)]
    op: ResetOp,
    limit: String,
    id: String,
}

/// Several buckets to fill.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchResetMany)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchResetManySchema {
    #[schema(inline)]
    op: ResetOp,
    #[schema(min_items = 1, max_items = 256)]
    asks: Vec<BatchBucketSchema>,
}

/// One ask of several.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchAsk)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchAskSchema {
    limit: String,
    id: String,
    #[schema(required = false, minimum = 0, maximum = 18_446_744_073_709_551_615_u64, default = 1)]
    cost: u64,
    #[schema(required = false)]
    mode: AskMode,
}

/// One ask of several, without a mode.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchPlainAsk)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchPlainAskSchema {
    limit: String,
    id: String,
    #[schema(required = false, minimum = 0, maximum = 18_446_744_073_709_551_615_u64, default = 1)]
    cost: u64,
}

/// One bucket of several.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchBucket)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchBucketSchema {
    limit: String,
    id: String,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum CostOp {
    Spend,
    Check,
    Refund,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum SpendOp {
    Spend,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum PlainOp {
    Check,
    Refund,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum ResetOp {
    Reset,
}

/// What an id is to be allowed, and why.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewOverride, example = json!({
    "burst": 20, "count": 20, "period": "1m", "why": "load test", "until": "2040-12-01T00:00:00Z"}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct NewOverrideSchema {
    /// How many tokens a full bucket holds.
    #[schema(minimum = 1, maximum = 4_294_967_296_u64)]
    burst: u64,
    /// How many tokens come back in a period.
    #[schema(minimum = 1, maximum = 18_446_744_073_709_551_615_u64)]
    count: u64,
    /// How long that takes: numbers, each with its unit, or a number of seconds.
    #[schema(inline)]
    period: Length,
    /// Why, for whoever reads the audit.
    #[schema(min_length = 1, max_length = 1024, pattern = r"\S")]
    why: String,
    /// When it ends by itself; never, if nothing is said.
    #[schema(required = false, format = DateTime)]
    until: String,
    /// Whether it may allow less than the id is allowed now.
    #[schema(required = false, default = false)]
    lower: bool,
}

/// Many of them.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewOverrides)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct NewOverridesSchema {
    /// Each for another id.
    #[schema(max_items = 65536)]
    overrides: Vec<ListedNewOverrideSchema>,
    /// Whether any of them may allow less than the id is allowed now.
    #[schema(required = false, default = false)]
    lower: bool,
}

/// What one id is to be allowed, and why.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ListedNewOverride, example = json!({
    "limit": "LoginsPerUser", "id": "ada", "burst": 20, "count": 20, "period": "1m", "why": "load test"}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ListedNewOverrideSchema {
    /// The name of the limit.
    #[schema(min_length = 1)]
    limit: String,
    /// Whom it is for.
    #[schema(min_length = 1)]
    id: String,
    /// How many tokens a full bucket holds.
    #[schema(minimum = 1, maximum = 4_294_967_296_u64)]
    burst: u64,
    /// How many tokens come back in a period.
    #[schema(minimum = 1, maximum = 18_446_744_073_709_551_615_u64)]
    count: u64,
    /// How long that takes: numbers, each with its unit, or a number of seconds.
    #[schema(inline)]
    period: Length,
    /// Why, for whoever reads the audit.
    #[schema(min_length = 1, max_length = 1024, pattern = r"\S")]
    why: String,
    /// When it ends by itself; never, if nothing is said.
    #[schema(required = false, format = DateTime)]
    until: String,
}

/// What asks are answered.
#[derive(IntoResponses)]
#[expect(dead_code, clippy::large_enum_variant, reason = "only its schema is used")]
pub(super) enum Decided {
    /// It was decided: `allowed` says how
    #[response(status = 200, headers(
        ("RateLimit" = String, description = "What is left, of each limit that was asked, as a structured field: \
            `\"LoginsPerUser\";r=4;t=60`. `t` is in how many seconds there is more."),
        ("RateLimit-Policy" = String, description = "What is allowed: `\"LoginsPerUser\";q=5;w=300`. `q` is the \
            burst, `w` in how many seconds an empty bucket is full."),
        ("Retry-After" = u64, description = "Only with a denial: after how many seconds the same ask passes."),
        ("X-RateLimit-Limit" = u64, description = "Only if `http.x_ratelimit` is set, as the next two: the burst."),
        ("X-RateLimit-Remaining" = u64, description = "How many tokens are left."),
        ("X-RateLimit-Reset" = String, description = "When there is more, as the setting says.")))]
    Decision(DecisionBody),
    /// What is asked cannot be decided: `unknown-limit`, `bad-id`, `no-default`, `cost-above-burst`,
    /// `same-bucket-twice`, `bad-asks`
    #[response(status = 422)]
    Mistake,
}

/// What can become of who wants to pass the gate.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum Passed {
    /// It may pass
    #[response(status = 204, headers(
        ("RateLimit" = String, description = "What is left, as a structured field: `\"LoginsPerUser\";r=4;t=60`."),
        ("RateLimit-Policy" = String, description = "What is allowed: `\"LoginsPerUser\";q=5;w=300`.")))]
    May,
    /// There is no such limit: `no-such-limit`
    #[response(status = 404)]
    NoSuchLimit,
    /// What is asked cannot be decided: `bad-id`, `no-default`, `cost-above-burst`
    #[response(status = 422)]
    Mistake,
    /// It is too early
    #[response(status = 429, headers(
        ("RateLimit" = String, description = "What is left, as a structured field: `\"LoginsPerUser\";r=0;t=60`."),
        ("RateLimit-Policy" = String, description = "What is allowed: `\"LoginsPerUser\";q=5;w=300`."),
        ("Retry-After" = u64, description = "After how many seconds the same ask passes.")))]
    Denied,
}

/// The status that a denial of the gate has.
pub(super) struct DeniedStatus;

impl utoipa::PartialSchema for DeniedStatus {
    fn schema() -> RefOr<Schema> {
        let statuses = [429_u16, 403, 401];
        ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some(statuses)).into()
    }
}

impl ToSchema for DeniedStatus {}

/// A length of time in a request.
pub(super) struct Length;

impl utoipa::PartialSchema for Length {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::Array(vec![Type::String, Type::Number]))
            .pattern(Some(r"^((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w))+$"))
            .exclusive_minimum(Some(0))
            .examples([json!("3h"), json!("1h30m"), json!(90)])
            .into()
    }
}

impl ToSchema for Length {}
