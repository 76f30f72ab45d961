//! Asking: spend, check, refund and reset, one transaction or many.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use futures_util::future::join_all;
use ratekeeper::limiter::{Account, TRANSACTION_ASKS_MAX};
use ratekeeper::{Limiter, Merged, Mistake, Mode, Moment, Request};
use serde::Deserialize;
use smallvec::{SmallVec, smallvec};
use utoipa::ToSchema;

use super::address;
use super::app::{App, Inside};
use super::body::{self, Object, Whole, present, present_text, present_whole};
use super::connection::Counted;
use super::decision::{self, Decided, DecisionBody};
use super::fields::{self, Answered, Answers, Head};
use super::problem::{self, Problem};
use super::schema;
use crate::admin::ServerAdmin;
use crate::settings::XRateLimit;

/// How many transactions one batch can have.
pub(super) const BATCH_TRANSACTIONS_MAX: usize = 1024;
/// How many asks all of them can have together.
pub(super) const BATCH_ASKS_MAX: usize = 2048;
/// How many of them are decided before others have their turn.
const TRANSACTIONS_PER_TURN: usize = 32;
/// The same where the buckets are elsewhere: all of a batch go there at once.
const TRANSACTIONS_PER_TRIP: usize = BATCH_TRANSACTIONS_MAX;
/// Most answers to one ask are not longer.
const ANSWER_BYTES: usize = 1024;
/// What is asked for if nothing is said.
pub(super) const COST_DEFAULT: u64 = 1;

/// What is done with the asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Op {
    Spend,
    Check,
    Refund,
    Reset,
}

impl Op {
    /// Whether an answer says to come again: a refund that gave nothing back does not.
    pub(super) fn is_denied(self, is_allowed: bool) -> bool {
        !is_allowed && matches!(self, Self::Spend | Self::Check)
    }
}

/// One ask, or several that are decided as one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transaction<'b> {
    #[serde(borrow, default, deserialize_with = "present_text")]
    limit: Option<Cow<'b, str>>,
    #[serde(borrow, default, deserialize_with = "present_text")]
    id: Option<Cow<'b, str>>,
    #[serde(default, deserialize_with = "present_whole")]
    cost: Option<u64>,
    #[serde(borrow, default, deserialize_with = "present")]
    asks: Option<Vec<Object<Ask<'b>>>>,
}

/// One ask of several.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask<'b> {
    #[serde(borrow)]
    limit: Cow<'b, str>,
    #[serde(borrow)]
    id: Cow<'b, str>,
    #[serde(default, deserialize_with = "present_whole")]
    cost: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    mode: Option<AskMode>,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Mode)]
pub(super) enum AskMode {
    CheckAndSpend,
    CheckOnly,
    SpendOnly,
}

/// Many transactions, each on its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'b> {
    #[serde(borrow)]
    transactions: Vec<Object<BatchTransaction<'b>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchTransaction<'b> {
    op: Op,
    #[serde(borrow, default, deserialize_with = "present_text")]
    limit: Option<Cow<'b, str>>,
    #[serde(borrow, default, deserialize_with = "present_text")]
    id: Option<Cow<'b, str>>,
    #[serde(default, deserialize_with = "present_whole")]
    cost: Option<u64>,
    #[serde(borrow, default, deserialize_with = "present")]
    asks: Option<Vec<Object<Ask<'b>>>>,
}

/// What each transaction of a batch was answered, in order.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Results {
    results: Vec<BatchResult>,
}

#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = Result)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum BatchResult {
    Decision(Box<DecisionBody>),
    Problem { problem: Problem },
}

/// Spend tokens: one ask, or several as one transaction
///
/// A denial is an answer with the status 200: look at `allowed`. If one ask is denied, none is spent.
#[utoipa::path(post, path = "/v1/spend", tag = "decide", security(("token" = ["decide"])),
    request_body = schema::SpendSchema, responses(schema::Decided))]
pub(super) async fn spend(app: State<Arc<App>>, inside: Inside, uri: Uri, body: Whole) -> Answer {
    let [] = address::query(&uri, [])?;
    one(Op::Spend, &app, &inside, &body).await
}

/// Ask without spending
#[utoipa::path(post, path = "/v1/check", tag = "decide", security(("token" = ["decide"])),
    request_body = schema::TransactionSchema, responses(schema::Decided))]
pub(super) async fn check(app: State<Arc<App>>, inside: Inside, uri: Uri, body: Whole) -> Answer {
    let [] = address::query(&uri, [])?;
    one(Op::Check, &app, &inside, &body).await
}

/// Give tokens back
///
/// At most as many as are missing; `allowed` says whether there were any.
#[utoipa::path(post, path = "/v1/refund", tag = "decide", security(("token" = ["decide"])),
    request_body = schema::TransactionSchema, responses(schema::Decided))]
pub(super) async fn refund(app: State<Arc<App>>, inside: Inside, uri: Uri, body: Whole) -> Answer {
    let [] = address::query(&uri, [])?;
    one(Op::Refund, &app, &inside, &body).await
}

/// Fill buckets
#[utoipa::path(post, path = "/v1/reset", tag = "decide", security(("token" = ["decide"])),
    request_body = schema::ResetSchema, responses(schema::Decided))]
pub(super) async fn reset(app: State<Arc<App>>, inside: Inside, uri: Uri, body: Whole) -> Answer {
    let [] = address::query(&uri, [])?;
    one(Op::Reset, &app, &inside, &body).await
}

/// Decide many transactions in one request, each on its own
///
/// What is wrong with one of them, such as a limit that is not there, is told in its place, and the
/// others are decided. A body that is not of the shape below is refused as a whole.
#[utoipa::path(post, path = "/v1/batch", tag = "decide", security(("token" = ["decide"])),
    request_body = schema::BatchSchema,
    responses(
        (status = 200, description = "What each was answered, in order", body = Results,
            headers(
                ("Ratekeeper-Now-Ns" = u64, description = "What time it is, in nanoseconds since 1970"),
                ("Ratekeeper-Started-Ns" = u64, description = "When this server was started, by the same clock"))),
        (status = 422, description = "The shape is wrong, so none was decided: `bad-asks`")))]
pub(super) async fn batch(
    app: State<Arc<App>>,
    Inside(admin): Inside,
    uri: Uri,
    Whole(bytes): Whole,
) -> Answer {
    let [] = address::query(&uri, [])?;
    // Before it is read: what was read of it takes more than the body.
    let room = app.room(&admin, &bytes, BATCH_ASKS_MAX).await;
    let Batch { transactions } = body::parse(&bytes)?;
    if transactions.is_empty() || transactions.len() > BATCH_TRANSACTIONS_MAX {
        let detail = format!(
            "the batch has {} transactions: 1 to {BATCH_TRANSACTIONS_MAX} are allowed",
            transactions.len()
        );
        return Err(Problem::field(&problem::BAD_ASKS, "transactions", detail));
    }
    let mut all = Vec::with_capacity(transactions.len());
    for (place, Object(transaction)) in transactions.iter().enumerate() {
        let BatchTransaction { op, limit, id, cost, asks } = transaction;
        let parts = Parts { limit, id, cost: *cost, asks, at: format!("transactions[{place}].") };
        all.push((*op, parts.asks(*op)?, parts));
    }
    let asks_count: usize = all.iter().map(|(_, asks, _)| asks.len()).sum();
    if asks_count > BATCH_ASKS_MAX {
        let detail =
            format!("there are {asks_count} asks in all: at most {BATCH_ASKS_MAX} are allowed");
        return Err(Problem::field(&problem::BAD_ASKS, "transactions", detail));
    }
    let (limiter, now) = (&admin.engine.http, admin.time.now());
    let mut counted = Counted::default();
    let mut text = Vec::from(b"{\"results\":[");
    let waits = limiter.wherever().waits();
    let mut left = room.left;
    let mut rest = all.as_slice();
    while !rest.is_empty() {
        let (turn, behind) = rest.split_at(turn_of(rest, waits));
        rest = behind;
        // Together, so that those whose buckets are elsewhere are under way at the same time.
        let turn = turn.iter().map(|(op, asks, parts)| parts.decide(*op, asks, limiter, now));
        let decided = ratekeeper_redis::in_time(left, join_all(turn)).await;
        // Each turn has its own time, unless there was no room for any.
        left = if room.left.is_zero() { room.left } else { admin.patience };
        for decided in decided {
            if !text.ends_with(b"[") {
                text.push(b',');
            }
            match decided {
                Ok(transaction) => {
                    counted.decided(transaction.merged.decision.allowed);
                    transaction.write(&mut text);
                }
                Err(problem) => {
                    decision::field("{\"problem\":", &problem, &mut text);
                    text.push(b'}');
                }
            }
        }
        // Other clients have their turn.
        tokio::task::yield_now().await;
    }
    text.extend_from_slice(b"]}");
    let mut response = body::text(text);
    tell_time(response.headers_mut(), now, admin.started.at);
    Ok(counted.attach(response))
}

/// Says by the clock of the buckets what time it is, and since when this process counts: so who asks
/// knows which others ask at the same time, and whether what was spent may have been forgotten.
fn tell_time(to: &mut HeaderMap, now: Moment, started: Moment) {
    to.insert("ratekeeper-now-ns", now.as_nanos().into());
    to.insert("ratekeeper-started-ns", started.as_nanos().into());
}

/// How many of the transactions are decided before others have their turn, and before those that
/// come behind. What comes behind a refund or a reset sees what it gave, also where denials are
/// remembered. What is decided as one with other buckets may take a trip more than what is not, or
/// be in the way of others like it; so of two about the same bucket the second waits.
fn turn_of(rest: &[(Op, Each<Request<'_>>, Parts<'_, '_>)], waits: bool) -> usize {
    if !waits {
        return rest.len().min(TRANSACTIONS_PER_TURN);
    }
    let (mut all, mut joined) = (HashSet::new(), HashSet::new());
    for (place, (op, asks, _)) in rest.iter().enumerate().take(TRANSACTIONS_PER_TRIP) {
        let buckets = || asks.iter().map(|ask| (ask.limit, ask.id));
        let others = if asks.len() > 1 { &all } else { &joined };
        if place > 0 && buckets().any(|bucket| others.contains(&bucket)) {
            return place;
        }
        if matches!(op, Op::Refund | Op::Reset) {
            return place + 1;
        }
        if asks.len() > 1 {
            joined.extend(buckets());
        }
        all.extend(buckets());
    }
    rest.len().min(TRANSACTIONS_PER_TRIP)
}

/// What a handler answers.
pub(super) type Answer = Result<Response<Body>, Problem>;

async fn one(op: Op, app: &App, Inside(admin): &Inside, Whole(bytes): &Whole) -> Answer {
    let room = app.room(admin, bytes, TRANSACTION_ASKS_MAX).await;
    let now = admin.time.now();
    let deciding = decided(op, admin, bytes, now, |done| {
        let mut text = Vec::with_capacity(ANSWER_BYTES);
        done.write(&mut text);
        let mut response = body::text(text);
        let (dialect, wall) = (app.settings.x_ratelimit, admin.time.wall());
        done.write_fields(response.headers_mut(), dialect, wall);
        let mut counted = Counted::default();
        counted.decided(done.is_allowed());
        counted.attach(response)
    });
    if admin.engine.http.wherever().waits() {
        ratekeeper_redis::in_time(room.left, deciding).await
    } else {
        deciding.await
    }
}

/// Decides the transaction that a body is, and has `answer` make something of it. Where buckets are
/// in memory, this never waits.
pub(super) async fn decided<T>(
    op: Op,
    admin: &ServerAdmin,
    bytes: &[u8],
    now: Moment,
    answer: impl FnOnce(&Done<'_>) -> T,
) -> Result<T, Problem> {
    let Transaction { limit, id, cost, asks } = body::parse(bytes)?;
    let parts = Parts { limit: &limit, id: &id, cost, asks: &asks, at: String::new() };
    let asks = parts.asks(op)?;
    let done = parts.decide(op, &asks, &admin.engine.http, now).await?;
    Ok(answer(&done))
}

/// Room for what there is of each ask: most transactions have one, and nothing to allocate then.
type Each<T> = SmallVec<[T; 1]>;

/// A transaction as it was read.
struct Parts<'p, 'b> {
    limit: &'p Option<Cow<'b, str>>,
    id: &'p Option<Cow<'b, str>>,
    cost: Option<u64>,
    asks: &'p Option<Vec<Object<Ask<'b>>>>,
    /// Where it is in the body, for problems.
    at: String,
}

/// A transaction that was decided.
pub(super) struct Done<'p> {
    op: Op,
    merged: Merged,
    asks: Each<Request<'p>>,
    accounts: Each<Account>,
}

impl Done<'_> {
    pub(super) fn is_allowed(&self) -> bool {
        self.merged.decision.allowed
    }

    /// Appends what was answered, as JSON.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        // Only the asks of a spend have modes.
        decision::write(to, &self.decided(), &self.merged, self.op == Op::Spend);
    }

    /// Adds the header fields that go with it.
    pub(super) fn write_fields(&self, to: &mut impl Head, dialect: XRateLimit, wall: Moment) {
        let decided = self.decided();
        let asks: Each<Answered<'_>> = decided.iter().map(Decided::answered).collect();
        let denied = self.op.is_denied(self.is_allowed());
        let answers = Answers { asks: &asks, decided_by: self.merged.decided_by, denied };
        fields::write(to, &answers, dialect, wall);
    }

    fn decided(&self) -> Each<Decided<'_>> {
        let asks = self.asks.iter().zip(&self.accounts).zip(&*self.merged.each);
        asks.map(|((ask, of), decision)| Decided {
            ask: *ask,
            of: of.entitled(),
            decision: *decision,
        })
        .collect()
    }
}

impl<'p> Parts<'p, '_> {
    async fn decide(
        &self,
        op: Op,
        asks: &[Request<'p>],
        limiter: &Limiter,
        now: Moment,
    ) -> Result<Done<'p>, Problem> {
        let problem = |mistake: Mistake| self.blame(&mistake, asks);
        // What is told besides is looked up first: a limit that a reload takes away meanwhile is a
        // mistake before anything is spent, and never after.
        let mut accounts = Each::with_capacity(asks.len());
        for ask in asks {
            accounts.push(limiter.account(ask.limit, ask.id).map_err(problem)?);
        }
        let wherever = limiter.wherever();
        let merged = match op {
            Op::Spend | Op::Check => wherever.transaction(asks, now).await,
            Op::Refund => wherever.refund_all(asks, now).await,
            Op::Reset => wherever.reset_all(asks, now).await,
        };
        let merged = merged.map_err(problem)?;
        Ok(Done { op, merged, asks: asks.into(), accounts })
    }

    /// The asks, if they are what `op` decides.
    fn asks(&self, op: Op) -> Result<Each<Request<'p>>, Problem> {
        let default_mode = if op == Op::Check { Mode::CheckOnly } else { Mode::CheckAndSpend };
        let bad = |field: &str, detail: &str| {
            Problem::field(&problem::BAD_ASKS, format_args!("{}{field}", self.at), detail)
        };
        let cost = |cost: Option<u64>, field: &str| match (op, cost) {
            (Op::Reset, None) => Ok(0),
            (Op::Reset, Some(_)) => Err(bad(field, "a reset fills the bucket: leave the cost out")),
            (_, cost) => Ok(cost.unwrap_or(COST_DEFAULT)),
        };
        let many = match (self.limit, self.id, self.asks) {
            (Some(limit), Some(id), None) => {
                let ask = Request::new(limit, id, cost(self.cost, "cost")?);
                return Ok(smallvec![ask.with_mode(default_mode)]);
            }
            (None, None, Some(asks)) if self.cost.is_none() => asks,
            (_, _, Some(_)) => {
                return Err(bad("asks", "give either `asks`, or `limit`, `id` and `cost`"));
            }
            (None, _, None) => return Err(bad("limit", "`limit` is missing")),
            (_, None, None) => return Err(bad("id", "`id` is missing")),
        };
        if many.is_empty() || many.len() > TRANSACTION_ASKS_MAX {
            let detail =
                format!("there are {} asks: 1 to {TRANSACTION_ASKS_MAX} are allowed", many.len());
            return Err(bad("asks", &detail));
        }
        let mut asks = Each::with_capacity(many.len());
        for (place, Object(ask)) in many.iter().enumerate() {
            let mode = match (op, ask.mode) {
                (_, None) => default_mode,
                (Op::Spend, Some(mode)) => mode.into(),
                (_, Some(_)) => {
                    let field = format!("asks[{place}].mode");
                    return Err(bad(&field, "only a spend has modes: leave it out"));
                }
            };
            let cost = cost(ask.cost, &format!("asks[{place}].cost"))?;
            asks.push(Request::new(&ask.limit, &ask.id, cost).with_mode(mode));
        }
        Ok(asks)
    }

    /// The problem, at the ask that has it: a transaction says what is wrong, and not where.
    fn blame(&self, mistake: &Mistake, asks: &[Request<'_>]) -> Problem {
        let has_it = |ask: &Request<'_>| match mistake {
            Mistake::UnknownLimit { name, .. } => ask.limit == name,
            Mistake::NoDefault { limit, id } | Mistake::Id { limit, id, .. } => {
                ask.limit == limit && ask.id == id
            }
            Mistake::CostAboveBurst { limit, cost, .. } => ask.limit == limit && ask.cost == *cost,
            _ => false,
        };
        match asks.iter().position(has_it) {
            Some(place) if self.asks.is_some() => {
                Problem::mistake(mistake, &format!("{}asks[{place}].", self.at))
            }
            _ => Problem::mistake(mistake, &self.at),
        }
    }
}

impl From<AskMode> for Mode {
    fn from(mode: AskMode) -> Self {
        match mode {
            AskMode::CheckAndSpend => Self::CheckAndSpend,
            AskMode::CheckOnly => Self::CheckOnly,
            AskMode::SpendOnly => Self::SpendOnly,
        }
    }
}
