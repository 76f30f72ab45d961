//! What takes long or needs an optimised build. `cargo xtask oracle`, `memory`, `bench`
//! and `gate` run it.

mod bench;
mod gate;
mod memory;
mod oracle;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare the limiter with the exact oracle on random traffic
    Oracle(oracle::Args),
    /// Measure the memory of 10 million keys, and of a flood under a cap
    Memory(memory::Args),
    /// Measure speed
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Count instructions by callgrind, and compare them with those on record
    Gate(gate::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Oracle(args) => oracle::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Bench(bench) => bench::run(&bench),
        Command::Gate(args) => gate::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
