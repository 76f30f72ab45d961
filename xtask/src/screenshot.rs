//! `cargo xtask screenshot`: draws the live page again, as one of the tests sees it.

use std::fs;

use crate::error::Error;
use crate::process::{command, root, run as run_command, target};

/// The test that draws it, and leaves it in cargo's folder for such things.
const TEST: &str = "a_picture_of_the_page";
const DRAWN: &str = "tmp/page.png";
/// Where the README shows it.
const SHOWN: &str = "docs/page.png";

pub(crate) fn run() -> Result<(), Error> {
    let test = ["test", "--locked", "--package", "ratekeeper-server", "--test", "page", TEST];
    run_command(command("cargo", &test))?;
    let (drawn, shown) = (target()?.join(DRAWN), root().join(SHOWN));
    match fs::copy(&drawn, &shown) {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::Write { path: shown, source }),
    }
}
