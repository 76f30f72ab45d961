//! The project's own commands: `cargo xtask test`, `tidy`, `house`, `fuzz-api`, `screenshot`, `oracle`, `memory`,
//! `bench`, `gate`.
//!
//! Each command is a file of its own with a `run`; this one only parses, dispatches and exits.

mod error;
mod fuzz_api;
mod install;
mod lab;
mod process;
mod screenshot;
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
    /// Print figures of the code: lines, types and their names
    House,
    /// Compare what the HTTP door answers with what its own document says, on made-up requests
    FuzzApi(fuzz_api::Args),
    /// Draw the live page again, for the README
    Screenshot,
    /// Compare the limiter with the exact oracle on random traffic (--decisions N --seed N)
    Oracle(lab::Args),
    /// Measure the memory of 10 million keys, and of a flood under a cap
    Memory(lab::Args),
    /// Measure speed: `bench all`, `engine`, `udp`, `crowd`, `saved`, `redis` or `tracker`
    Bench(lab::Args),
    /// Count instructions, and compare them with those on record (--update)
    Gate(lab::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test => test::run(),
        Command::Tidy => tidy::run(),
        Command::House => tidy::print_figures(),
        Command::FuzzApi(args) => fuzz_api::run(&args),
        Command::Screenshot => screenshot::run(),
        Command::Oracle(args) => lab::run("oracle", &args),
        Command::Memory(args) => lab::run("memory", &args),
        Command::Bench(args) => lab::run("bench", &args),
        Command::Gate(args) => lab::gate(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.with_causes());
            ExitCode::FAILURE
        }
    }
}
