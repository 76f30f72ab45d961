//! Asking over HTTP: what is due is given back and what is needed is taken in one batch.

use std::error::Error;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tollgate::{Moment, Nanos};

use super::held::{Refunds, Terms};
use super::till::{Answer, Ask};
use super::{DeskError, ShareError};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 16;

pub(crate) struct HttpDesk {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    limit: String,
    id: String,
    authorization: Option<HeaderValue>,
    /// Tells the ledgers of this process from those of others.
    process: u64,
}

impl HttpDesk {
    pub(super) fn new(
        url: &str,
        limit: &str,
        id: &str,
        token: Option<&str>,
    ) -> Result<Self, ShareError> {
        let wrong = || ShareError::Address(url.to_owned());
        let uri: Uri =
            format!("{}/v1/batch", url.trim_end_matches('/')).parse().map_err(|_| wrong())?;
        if uri.scheme_str() != Some("http") || uri.host().is_none() {
            return Err(wrong());
        }
        let authorization = token.map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let mut authorization = authorization.transpose().map_err(|_| ShareError::Token)?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let mut connector = HttpConnector::new();
        // Asks are small and wait for each other.
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let (limit, id) = (limit.to_owned(), id.to_owned());
        let process = RandomState::new().build_hasher().finish();
        Ok(Self { client, uri, limit, id, authorization, process })
    }

    pub(super) async fn ask(&self, ask: &Ask) -> Result<Answer, DeskError> {
        let refunds = match ask.over {
            Some(life) => self.lacking(life, ask.terms).await?,
            None => self.refunds(ask.life, &ask.refunds),
        };
        let mut transactions = refunds;
        if ask.spend > 0 {
            let asks = ask.terms.iter().flat_map(|term| self.both(term, ask.life, ask.spend));
            transactions.push(json!({"op": "spend", "asks": asks.collect::<Vec<_>>()}));
        } else if transactions.is_empty() {
            // Somebody wants to know whether the server is there.
            let one = self.one(&self.bucket(ask.terms.current), 1);
            transactions.push(json!({"op": "check", "asks": [one]}));
        }
        let Reply { results, second } = self.batch(&transactions).await?;
        let answer = read(results.last().unwrap_or(&Value::Null), ask.spend)?;
        Ok(Answer { second, ..answer })
    }

    /// What gives back what the ledgers of a life lack.
    async fn lacking(&self, life: u64, terms: Terms) -> Result<Vec<Value>, DeskError> {
        let look = |term| json!({"op": "check", "asks": [self.one(&self.ledger(term, life), 1)]});
        let looks: Vec<Value> = terms.iter().map(look).collect();
        let Reply { results, .. } = self.batch(&looks).await?;
        let mut refunds = Refunds::new();
        for (term, result) in terms.iter().zip(&results) {
            let lacks = lacks(result)?;
            if lacks > 0 {
                refunds.push((term, lacks));
            }
        }
        Ok(self.refunds(life, &refunds))
    }

    fn refunds(&self, life: u64, refunds: &Refunds) -> Vec<Value> {
        let refund = |&(term, count): &(u64, u32)| json!({"op": "refund", "asks": self.both(term, life, count)});
        refunds.iter().map(refund).collect()
    }

    /// Of what all share in a term, and of the ledger of a life.
    fn both(&self, term: u64, life: u64, cost: u32) -> [Value; 2] {
        [self.one(&self.bucket(term), cost), self.one(&self.ledger(term, life), cost)]
    }

    fn one(&self, id: &str, cost: u32) -> Value {
        json!({"limit": self.limit, "id": id, "cost": cost})
    }

    fn bucket(&self, term: u64) -> String {
        format!("{}@{term}", self.id)
    }

    fn ledger(&self, term: u64, life: u64) -> String {
        format!("{}@{term}.{:016x}.{life}", self.id, self.process)
    }

    async fn batch(&self, transactions: &[Value]) -> Result<Reply, DeskError> {
        let body = json!({ "transactions": transactions }).to_string();
        let (mut answer, second) = self.post(body).await?;
        match answer.get_mut("results").map(Value::take) {
            Some(Value::Array(results)) if results.len() == transactions.len() => {
                Ok(Reply { results, second })
            }
            _ => Err(DeskError::Nonsense(answer.to_string())),
        }
    }

    async fn post(&self, body: String) -> Result<(Value, Option<Moment>), DeskError> {
        let mut request = Request::post(self.uri.clone());
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::from(body)).map_err(unreachable)?;
        let response = self.client.request(request).await.map_err(unreachable)?;
        let (status, second) = (response.status(), response.headers().get(DATE).and_then(second));
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(DeskError::Unreachable)?.to_bytes();
        if !status.is_success() {
            return Err(DeskError::Nonsense(format!("with the status {status}")));
        }
        Ok((serde_json::from_slice(&body).map_err(unreachable)?, second))
    }
}

/// The answer to a batch.
struct Reply {
    results: Vec<Value>,
    /// In which second it was written.
    second: Option<Moment>,
}

fn second(date: &HeaderValue) -> Option<Moment> {
    let date = httpdate::parse_http_date(date.to_str().ok()?).ok()?;
    let since_1970 = date.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_nanos()).ok().map(Moment::from_nanos)
}

fn unreachable(error: impl Error + Send + Sync + 'static) -> DeskError {
    DeskError::Unreachable(Box::new(error))
}

/// The answer to one transaction. What is wrong with the ask itself, such as the name of the
/// limit, comes without what an answer has.
fn read(result: &Value, spend: u32) -> Result<Answer, DeskError> {
    let number = |name: &str| result.get(name).and_then(Value::as_u64);
    let allowed = result.get("allowed").and_then(Value::as_bool);
    let (Some(allowed), Some(left), Some(retry_ns)) =
        (allowed, number("remaining"), number("retry_in_ns"))
    else {
        return Err(DeskError::Nonsense(result.to_string()));
    };
    Ok(Answer {
        granted: if allowed { spend } else { 0 },
        left: u32::try_from(left).unwrap_or(u32::MAX),
        lacks: 0,
        retry_in: Nanos::new(retry_ns.into()),
        second: None,
    })
}

/// How many tokens a bucket lacks, by the answer to a check for one: that says what would be left
/// had it been taken.
fn lacks(result: &Value) -> Result<u32, DeskError> {
    let burst = result.get("limit").and_then(|limit| limit.get("burst")).and_then(Value::as_u64);
    let burst = burst.ok_or_else(|| DeskError::Nonsense(result.to_string()))?;
    let Answer { granted, left, .. } = read(result, 1)?;
    let there = u64::from(left) + u64::from(granted);
    Ok(u32::try_from(burst.saturating_sub(there)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
