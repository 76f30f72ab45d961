//! Servers that share their buckets in a real Redis.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^53 asks")]

mod away;
mod cluster;
mod lifetimes;
mod load;
mod proxy;
mod refused;
mod sentinel;
mod shared;
mod silent;
mod trips;

#[path = "../../../ratekeeper-redis/tests/it/servers/mod.rs"]
#[allow(dead_code, unused_imports, reason = "another program uses the rest")]
mod servers;
#[path = "../server/support.rs"]
#[allow(dead_code, reason = "another program uses the rest")]
mod support;

use std::sync::Arc;

use ratekeeper::{Clock, Moment, Nanos};
use ratekeeper_server::settings::Settings;
use ratekeeper_server::{Server, Time};

use servers::Single;
use support::{Folder, settings, start};

/// A clock that is wrong.
struct Skewed {
    clock: Clock,
    ahead_secs: i64,
}

impl Time for Skewed {
    fn now(&self) -> Moment {
        let length = Nanos::from_secs(self.ahead_secs.unsigned_abs());
        match self.ahead_secs {
            0.. => self.clock.now().after(length),
            _ => self.clock.now().before(length),
        }
    }
}

/// Settings of servers with these limits that share the buckets of `redis`.
fn sharing(redis: &Single, folder: &Folder, limits: &str) -> Settings {
    sharing_at(&redis.url(), folder, limits)
}

/// Settings of servers with these limits that share the buckets at an address.
fn sharing_at(url: &str, folder: &Folder, limits: &str) -> Settings {
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", limits));
    let rules = "rules: [{match: '^shared (.+)$', use: Shared}]";
    if limits.contains("Shared:") {
        settings.udp.rules = Some(folder.write("rules.yaml", rules));
    }
    settings.throttr.named_limits = true;
    settings.store.address = Some(url.parse().unwrap());
    // The machine may be busy with other tests.
    settings.store.timeout = servers::GENEROUS;
    settings.workers = std::num::NonZeroUsize::new(2);
    settings
}

/// A server whose clock is ahead by so many seconds.
fn start_ahead(settings: &Settings, ahead_secs: i64) -> Server {
    start(settings, Arc::new(Skewed { clock: Clock::start(), ahead_secs }))
}
