//! The log: structured lines on standard error.
//!
//! They are written by a thread of their own, so that a door never waits for whoever reads them.
//! Where that is too slow, lines are lost rather than answers.

use std::fmt::{Debug, Display};

use tracing::field::Field;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::settings::{Level, LogSettings};
use crate::shown::write_shown;

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
        log.with_ansi(is_terminal).fmt_fields(debug_fn(write_field).delimited(" ")).try_init()
    };
    LogGuard { _guard: guard }
}

/// Has panics told as lines of the log, where nothing else may be written.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| log_error(format_args!("this is a bug: {panic}"))));
}

/// Tells in the log why the process ends.
pub fn log_error(error: impl Display) {
    tracing::error!("{error}");
}

/// Writes a field so that nothing in it can begin a line, move a cursor or turn text around: ids are any text, and many
/// are chosen by clients. Only a message may have several lines, such as the faults of a file, and
/// those that follow the first are indented.
fn write_field(to: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    let is_message = field.name() == "message";
    if !is_message {
        write!(to, "{}=", field.name())?;
    }
    for c in format!("{value:?}").chars() {
        match c {
            '\n' if is_message => to.write_str("\n    ")?,
            c => write_shown(to, c)?,
        }
    }
    Ok(())
}

/// Standard error, written by a thread of its own.
pub(crate) fn writer() -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_MAX)
        .lossy(true)
        .thread_name("log")
        .finish(std::io::stderr())
}

#[cfg(test)]
mod tests;
