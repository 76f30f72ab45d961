//! A server with an HTTP door only, and somebody who asks it.

use std::path::PathBuf;
use std::sync::Arc;

use ratekeeper::{Moment, Nanos};
use ratekeeper_server::Server;
use ratekeeper_server::settings::Settings;
use serde_json::Value;
use ureq::http::{HeaderMap, Request};

use super::conformance::{check, operation};
use crate::support::{Folder, PATIENCE, StandingTime, settings, start};

/// When it is as long as nobody moves the time.
pub(super) const NOW: u64 = 1_700_000_000;

/// A server in a time that stands still.
pub(super) struct Asked {
    pub(super) server: Server,
    pub(super) time: Arc<StandingTime>,
    agent: ureq::Agent,
    base: String,
    /// What the server says about its API: every answer has to be one that it tells about.
    document: Value,
    folder: Folder,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Asked {
    /// With the starter limits.
    pub(super) fn starter() -> Self {
        Self::with(|_, _| ())
    }

    /// With a limits file.
    pub(super) fn limits(text: &str) -> Self {
        Self::with(|settings, folder| settings.limits = Some(folder.write("limits.yaml", text)))
    }

    /// With settings that differ.
    pub(super) fn with(set: impl FnOnce(&mut Settings, &Folder)) -> Self {
        let folder = Folder::new();
        let mut settings = settings();
        settings.udp.listen = None;
        settings.bucket.stream.listen = None;
        settings.throttr.stream.listen = None;
        settings.resp.listen = None;
        settings.workers = std::num::NonZeroUsize::new(2);
        set(&mut settings, &folder);
        let time = StandingTime::at_secs(NOW);
        let server = start(&settings, Arc::clone(&time) as _);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .allow_non_standard_methods(true)
            .build();
        let base = format!("http://{}", server.address("http").unwrap());
        let document = Value::Null;
        let mut asked = Self { server, time, agent: config.into(), base, document, folder };
        asked.document = asked.get("/openapi.json").json();
        asked
    }

    /// Sets the time to this long after the start.
    pub(super) fn at(&self, after: Nanos) {
        self.time.set(Moment::from_nanos(NOW * 1_000_000_000).after(after));
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, &[])
    }

    /// Posts what must be answered with 200.
    pub(super) fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.send("POST", path, Some(&body.to_string()), &[]);
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text);
        answer.json()
    }

    /// Spends one token.
    pub(super) fn spend(&self, limit: &str, id: &str) -> Value {
        self.post("/v1/spend", &serde_json::json!({ "limit": limit, "id": id }))
    }

    /// Puts what must be answered with 200.
    pub(super) fn put(&self, path: &str, body: &Value) -> Value {
        let answer = self.send("PUT", path, Some(&body.to_string()), &[]);
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text);
        answer.json()
    }

    /// The problem that a request is answered with.
    pub(super) fn refused(&self, method: &str, path: &str, body: Option<&str>) -> Value {
        self.send(method, path, body, &[]).problem()
    }

    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = match body {
            Some(body) => self.agent.run(request.body(body.to_owned()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let mut response = sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let text = response.body_mut().read_to_string().unwrap();
        let headers = response.headers().clone();
        let answer = Answer { status: response.status().as_u16(), headers, text };
        self.check(method, path, &answer);
        answer
    }

    fn check(&self, method: &str, path: &str, answer: &Answer) {
        if self.document.is_null() || answer.status == 304 {
            return;
        }
        let Some(operation) = operation(&self.document, method, path) else { return };
        let content_type = answer.header("content-type").unwrap_or_default();
        let told = (answer.status, content_type, answer.text.as_str());
        if let Err(what) = check(&self.document, operation, told) {
            panic!("{method} {path}: {what}\n{}", answer.text);
        }
    }

    /// A folder of the test's own, for whatever it is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(super) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text);
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{}: {error}", self.text))
    }

    /// The problem, of which everything is there that every problem has.
    pub(super) fn problem(&self) -> Value {
        let text = &self.text;
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{text}");
        let problem: Value = serde_json::from_str(text).unwrap();
        assert_eq!(problem["status"], self.status, "{text}");
        for field in ["title", "detail", "rule"] {
            assert!(problem[field].as_str().is_some_and(|it| !it.is_empty()), "{field}: {text}");
        }
        assert!(problem["type"].as_str().is_some_and(|it| it.starts_with("/api#")), "{text}");
        problem
    }
}

/// Whether a problem is of this kind, about this field.
pub(super) fn assert_problem(problem: &Value, slug: &str, field: Option<&str>) {
    assert_eq!(problem["type"], format!("/api#{slug}"), "{problem}");
    assert_eq!(problem.get("field").and_then(Value::as_str), field, "{problem}");
}
