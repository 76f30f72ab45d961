//! Running other programs in the root of the workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::error::Error;

/// The folder that holds the workspace.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// The folder that cargo builds in.
pub(crate) fn target() -> Result<PathBuf, Error> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let metadata =
        output(command("cargo", &["metadata", "--format-version=1", "--no-deps", "--locked"]))?;
    let metadata: Metadata = serde_json::from_slice(&metadata).map_err(Error::Metadata)?;
    Ok(metadata.target_directory)
}

/// A program with its arguments, to be run in the root.
///
/// It reads nothing: a check that asks a question would hang where nobody can answer.
pub(crate) fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs `command` with our own output; refuses any ending but success.
pub(crate) fn run(mut command: Command) -> Result<(), Error> {
    let name = spelled(&command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Failed { command: name, status }),
        Err(source) => Err(Error::Start { command: name, source }),
    }
}

/// Runs `command` and returns what it wrote; refuses any ending but success.
pub(crate) fn output(mut command: Command) -> Result<Vec<u8>, Error> {
    let name = spelled(&command);
    match command.stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(Error::Failed { command: name, status: output.status }),
        Err(source) => Err(Error::Start { command: name, source }),
    }
}

/// Whether `command` can be run and succeeds; what it writes is dropped.
pub(crate) fn succeeds(mut command: Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The command as one would type it.
pub(crate) fn spelled(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
