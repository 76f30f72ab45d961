//! What a wait looks like to whoever watches with `tracing`.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratekeeper_tracker::Nanos;
use ratekeeper_tracker::profile::{Profile, Refill};
use ratekeeper_tracker::{Gate, Request, Response, SendPermit, Strategy};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const REQUEST: (&str, &str) = ("GET", "/things/17");

/// A span or an event that was seen.
#[derive(Clone, Debug)]
struct Seen {
    name: &'static str,
    level: Level,
    fields: Vec<(&'static str, String)>,
    /// For an event, the span in which it happened.
    within: Option<u64>,
    id: u64,
}

impl Seen {
    #[track_caller]
    fn field(&self, name: &str) -> &str {
        let field = self.fields.iter().find(|(known, _)| *known == name);
        &field.unwrap_or_else(|| panic!("no field {name} in {self:?}")).1
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.push((field.name(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.to_owned()));
    }
}

/// Writes down what the tracker tells.
#[derive(Clone, Default)]
struct Watcher {
    spans: Arc<Mutex<Vec<Seen>>>,
    events: Arc<Mutex<Vec<Seen>>>,
    entered: Arc<Mutex<Vec<u64>>>,
    next_id: Arc<AtomicU64>,
}

impl Watcher {
    fn see(&self, metadata: &'static Metadata<'static>) -> Seen {
        Seen {
            name: metadata.name(),
            level: *metadata.level(),
            fields: Vec::new(),
            within: lock(&self.entered).last().copied(),
            id: self.next_id.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    fn spans(&self) -> Vec<Seen> {
        lock(&self.spans).clone()
    }

    fn events(&self) -> Vec<Seen> {
        lock(&self.events).clone()
    }
}

impl Subscriber for Watcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ratekeeper_tracker")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut seen = self.see(span.metadata());
        span.record(&mut seen);
        let id = Id::from_u64(seen.id);
        lock(&self.spans).push(seen);
        id
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut seen = self.see(event.metadata());
        event.record(&mut seen);
        lock(&self.events).push(seen);
    }

    fn enter(&self, span: &Id) {
        lock(&self.entered).push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        lock(&self.entered).retain(|id| *id != span.into_u64());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gate() -> Gate {
    let refill = Refill::Fixed { precision: Nanos::new(1_000_000) };
    let profile = Profile { name: "things", refill, ..Profile::generic() };
    let deadline = Duration::from_mins(1);
    Gate::new(profile).with(Strategy::Wait { queue: 10, deadline })
}

async fn acquire(gate: &Gate) -> SendPermit {
    gate.acquire(&Request::new(REQUEST.0, REQUEST.1)).await.expect("there is room in the line")
}

fn answer(mut permit: SendPermit, status: u16, left: &str) {
    permit.sent();
    let fields = [
        ("x-ratelimit-limit", b"5".as_slice()),
        ("x-ratelimit-remaining", left.as_bytes()),
        ("x-ratelimit-reset-after", b"3.000"),
        ("x-ratelimit-bucket", b"abcd"),
    ];
    permit.track(Response { status, fields, body: None });
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_a_span_that_says_whose_limit_which_bucket_and_how_long() {
    let watcher = Watcher::default();
    let _watching = tracing::subscriber::set_default(watcher.clone());
    let gate = gate();
    answer(acquire(&gate).await, 200, "0");
    assert!(watcher.spans().is_empty(), "nobody has waited");
    let waited = acquire(&gate).await.waited();

    let spans = watcher.spans();
    let [wait] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((wait.name, wait.level), ("wait", Level::DEBUG));
    assert_eq!(wait.field("scope"), "User");
    assert_eq!(wait.field("bucket"), "abcd = things");
    assert_eq!(wait.field("reason"), "Spent");
    // A millisecond is for the rounding.
    assert_eq!(wait.field("retry_in"), "3s1ms");

    let events = watcher.events();
    let [end] = &events[..] else { panic!("{events:?}") };
    assert_eq!((end.level, end.within), (Level::DEBUG, Some(wait.id)), "it is in the span");
    assert_eq!(end.field("waited"), waited.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_and_a_refusal_are_told_as_well() {
    let watcher = Watcher::default();
    let _watching = tracing::subscriber::set_default(watcher.clone());
    let gate = gate();
    answer(acquire(&gate).await, 200, "0");
    let strategy = Strategy::Wait { queue: 10, deadline: Duration::from_secs(5) };
    let (short, anyway) = (gate.with(strategy), gate.with(Strategy::SendAnyway));
    let request = Request::new(REQUEST.0, REQUEST.1);
    let refuse = async {
        let mut permit = anyway.acquire(&request).await.expect("it is sent");
        permit.sent();
        let fields = [("retry-after", b"60".as_slice()), ("x-ratelimit-bucket", b"abcd")];
        permit.track(Response { status: 429, fields, body: None });
    };
    let (in_vain, ()) = tokio::join!(short.acquire(&request), refuse);
    assert!(in_vain.is_err());

    let events = watcher.events();
    let [refused, end] = &events[..] else { panic!("{events:?}") };
    assert_eq!((refused.level, refused.field("bucket")), (Level::WARN, "abcd = things"));
    assert_eq!(end.within, watcher.spans().first().map(|wait| wait.id));
    assert!(end.field("refused").contains("try again in"), "{end:?}");
}
