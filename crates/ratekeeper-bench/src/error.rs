//! Why nothing was measured.

use std::io;
use std::path::PathBuf;

use ratekeeper::Nanos;
use ratekeeper::limits::Faults;
use ratekeeper_client::http::HttpError;
use ratekeeper_client::{Failure, Server};
use ratekeeper_console::OutputError;
use ratekeeper_server::ReadError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum BenchError {
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
    #[error(transparent)]
    Output(#[from] OutputError),
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
    /// Whether no usable answer came: the server was not reached, refused everything, or stayed silent.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Failure(failure) => failure.is_unreachable(),
            Self::Http(error) => error.is_unreachable(),
            Self::Refused { .. } | Self::AllErrors { .. } | Self::NoAnswer { .. } => true,
            Self::Usage(_)
            | Self::NothingDue { .. }
            | Self::Read(_)
            | Self::Faults(_)
            | Self::Pid { .. }
            | Self::Chart { .. }
            | Self::Runtime(_)
            | Self::Output(_) => false,
        }
    }
}
