//! `ratekeeper state`: what was spent, moved from one place to another.

pub(crate) mod args;
mod export;
mod import;

use ratekeeper::{Clock, Moment, Nanos};
use ratekeeper_console::say;
use ratekeeper_server::settings::{Level, LogSettings};
use ratekeeper_server::{LogGuard, start_log};

use crate::error::{Error, Exit};

pub(crate) use args::State;

/// After how long it is said how far it has come, and how often then.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// Does what is asked for.
pub(crate) fn run(state: &State) -> Result<Exit, Error> {
    let done = match state {
        State::Export(export) => export::run(export),
        State::Import(import) => import::run(import),
    };
    done.map(|()| Exit::Allowed)
}

/// Has what is noticed about a state directory told to whoever is there.
fn start_warnings() -> LogGuard {
    start_log(LogSettings { level: Level::Warn, json: false })
}

/// Says how far something has come, if it takes long.
struct Progress {
    clock: Clock,
    told: Moment,
}

impl Progress {
    fn begin() -> Self {
        let clock = Clock::start();
        Self { told: clock.now(), clock }
    }

    fn at(&mut self, count: u64, doing: &str) {
        let now = self.clock.now();
        if now.since(self.told) >= PATIENCE {
            self.told = now;
            say(format_args!("{count} {doing} ..."));
        }
    }
}

/// `1 bucket`, `2 buckets`.
fn buckets(count: u64) -> String {
    format!("{count} bucket{}", if count == 1 { "" } else { "s" })
}
