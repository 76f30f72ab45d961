//! Asking the server over HTTP: what is due is given back and what is needed is taken in one batch.

use std::error::Error;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ratekeeper_time::{Moment, Nanos};
use serde_json::{Value, json};

use super::terms::{Terms, kept_max};
use super::token_state::{TokenAnswer, TokenAsk};
use super::{ANSWER_MAX, Share, ShareError, ShareServer};
use crate::pace::Pace;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 16;
/// What time it is on the server, in an answer to a batch.
const NOW: &str = "ratekeeper-now-ns";
/// When the server was started, by the same clock.
const STARTED: &str = "ratekeeper-started-ns";
/// The shortest period that is proposed.
const PERIOD_MIN: Nanos = Nanos::from_secs(60);

pub(crate) struct ServerClient {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    server: ShareServer,
    /// What the limit of the server has to be made for.
    pace: Pace,
    authorization: Option<HeaderValue>,
}

impl ServerClient {
    pub(super) fn new(share: &Share) -> Result<Self, ShareError> {
        let server = share.server.clone();
        let wrong = || ShareError::Address(server.url.clone());
        let uri: Uri = format!("{}/v1/batch", server.url.trim_end_matches('/'))
            .parse()
            .map_err(|_| wrong())?;
        match uri.scheme_str() {
            Some("http") if uri.host().is_some() => {}
            Some("https") => return Err(ShareError::Https(server.url)),
            _ => return Err(wrong()),
        }
        let token = server.token.as_deref();
        let authorization = token.map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let authorization = authorization.transpose();
        let mut authorization = authorization.map_err(|_| ShareError::Token(server.url.clone()))?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let mut connector = HttpConnector::new();
        // Asks are small and wait for each other.
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, uri, server, pace: share.pace, authorization })
    }

    /// The server's answer, if there is one in time that is of use.
    pub(super) async fn ask(&self, ask: &TokenAsk) -> Result<TokenAnswer, ShareError> {
        let transactions = self.transactions(ask);
        let answer = tokio::time::timeout(ANSWER_MAX, self.batch(&transactions));
        answer.await.unwrap_or_else(|_| Err(self.absent(None)))
    }

    fn transactions(&self, ask: &TokenAsk) -> Vec<Value> {
        let of = |op, terms: &Terms, cost: u32| {
            let asks: Vec<Value> = terms
                .iter()
                .map(|term| self.one(&format!("{}@{term}", self.server.id), cost))
                .collect();
            json!({"op": op, "asks": asks})
        };
        match ask {
            TokenAsk::Look => vec![json!({"op": "check", "asks": [self.one(&self.server.id, 1)]})],
            TokenAsk::Renew { terms, tokens } => vec![of("spend", terms, *tokens)],
            TokenAsk::Exchange { terms, refund, spend } => {
                let both = [("refund", refund), ("spend", spend)].into_iter();
                both.filter(|(_, cost)| **cost > 0).map(|(op, &cost)| of(op, terms, cost)).collect()
            }
        }
    }

    fn one(&self, id: &str, cost: u32) -> Value {
        json!({"limit": self.server.limit, "id": id, "cost": cost})
    }

    async fn batch(&self, transactions: &[Value]) -> Result<TokenAnswer, ShareError> {
        let body = json!({ "transactions": transactions }).to_string();
        let (fields, mut answer) = self.post(body).await?;
        let results = match answer.get_mut("results").map(Value::take) {
            Some(Value::Array(results)) if results.len() == transactions.len() => results,
            _ => return Err(self.strange(format_args!("its answer to a batch is {answer}"))),
        };
        // The last one says what is left; what is wrong with a limit is wrong in each.
        self.read(results.last().unwrap_or(&Value::Null), &fields)
    }

    async fn post(&self, body: String) -> Result<(HeaderMap, Value), ShareError> {
        let mut request = Request::post(self.uri.clone());
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let request =
            request.body(Full::from(body)).map_err(|error| self.absent(Some(error.into())))?;
        let response = self.client.request(request).await;
        let (head, body) = response.map_err(|error| self.absent(Some(error.into())))?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| self.absent(Some(error)))?.to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if head.status.is_success() {
            return Ok((head.headers, answer));
        }
        let said = said(&answer);
        Err(match head.status {
            // It starts, or stops.
            StatusCode::SERVICE_UNAVAILABLE => self.absent(Some(said.into())),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => {
                let (server, status) = (self.server.url.clone(), head.status.as_u16());
                ShareError::Refused { server, status, said }
            }
            status => self.strange(format_args!("it answers {status} {said}")),
        })
    }

    /// What a transaction was answered.
    fn read(&self, result: &Value, fields: &HeaderMap) -> Result<TokenAnswer, ShareError> {
        if let Some(problem) = result.get("problem") {
            return Err(self.no_limit(said(problem)));
        }
        let allowed = result.get("allowed").and_then(Value::as_bool);
        let left = result.get("remaining").and_then(Value::as_u64);
        let (Some(is_granted), Some(left)) = (allowed, left) else {
            return Err(self.strange(format_args!("its answer to an ask is {result}")));
        };
        self.judge(result.get("limit").unwrap_or(&Value::Null))?;
        let moment = |name: &str| {
            let nanos = fields.get(name)?.to_str().ok()?.parse().ok()?;
            Some(Moment::from_nanos(nanos))
        };
        let (Some(there), Some(started)) = (moment(NOW), moment(STARTED)) else {
            return Err(self.strange(format_args!("it does not say `{NOW}` and `{STARTED}`")));
        };
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        Ok(TokenAnswer { is_granted, left, there, started })
    }

    /// Whether the limit holds as many tokens as are shared, and brings none back by itself while a
    /// bucket is in use.
    fn judge(&self, limit: &Value) -> Result<(), ShareError> {
        let number = |name: &str| limit.get(name).and_then(Value::as_u64);
        let (burst, count, period) = (number("burst"), number("count"), number("period_ns"));
        let is_shadow = limit.get("shadow").and_then(Value::as_bool);
        let (Some(burst), Some(count), Some(period)) = (burst, count, period) else {
            return Err(self.strange(format_args!("its limit is {limit}")));
        };
        let each = Nanos::new(u128::from(period) / u128::from(count.max(1)));
        if burst == u64::from(self.pace.count)
            && each >= kept_max(self.pace.window)
            && is_shadow == Some(false)
        {
            return Ok(());
        }
        let shadow = if is_shadow == Some(true) { ", shadow: true" } else { "" };
        let period = Nanos::new(period.into());
        Err(ShareError::WrongLimit {
            server: self.server.url.clone(),
            limit: self.server.limit.clone(),
            found: format!("{{ burst: {burst}, count: {count}, period: {period}{shadow} }}"),
            wanted: self.wanted(),
        })
    }

    /// What the limits file of the server needs. Tokens come back by themselves only so that buckets
    /// from which some were lost are forgotten in the end.
    fn wanted(&self) -> String {
        let (burst, period) = (self.pace.count, PERIOD_MIN.max(kept_max(self.pace.window)));
        format!("{{ burst: {burst}, count: 1, period: {period} }}")
    }

    fn no_limit(&self, said: String) -> ShareError {
        let ShareServer { url, limit, .. } = self.server.clone();
        ShareError::NoLimit { server: url, limit, said, wanted: self.wanted() }
    }

    fn absent(&self, source: Option<Box<dyn Error + Send + Sync>>) -> ShareError {
        ShareError::Absent { server: self.server.url.clone(), source }
    }

    fn strange(&self, said: std::fmt::Arguments<'_>) -> ShareError {
        ShareError::Strange { server: self.server.url.clone(), said: said.to_string() }
    }
}

/// What a problem says, in one line.
fn said(problem: &Value) -> String {
    let text = |name: &str| problem.get(name).and_then(Value::as_str);
    text("detail").or_else(|| text("title")).unwrap_or("without a reason").to_owned()
}

#[cfg(test)]
mod tests;
