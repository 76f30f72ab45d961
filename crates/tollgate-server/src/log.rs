//! The log: structured lines on standard error.
//!
//! They are written by a thread of their own, so that a door never waits for whoever reads them.
//! Where that is too slow, lines are lost rather than answers.

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use crate::settings::{Level, LogSettings};

/// How many lines may wait to be written.
const LINES_MAX: usize = 1 << 14;

/// Writes what is left of a log when it is dropped, if somebody reads it.
#[must_use = "the log ends when this is dropped"]
pub struct LogGuard {
    _guard: WorkerGuard,
}

/// Starts to write the log of this process to standard error. Does nothing if somebody else has
/// started one.
pub fn start_log(settings: LogSettings) -> LogGuard {
    let level = match settings.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let (writer, guard) = writer();
    let log = fmt().with_max_level(level).with_writer(writer).with_target(false);
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let _already_started = if settings.json {
        log.json().flatten_event(true).try_init()
    } else {
        log.with_ansi(is_terminal).try_init()
    };
    LogGuard { _guard: guard }
}

/// Standard error, written by a thread of its own.
pub(crate) fn writer() -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_MAX)
        .lossy(true)
        .thread_name("log")
        .finish(std::io::stderr())
}
