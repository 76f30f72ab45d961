//! A server on a free port, somebody who keeps it busy, and a browser that shows its page.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Clock;
use ratekeeper_server::settings::{SecretText, Settings};
use ratekeeper_server::{Server, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::Agent;

use crate::driver::{Browser, ConsoleLine};

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many transactions one request may have.
pub(crate) const BATCH_MAX: usize = 1024;

/// Of the browser's window, in pixels.
const WIDTH: u32 = 1280;
const HEIGHT: u32 = 1200;

/// The tokens of every server here, as in the environment.
const TOKENS: &str = "ops admin a-token-that-may-do-all;viewer read a-token-that-may-look";
pub(crate) const ADMIN: &str = "a-token-that-may-do-all";
pub(crate) const VIEWER: &str = "a-token-that-may-look";

/// What is looked at of an answer.
#[derive(Deserialize)]
struct Answer {
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    allowed: bool,
}

/// A server.
pub(crate) struct Stage {
    settings: Settings,
    server: Option<Server>,
    agent: Agent,
    pub(crate) address: SocketAddr,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(Arc::new(Clock::start()), |_| ())
    }

    pub(crate) fn with(time: Arc<dyn Time>, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        settings.http.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        settings.http.tokens_text = Some(SecretText(TOKENS.to_owned()));
        settings.udp.listen = None;
        settings.bucket.stream.listen = None;
        settings.throttr.stream.listen = None;
        settings.resp.listen = None;
        change(&mut settings);
        let server = Server::start(&settings, time).unwrap();
        let address = server.address("http").unwrap();
        settings.http.listen = Some(address);
        let config = Agent::config_builder().http_status_as_error(false);
        let agent = config.timeout_global(Some(PATIENCE)).build().new_agent();
        Self { settings, server: Some(server), agent, address }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn stop(&mut self) {
        let server = self.server.take().unwrap();
        assert!(server.drain(PATIENCE).unwrap(), "somebody would not go");
    }

    /// Starts it again, in the same place.
    pub(crate) fn start_again(&mut self) {
        self.server = Some(Server::start(&self.settings, Arc::new(Clock::start())).unwrap());
    }

    /// Spends one token of each, and says how many passed.
    pub(crate) fn spend<'a>(&self, asks: impl IntoIterator<Item = (&'a str, String)>) -> usize {
        let ask = |(limit, id)| json!({"op": "spend", "limit": limit, "id": id});
        let transactions: Vec<Value> = asks.into_iter().map(ask).collect();
        let request = self.agent.post(self.url("/v1/batch"));
        let request = request.header("Authorization", format!("Bearer {ADMIN}"));
        let mut answer = request.send_json(json!({"transactions": transactions})).unwrap();
        assert_eq!(answer.status(), 200);
        let answer: Answer = answer.body_mut().with_config().limit(u64::MAX).read_json().unwrap();
        answer.results.iter().filter(|result| result.allowed).count()
    }

    /// The text at a path.
    pub(crate) fn read(&self, path: &str) -> String {
        let request = self.agent.get(self.url(path));
        let mut answer = request.header("Authorization", format!("Bearer {ADMIN}")).call().unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.body_mut().read_to_string().unwrap()
    }

    /// A browser that shows the page, signed in with a token.
    pub(crate) fn visit(&self, token: &str) -> Visit {
        let visit = Visit(Browser::open(WIDTH, HEIGHT));
        visit.go_to(&self.url("/"));
        visit.wait_for_connection("denied");
        visit.fill("#token-input", token);
        visit.click("#token-form button[type=submit]");
        visit.wait_for_connection("live");
        // Refusing to show itself without a token is no mistake of the page.
        visit.expect_console(|line| line.source == "network" && line.message.contains("401"));
        visit
    }
}

/// A browser that shows the page.
pub(crate) struct Visit(Browser);

impl Deref for Visit {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.0
    }
}

impl Visit {
    pub(crate) fn click(&self, css: &str) {
        self.find(css).click();
    }

    /// Writes a text in place of what is in a field.
    pub(crate) fn fill(&self, css: &str, text: &str) {
        let field = self.find(css);
        field.clear();
        field.type_text(text);
    }

    pub(crate) fn attribute(&self, css: &str, name: &str) -> Option<String> {
        self.find_all(css).first()?.attribute(name)
    }

    /// A number in an attribute; nothing while it is unknown.
    pub(crate) fn number(&self, css: &str, name: &str) -> Option<f64> {
        self.attribute(css, name)?.parse().ok()
    }

    /// How many points the chart of all limits has, if it has any.
    pub(crate) fn points(&self) -> Option<f64> {
        self.number("#chart-all", "data-points").filter(|points| *points > 0.0)
    }

    pub(crate) fn wait_for_connection(&self, state: &str) {
        self.wait_for_state("#connection", state);
    }

    pub(crate) fn wait_for_state(&self, css: &str, state: &str) {
        self.wait(&format!("{css} is {state}"), |_| {
            (self.attribute(css, "data-state").as_deref() == Some(state)).then_some(())
        });
    }

    /// Refuses what is on the console since the last time, but for lines of a kind.
    pub(crate) fn expect_console(&self, is_expected: impl Fn(&ConsoleLine) -> bool) {
        let lines = self.console();
        let wrong: Vec<_> = lines.into_iter().filter(|line| !is_expected(line)).collect();
        assert!(wrong.is_empty(), "the console says {wrong:#?}");
    }
}
