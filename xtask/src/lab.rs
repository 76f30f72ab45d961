//! `cargo xtask oracle`, `memory`, `bench` and `gate`: commands that need an optimised build, and so are a
//! program of their own.

use crate::error::Error;
use crate::install::ensure_program;
use crate::process::{command, run as run_command};

/// What the command is told; `--help` is answered by the command itself.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(name: &str, args: &Args) -> Result<(), Error> {
    let mut words = vec!["run", "--quiet", "--release", "--locked", "--package", "lab", "--", name];
    words.extend(args.rest.iter().map(String::as_str));
    run_command(command("cargo", &words))
}

/// Counts with valgrind, and has it installed first.
pub(crate) fn gate(args: &Args) -> Result<(), Error> {
    ensure_program("valgrind", &["--version"], "valgrind")?;
    run("gate", args)
}
