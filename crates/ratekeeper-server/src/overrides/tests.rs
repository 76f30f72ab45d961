//! Overrides of whole servers, in virtual time, with a state directory of their own.

mod bounds;
mod crash;
mod crowd;
mod durable;
mod expiry;
mod files;
mod rules;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ratekeeper::{Moment, Nanos};

use super::{Changed, NewOverride, OverrideError, Record, Who};
use crate::server::Server;
use crate::settings::Settings;
use crate::transport::Time;

/// Some moment of the year 2023.
const START: u64 = 1_700_000_000;
const WHO: Who<'_> = Who { by: "ops", from: None };

/// A time that stands still until it is moved.
struct StandingTime {
    now: AtomicU64,
    /// By how much the wall clock is ahead.
    wall_ahead: AtomicU64,
}

impl Time for StandingTime {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.now.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Moment {
        self.now().after(Nanos::new(self.wall_ahead.load(Ordering::SeqCst).into()))
    }
}

/// A folder with limits, and a state directory unless it is forgetful; it goes when this does.
struct OverridesFixture {
    folder: PathBuf,
    settings: Settings,
    time: Arc<StandingTime>,
}

impl OverridesFixture {
    /// With a limit of 5 per hour for whoever, one for addresses, and one override in a file.
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ratekeeper-overrides-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut settings = Settings::default();
        settings.udp.listen = None;
        settings.http.listen = None;
        settings.throttr.stream.listen = None;
        settings.resp.listen = None;
        settings.bucket.stream.listen = Some("127.0.0.1:0".parse().unwrap());
        settings.memory = 64 << 20;
        settings.workers = std::num::NonZeroUsize::new(1);
        settings.state = Some(folder.join("state"));
        settings.limits = Some(folder.join("limits.yaml"));
        settings.overrides = Some(folder.join("overrides.yaml"));
        settings.bucket.buckets = Some(folder.join("buckets.conf"));
        let time = Arc::new(StandingTime {
            now: AtomicU64::new(START * 1_000_000_000),
            wall_ahead: AtomicU64::new(0),
        });
        let fixture = Self { folder, settings, time };
        fixture.write("limits.yaml", LIMITS);
        fixture.write("buckets.conf", "bucketa 5\n");
        fixture.write("overrides.yaml", "Orders:eve: {burst: 2, count: 5, period: 1h}\n");
        fixture
    }

    /// The same without a state directory.
    fn forgetful() -> Self {
        let mut fixture = Self::new();
        fixture.settings.state = None;
        fixture
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap();
    }

    fn start(&self) -> Server {
        Server::start(&self.settings, Arc::clone(&self.time) as _).unwrap()
    }

    /// Stops without saving, as a crash does.
    fn restart(&self, server: Server) -> Server {
        drop(server);
        self.start()
    }

    fn state(&self, file: &str) -> PathBuf {
        self.folder.join("state").join(file)
    }

    /// Moves the time to so many nanoseconds after the start.
    fn set(&self, after: Nanos) {
        let moment = Moment::from_nanos(START * 1_000_000_000).after(after);
        self.time.now.store(moment.as_nanos(), Ordering::SeqCst);
    }

    /// Sets the wall clock ahead of the one of buckets.
    fn set_wall_ahead(&self, by: Nanos) {
        self.time.wall_ahead.store(u64::try_from(by.get()).unwrap(), Ordering::SeqCst);
    }
}

impl Drop for OverridesFixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const LIMITS: &str = "
Orders: {burst: 5, count: 5, period: 1h}
Visits: {burst: 5, count: 5, period: 1h, id: ipAddress}
";

/// An override of `burst` per hour.
fn hourly(limit: &str, id: &str, burst: u64) -> NewOverride {
    NewOverride {
        limit: limit.to_owned(),
        id: id.to_owned(),
        burst,
        count: burst,
        period: Nanos::from_secs(3600),
        why: "they asked".to_owned(),
        until: None,
        may_lower: false,
    }
}

fn put(server: &Server, id: &str, burst: u64) -> Result<Changed, OverrideError> {
    server.put_override(hourly("Orders", id, burst), WHO, false)
}

fn remove(server: &Server, id: &str) -> Result<Changed, OverrideError> {
    server.remove_override("Orders", id, "no longer needed", WHO, false)
}

/// How many tokens are left.
fn left(server: &Server, id: &str) -> u64 {
    let limiter = &server.engine().stores.limiter;
    limiter.check("Orders", id, 0, server.time().now()).unwrap().remaining
}

fn spend(server: &Server, id: &str, cost: u64) -> bool {
    let limiter = &server.engine().stores.limiter;
    limiter.spend("Orders", id, cost, server.time().now()).unwrap().allowed
}

fn audit(server: &Server) -> Vec<Record> {
    server.audit(super::AUDIT_LAST_MAX).unwrap()
}
