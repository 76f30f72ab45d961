//! The binary `ratekeeper`.

mod answer;
mod args;
mod ask;
mod banner;
mod bench;
mod check;
mod client;
mod counted;
mod environment;
mod error;
mod files;
mod output;
mod overrides;
mod replay;
mod secret;
mod serve;
mod state;
mod stats;
mod table;
mod top;

use std::process::ExitCode;

fn main() -> ExitCode {
    match args::Command::parse() {
        Ok(command) => command.run(),
        Err(usage) => output::print_usage(&usage),
    }
}
