//! The shapes of requests, for the document that describes the API: what is read is read by
//! `decide.rs`, which says better what is wrong.

use utoipa::{IntoResponses, ToSchema};

use super::decide::{AskMode, Op};
use super::problem::Problem;

/// One ask, or several that are decided as one: if one is denied, none is spent.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(title = "Transaction")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum TransactionSchema {
    One(OneSchema),
    Many(ManySchema),
}

#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "One", example = json!({"limit": "LoginsPerUser", "id": "ada", "cost": 1}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct OneSchema {
    /// The name of the limit.
    limit: String,
    /// Whom it counts for.
    id: String,
    /// How many tokens; 1 if nothing is said.
    #[schema(required = false, minimum = 0, default = 1)]
    cost: u64,
}

#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Many")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ManySchema {
    #[schema(min_items = 1, max_items = 256)]
    asks: Vec<AskSchema>,
}

#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Ask")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct AskSchema {
    limit: String,
    id: String,
    #[schema(required = false, minimum = 0, default = 1)]
    cost: u64,
    /// What the transaction does with it; only for spends.
    #[schema(required = false)]
    mode: AskMode,
}

/// Which buckets to fill.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(title = "Reset")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum ResetSchema {
    One(BucketSchema),
    Many(BucketsSchema),
}

#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Bucket")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BucketSchema {
    limit: String,
    id: String,
}

#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Buckets")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BucketsSchema {
    #[schema(min_items = 1, max_items = 256)]
    asks: Vec<BucketSchema>,
}

/// Many transactions, each on its own.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Batch")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchSchema {
    #[schema(min_items = 1, max_items = 1024)]
    transactions: Vec<BatchTransactionSchema>,
}

/// `limit` and `id`, or `asks`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "BatchTransaction")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct BatchTransactionSchema {
    op: Op,
    limit: Option<String>,
    id: Option<String>,
    #[schema(minimum = 0)]
    cost: Option<u64>,
    asks: Option<Vec<AskSchema>>,
}

/// What a caller can get wrong.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum Mistakes {
    /// The body is not what this route reads
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] Problem),
    /// A token is needed
    #[response(status = 401, content_type = "application/problem+json")]
    NeedsToken(#[to_schema] Problem),
    /// The token's role does not suffice
    #[response(status = 403, content_type = "application/problem+json")]
    NotAllowed(#[to_schema] Problem),
    /// The body did not arrive in time
    #[response(status = 408, content_type = "application/problem+json")]
    TooSlow(#[to_schema] Problem),
    /// The body is too large
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(#[to_schema] Problem),
    /// What is asked cannot be decided
    #[response(status = 422, content_type = "application/problem+json")]
    Mistake(#[to_schema] Problem),
    /// The server is starting
    #[response(status = 503, content_type = "application/problem+json")]
    Starting(#[to_schema] Problem),
}

/// What can become of who wants to pass the gate.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum GateMistakes {
    /// The query or a header is not what this route reads
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] Problem),
    /// A token is needed; or it is denied, and 401 was asked for
    #[response(status = 401, content_type = "application/problem+json")]
    NeedsToken(#[to_schema] Problem),
    /// The token's role does not suffice; or it is denied, and 403 was asked for
    #[response(status = 403, content_type = "application/problem+json")]
    NotAllowed(#[to_schema] Problem),
    /// No such limit
    #[response(status = 404, content_type = "application/problem+json")]
    NoSuchLimit(#[to_schema] Problem),
    /// What is asked cannot be decided
    #[response(status = 422, content_type = "application/problem+json")]
    Mistake(#[to_schema] Problem),
    /// Denied, until Retry-After
    #[response(status = 429, content_type = "application/problem+json")]
    Denied(#[to_schema] Problem),
    /// The server is starting
    #[response(status = 503, content_type = "application/problem+json")]
    Starting(#[to_schema] Problem),
}

/// What can become of who wants to read.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum ReadMistakes {
    /// The query is not what this route reads
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] Problem),
    /// A token is needed
    #[response(status = 401, content_type = "application/problem+json")]
    NeedsToken(#[to_schema] Problem),
    /// The token's role does not suffice
    #[response(status = 403, content_type = "application/problem+json")]
    NotAllowed(#[to_schema] Problem),
    /// The server is starting, or too many watch
    #[response(status = 503, content_type = "application/problem+json")]
    Starting(#[to_schema] Problem),
}

/// What can become of who wants to read of a limit.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum PathMistakes {
    /// The query is not what this route reads
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] Problem),
    /// A token is needed
    #[response(status = 401, content_type = "application/problem+json")]
    NeedsToken(#[to_schema] Problem),
    /// The token's role does not suffice
    #[response(status = 403, content_type = "application/problem+json")]
    NotAllowed(#[to_schema] Problem),
    /// There is no such limit
    #[response(status = 404, content_type = "application/problem+json")]
    NoSuchLimit(#[to_schema] Problem),
    /// What is asked cannot be decided
    #[response(status = 422, content_type = "application/problem+json")]
    Mistake(#[to_schema] Problem),
    /// The server is starting
    #[response(status = 503, content_type = "application/problem+json")]
    Starting(#[to_schema] Problem),
}
