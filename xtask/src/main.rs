//! The project's own commands: `cargo xtask test`, `cargo xtask tidy`.
//!
//! Each command is a file of its own with a `run`; this one only parses, dispatches and exits.

mod error;
mod install;
mod process;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the whole check: formatting, lints, tests, documentation and house rules
    Test,
    /// Check the house rules that compiler and lints do not know
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test => test::run(),
        Command::Tidy => tidy::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.with_causes());
            ExitCode::FAILURE
        }
    }
}
