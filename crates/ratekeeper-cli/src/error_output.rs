//! The output of a command that fails: usage for people, and errors as JSON for programs.

use std::ffi::OsString;
use std::process::ExitCode;

use ratekeeper_console::Output;
use ratekeeper_server::log_error;

use crate::error::Exit;
use crate::serve;

#[derive(serde::Serialize)]
struct JsonError<'a> {
    error: &'a str,
    exit: u8,
}

/// Tells a program what went wrong, on standard output, where it reads.
pub(crate) fn print_error(error: &str, exit: Exit) {
    let mut output = Output::stdout();
    // If nobody reads it, the exit code still says it.
    let _ = output.json(&JsonError { error, exit: exit as u8 }).and_then(|()| output.finish());
}

/// Whether the arguments ask for JSON, even if other arguments are wrong.
pub(crate) fn is_for_programs() -> bool {
    let arguments: Vec<_> = std::env::args_os().skip(1).take_while(|it| it != "--").collect();
    let is_json = |pair: &[OsString]| pair[0] == "--format" && pair[1] == "json";
    arguments.windows(2).any(is_json) || arguments.iter().any(|it| it == "--format=json")
}

/// Prints the help that was asked for, or what is wrong with the arguments.
pub(crate) fn print_usage(usage: &clap::Error) -> ExitCode {
    if usage.use_stderr() && serve::is_json_log_asked_for() == Some(true) {
        let _log = serve::start_json_log();
        log_error(usage.render().to_string().trim());
        return Exit::Mistake.into();
    }
    if usage.use_stderr() && is_for_programs() {
        let words = usage.render().to_string();
        let error = words.trim().strip_prefix("error: ").unwrap_or(words.trim());
        print_error(error, Exit::Mistake);
    }
    // As above: a closed pipe is no failure.
    let _ = usage.print();
    if usage.use_stderr() { Exit::Mistake.into() } else { Exit::Allowed.into() }
}
