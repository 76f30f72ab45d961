//! Why there is no answer.

use redis::{RedisError, ServerError};

/// Why an ask has no answer. What is not marked otherwise was certainly not counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no connection, or it broke. An ask that was under way may have been counted.
    #[error("Redis is unreachable: {0}")]
    Unreachable(String),
    /// No answer in time. The ask may have been counted, or may yet be.
    #[error("Redis did not answer in time")]
    Timeout,
    /// The server is a replica: a failover is under way, or the address is wrong.
    #[error("Redis is a read-only replica")]
    ReadOnly,
    /// The server is reading its data from disk.
    #[error("Redis is loading its data")]
    Loading,
    /// The server has no memory for another key.
    #[error("Redis is out of memory (see maxmemory)")]
    OutOfMemory,
    /// Wrong credentials, or too few permissions.
    #[error("Redis refused the credentials: {0}")]
    Auth(String),
    /// The cluster, or the part that has this slot, is down.
    #[error("the Redis cluster is down: {0}")]
    ClusterDown(String),
    /// The server is busy with something else, such as a long script.
    #[error("Redis is busy: {0}")]
    Busy(String),
    /// Another transaction over the same buckets, in several slots, did not finish in time.
    #[error("the buckets are held by another transaction")]
    Held,
    /// The server refuses for another reason.
    #[error("Redis refuses: {0}")]
    Refused(String),
    /// What came is not an answer to what was asked. The ask may have been counted.
    #[error("Redis answered nonsense: {0}")]
    Nonsense(String),
}

impl Failure {
    /// Whether the ask may have been counted although nobody knows.
    pub const fn may_have_been_counted(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Timeout | Self::Nonsense(_))
    }

    /// What a server meant by an error.
    pub(crate) fn of_server(error: &ServerError) -> Self {
        let text = || match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().to_owned(),
        };
        match error.code() {
            "READONLY" => Self::ReadOnly,
            "LOADING" => Self::Loading,
            "OOM" => Self::OutOfMemory,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::Auth(text()),
            "CLUSTERDOWN" | "MASTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" => {
                Self::ClusterDown(text())
            }
            "BUSY" => Self::Busy(text()),
            "NOTABUCKET" | "WRONGTYPE" => Self::Nonsense(text()),
            _ => Self::Refused(text()),
        }
    }

    /// What it means that a connection failed, or could not be made.
    pub(crate) fn of_client(error: &RedisError) -> Self {
        if let Some(servers) = error.clone().into_server_errors()
            && let Some((_, first)) = servers.first()
        {
            return Self::of_server(first);
        }
        match error.kind() {
            redis::ErrorKind::AuthenticationFailed => Self::Auth(error.to_string()),
            redis::ErrorKind::Parse => Self::Nonsense(error.to_string()),
            redis::ErrorKind::Server(redis::ServerErrorKind::BusyLoading) => Self::Loading,
            redis::ErrorKind::Server(redis::ServerErrorKind::NoPerm) => {
                Self::Auth(error.to_string())
            }
            _ if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) => {
                Self::Auth(error.to_string())
            }
            _ if error.is_timeout() => Self::Timeout,
            _ => Self::Unreachable(error.to_string()),
        }
    }
}
