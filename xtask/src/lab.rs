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

/// The benchmark that measures whole programs.
const ALL: &str = "all";

pub(crate) fn run(name: &str, args: &Args) -> Result<(), Error> {
    let is_all = args.rest.first().is_some_and(|first| first == ALL);
    let features: &[&str] = if is_all { &["--features", "peers"] } else { &[] };
    if is_all {
        prepare_all()?;
    }
    let mut words = vec!["run", "--quiet", "--release", "--locked", "--package", "lab"];
    words.extend(features);
    words.extend(["--", name]);
    words.extend(args.rest.iter().map(String::as_str));
    run_command(command("cargo", &words))
}

/// Counts with valgrind, and has it installed first.
pub(crate) fn gate(args: &Args) -> Result<(), Error> {
    ensure_program("valgrind", &["--version"], "valgrind")?;
    run("gate", args)
}

/// Builds `ratekeeper` as it is shipped, and has the programs that it is measured beside, if they can be
/// had: the rest is measured without them.
fn prepare_all() -> Result<(), Error> {
    ensure_program("taskset", &["--version"], "util-linux")?;
    // The last builds throttlecrab.
    let programs = [
        ("redis-server", "redis-server"),
        ("redis-benchmark", "redis-tools"),
        ("protoc", "protobuf-compiler"),
    ];
    for (program, package) in programs {
        if let Err(error) = ensure_program(program, &["--version"], package) {
            eprintln!("what needs {program} will not be measured: {error}");
        }
    }
    run_command(command(
        "cargo",
        &["build", "--release", "--locked", "--package", "ratekeeper-cli"],
    ))
}
