//! Asking over HTTP: what is due is given back and what is needed is taken in one batch.

use std::error::Error;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tollgate::Nanos;

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
        Ok(Self { client, uri, limit, id, authorization })
    }

    pub(super) async fn ask(&self, ask: &Ask) -> Result<Answer, DeskError> {
        let refund =
            |&(term, count): &(u64, u32)| json!({"op": "refund", "asks": [self.one(term, count)]});
        let mut transactions: Vec<Value> = ask.refunds.iter().map(refund).collect();
        // With nothing to take, somebody wants to know whether the server is there.
        let (op, cost) = if ask.spend > 0 { ("spend", ask.spend) } else { ("check", 1) };
        if ask.spend > 0 || ask.refunds.is_empty() {
            let asks: Vec<Value> = ask.terms.iter().map(|term| self.one(term, cost)).collect();
            transactions.push(json!({"op": op, "asks": asks}));
        }
        let answer = self.post(json!({ "transactions": transactions }).to_string()).await?;
        let results = answer.get("results").and_then(Value::as_array);
        let last = results.and_then(|results| results.last());
        read(last.unwrap_or(&Value::Null), ask.spend)
    }

    /// A part of a transaction: each term has a bucket of its own.
    fn one(&self, term: u64, cost: u32) -> Value {
        json!({"limit": self.limit, "id": format!("{}@{term}", self.id), "cost": cost})
    }

    async fn post(&self, body: String) -> Result<Value, DeskError> {
        let mut request = Request::post(self.uri.clone());
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::from(body)).map_err(unreachable)?;
        let response = self.client.request(request).await.map_err(unreachable)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(DeskError::Unreachable)?.to_bytes();
        if !status.is_success() {
            return Err(DeskError::Nonsense(format!("with the status {status}")));
        }
        serde_json::from_slice(&body).map_err(unreachable)
    }
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
        retry_in: Nanos::new(retry_ns.into()),
    })
}

#[cfg(test)]
mod tests;
