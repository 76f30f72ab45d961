//! The log: structured lines on standard error.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use crate::settings::{Level, LogSettings};

/// Starts to write the log of this process to standard error. Does nothing if somebody else has
/// started one.
pub fn start_log(settings: LogSettings) {
    let level = match settings.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let log = fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let _already_started = if settings.json {
        log.json().flatten_event(true).try_init()
    } else {
        log.with_ansi(is_terminal).try_init()
    };
}
