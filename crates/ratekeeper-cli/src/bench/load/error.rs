//! Why nothing was measured.

use std::io;
use std::path::PathBuf;

use ratekeeper::Nanos;
use ratekeeper::limits::Faults;
use ratekeeper_server::ReadError;

use crate::client::http::HttpError;
use crate::client::{Failure, Server};
use crate::error::Exit;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Failure(#[from] Failure),
    #[error(transparent)]
    Read(ReadError),
    #[error("{0}")]
    Faults(#[from] Faults),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(
        "{server} answered `{answer}` to `{request}`: ask for something else, or somebody else"
    )]
    Refused { server: Server, request: String, answer: String },
    #[error("{server} answered all {count} requests with errors, the first `{first}`")]
    AllErrors { server: Server, count: u64, first: String },
    #[error("{server} answered none of {count} requests")]
    NoAnswer { server: Server, count: u64 },
    #[error("no request comes due within {length}: ask for longer, or at a higher --rate")]
    NothingDue { length: Nanos },
    #[error("reading what the process {pid} uses (is that the server, on this machine?)")]
    Pid { pid: u32, source: io::Error },
    #[error("writing the chart to {}", path.display())]
    Chart { path: PathBuf, source: io::Error },
    #[error("starting the runtime")]
    Runtime(#[source] io::Error),
}

/// A file that is no text has a fault, like one whose text is wrong.
impl From<ReadError> for BenchError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotText(faults) => Self::Faults(faults),
            error => Self::Read(error),
        }
    }
}

impl BenchError {
    /// What the process returns then.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Failure(failure) => failure.exit(),
            Self::Http(error) => error.exit(),
            Self::Refused { .. } | Self::AllErrors { .. } | Self::NoAnswer { .. } => {
                Exit::Unreachable
            }
            Self::Usage(_)
            | Self::NothingDue { .. }
            | Self::Read(_)
            | Self::Faults(_)
            | Self::Pid { .. }
            | Self::Chart { .. }
            | Self::Runtime(_) => Exit::Mistake,
        }
    }
}
