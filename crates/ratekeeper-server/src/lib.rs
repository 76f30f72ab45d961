//! The Ratekeeper server: the only crate with sockets, tasks, signals and files.
//!
//! [`run`] is the whole life of a process: it reads the files, opens the doors, answers, reloads
//! and saves, and stops when it is told to. [`Server`] is the same without the process around it,
//! for tests and for programs that want a server inside.
//!
//! ```
//! use std::sync::Arc;
//! use ratekeeper::Clock;
//! use ratekeeper_server::{Server, settings::Settings};
//!
//! let mut settings = Settings::default();
//! // Any free port, so that this runs beside others.
//! settings.udp.listen = Some("127.0.0.1:0".parse()?);
//! settings.http.listen = None;
//! settings.bucket.stream.listen = None;
//! settings.throttr.stream.listen = None;
//! settings.resp.listen = None;
//! let server = Server::start(&settings, Arc::new(Clock::start()))?;
//! let address = server.address("udp").ok_or("the door is open")?;
//!
//! let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"7 ping", address)?;
//! let mut answer = [0; 100];
//! let (length, _) = client.recv_from(&mut answer)?;
//! assert_eq!(&answer[..length], b"7 pong");
//! server.drain(settings.drain)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admin;
mod control;
mod counters;
mod engine;
mod file_group;
mod files;
mod http;
mod latency;
mod listeners;
mod log;
mod metrics;
mod observe;
pub mod overrides;
mod polling;
mod pressure;
mod reading;
mod readings;
mod run;
mod server;
pub mod settings;
mod shown;
mod state;
pub mod state_transfer;
pub mod stats;
mod store_files;
mod transport;
mod wakeup;
mod worker;

/// What is told of decisions and limits as JSON, over HTTP and on a command line: one vocabulary.
pub mod json {
    pub use crate::http::{ExplanationBody, LimitBody, ListedLimit, StateBody};
}

pub use control::{StatsError, read_stats};
pub use engine::ReloadError;
pub use files::{LoadError, ReadError, STARTER_LIMITS, Text, with_starter_buckets};
pub use http::{KeysError, TlsError, TokensError};
pub use log::{LogGuard, log_error, log_panics, start_log};
pub use polling::{Lookout, polling};
pub use reading::Unread;
pub use run::{RunError, run};
pub use server::{Server, StartError};
pub use shown::{is_unseen, write_shown};
pub use state::StateError;
pub use transport::{ListenError, Time, batch};

/// What went wrong, and why, in one text.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
