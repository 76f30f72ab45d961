//! A client of the HTTP door: JSON to and from a server, its problems as errors.

mod args;
mod error;
mod tls;
mod url;

use std::io::Read;
use std::time::Duration;

use ratekeeper::Nanos;
use ratekeeper_server::settings::SecretText;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
pub use ureq::http::Method;
use ureq::http::{Request, Response, StatusCode};
use ureq::{Agent, AsSendBody, Body};

pub use args::{RawPlace, RawSetToken, RawToken};
use error::Reply;
pub use error::{HttpError, Problem};
pub use tls::TlsFiles;
pub use url::{Url, segment};

/// How long connecting may take, where more time is given for the whole.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// How long an answer can be.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const USER_AGENT: &str = concat!("ratekeeper/", env!("CARGO_PKG_VERSION"));
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// Where a server is, and what to show it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The address of the server.
    pub url: Url,
    /// The token that identifies the caller, if the server asks for one.
    pub token: Option<SecretText>,
    /// The certificate authorities that the client trusts over https, and the client's own certificate.
    pub tls: TlsFiles,
    /// How long a whole answer may take.
    pub timeout: Nanos,
}

/// A client of one server, which keeps its connection.
pub struct HttpClient {
    agent: Agent,
    place: Place,
}

impl HttpClient {
    /// A client of the server at `place`. Refuses certificates that cannot be used; whether a
    /// server is there is seen when it is asked.
    pub fn new(place: &Place) -> Result<Self, HttpError> {
        let timeout: Duration = place.timeout.into();
        Ok(Self { agent: agent(place, Some(timeout))?, place: place.clone() })
    }

    /// A client for an answer that has no end. Only each wait for more of it is bounded.
    pub fn endless(place: &Place, wait: Duration) -> Result<Self, HttpError> {
        let place = Place { timeout: wait.into(), ..place.clone() };
        Ok(Self { agent: agent(&place, None)?, place })
    }

    /// What is at `path`.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, HttpError> {
        self.read(path, self.run(&Method::GET, path, ())?)
    }

    /// What the server answers to `body`: what is made of it, and the answer as it was written.
    pub fn send_and_read<T: DeserializeOwned, U>(
        &self,
        method: &Method,
        path: &str,
        body: &impl Serialize,
        made: impl FnOnce(T) -> U,
    ) -> Result<(U, Box<RawValue>), HttpError> {
        let body = serde_json::to_vec(body).map_err(HttpError::Body)?;
        self.read_both(path, self.run(method, path, body)?, made)
    }

    /// The same for a request without a body.
    pub fn call_and_read<T: DeserializeOwned, U>(
        &self,
        method: &Method,
        path: &str,
        made: impl FnOnce(T) -> U,
    ) -> Result<(U, Box<RawValue>), HttpError> {
        self.read_both(path, self.run(method, path, ())?, made)
    }

    /// What is at `path`, as it comes.
    pub fn open(&self, path: &str) -> Result<impl Read + use<>, HttpError> {
        let response = self.run(&Method::GET, path, ())?;
        if response.status() == StatusCode::OK {
            return Ok(response.into_body().into_reader());
        }
        Err(self.refused(path, &self.reply(response)?))
    }

    fn run(
        &self,
        method: &Method,
        path: &str,
        body: impl AsSendBody,
    ) -> Result<Response<Body>, HttpError> {
        let url = &self.place.url;
        let mut request =
            Request::builder().method(method).uri(url.at(path)).header("content-type", JSON);
        if let Some(SecretText(token)) = &self.place.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(body).map_err(|_| HttpError::Token)?;
        self.agent.run(request).map_err(|error| self.failure(error))
    }

    fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        response: Response<Body>,
    ) -> Result<T, HttpError> {
        let reply = self.good(path, response)?;
        reply.parse().ok_or_else(|| self.strange(path, &reply))
    }

    fn read_both<T: DeserializeOwned, U>(
        &self,
        path: &str,
        response: Response<Body>,
        made: impl FnOnce(T) -> U,
    ) -> Result<(U, Box<RawValue>), HttpError> {
        let reply = self.good(path, response)?;
        let read = || Some((made(reply.parse()?), reply.parse()?));
        read().ok_or_else(|| self.strange(path, &reply))
    }

    fn good(&self, path: &str, response: Response<Body>) -> Result<Reply, HttpError> {
        let reply = self.reply(response)?;
        if reply.status == StatusCode::OK { Ok(reply) } else { Err(self.refused(path, &reply)) }
    }

    fn reply(&self, response: Response<Body>) -> Result<Reply, HttpError> {
        let (head, mut body) = response.into_parts();
        let kind = head.headers.get("content-type").and_then(|it| it.to_str().ok());
        let is_problem = kind.is_some_and(|kind| kind.starts_with(PROBLEM));
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.failure(error))?;
        Ok(Reply { status: head.status, is_problem, body })
    }

    /// What the server says is wrong, or that it is no such server.
    fn refused(&self, path: &str, reply: &Reply) -> HttpError {
        let problem = reply.is_problem.then(|| reply.parse::<Problem>()).flatten();
        let Some(problem) = problem else { return self.strange(path, reply) };
        let problem = Box::new(problem);
        match reply.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let had_token = self.place.token.is_some();
                HttpError::NotAllowed { problem, had_token }
            }
            // Only a file of overrides is ever that long.
            StatusCode::PAYLOAD_TOO_LARGE => HttpError::TooLong { problem },
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => HttpError::Refused { problem, is_busy: true },
            // Others, such as a full disk, do not pass by waiting.
            _ => HttpError::Refused { problem, is_busy: false },
        }
    }

    /// A part of an answer that is not what such a server says.
    pub fn strange_part(&self, path: &str, part: &str) -> HttpError {
        let reply = Reply { status: StatusCode::OK, is_problem: false, body: part.into() };
        self.strange(path, &reply)
    }

    fn strange(&self, path: &str, reply: &Reply) -> HttpError {
        let url = self.place.url.clone();
        HttpError::Strange { url, path: path.to_owned(), reply: reply.to_string() }
    }

    fn failure(&self, error: ureq::Error) -> HttpError {
        HttpError::new(&self.place, error)
    }
}

fn agent(place: &Place, whole: Option<Duration>) -> Result<Agent, HttpError> {
    let timeout: Duration = place.timeout.into();
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        // A server of ours never sends elsewhere, and a token is not for others.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(USER_AGENT)
        .timeout_global(whole)
        .timeout_per_read(Some(timeout))
        .timeout_recv_response(Some(timeout))
        .timeout_connect(Some(timeout.min(CONNECT_TIME_MAX)));
    if place.url.is_https() {
        config = config.tls_config(place.tls.load()?);
    }
    Ok(config.build().new_agent())
}
