//! What can go wrong in a command, as opposed to what a command finds.

use std::error::Error as _;
use std::path::PathBuf;
use std::process::ExitStatus;

/// What was being done, and to what; the cause is the source.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("starting `{command}`")]
    Start { command: String, source: std::io::Error },
    #[error("`{command}` ended with {status}")]
    Failed { command: String, status: ExitStatus },
    #[error("`{command}` does not say where it listens")]
    Silent { command: String },
    #[error("{program} is missing: {remedy}")]
    Missing { program: String, remedy: String },
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("reading the output of `cargo metadata`")]
    Metadata(#[source] serde_json::Error),
    #[error("reading the policy in deny.toml")]
    Policy(#[source] toml::de::Error),
    #[error("house rules are broken in the places listed above: {count}")]
    Untidy { count: usize },
    #[error("step `{step}` of `cargo xtask test` failed")]
    Step { step: &'static str, source: Box<Error> },
}

impl Error {
    /// The error and everything that caused it, on one line.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(error.to_string().trim_end());
            cause = error.source();
        }
        text
    }
}
