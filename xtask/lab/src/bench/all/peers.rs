//! Servers of others that have to be installed first.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::output;

/// The version that is measured, so that everybody measures the same.
pub(super) const THROTTLECRAB_VERSION: &str = "0.4.40";

/// The program, installed below `target` unless it is there. Says why if it cannot be had.
pub(super) fn throttlecrab(target: &Path) -> Result<PathBuf, String> {
    let root = target.join("peers").join(format!("throttlecrab-{THROTTLECRAB_VERSION}"));
    let program = root.join("bin/throttlecrab-server");
    if program.exists() {
        return Ok(program);
    }
    eprintln!("installing throttlecrab-server {THROTTLECRAB_VERSION} below {}", root.display());
    let mut install = Command::new("cargo");
    install.args(["install", "--quiet", "--locked", "--root"]).arg(&root);
    install.args(["--version", &format!("={THROTTLECRAB_VERSION}"), "throttlecrab-server"]);
    let installed = output(install);
    installed.map(|_| program).map_err(|error| format!("it cannot be installed: {error}"))
}
