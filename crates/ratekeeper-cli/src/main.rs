//! The binary `ratekeeper`.

mod answer;
mod args;
mod ask;
mod banner;
mod check;
mod counted;
mod environment;
mod error;
mod error_output;
mod files;
mod overrides;
mod replay;
mod serve;
mod source;
mod state;
mod stats;
mod top;

use std::process::ExitCode;

fn main() -> ExitCode {
    match args::Command::parse() {
        Ok(command) => command.run(),
        Err(usage) => error_output::print_usage(&usage),
    }
}
