//! The HTTP door: a JSON API, a gate for reverse proxies, and what an operator looks at.
//!
//! HTTP types stay in here. Asks are decided where they were read: one costs no more than the parsing
//! of its JSON, and crosses no thread. What writes to a disk or reads all counters is done aside.

mod access;
mod activity;
mod address;
mod app;
mod body;
mod connection;
mod decide;
mod decision;
mod document;
mod fields;
mod forwarded;
mod frames;
mod framing;
mod gate;
mod head_watch;
mod health;
mod http1;
mod keys;
mod limits;
mod live;
mod overrides;
mod page;
mod problem;
mod route;
mod schema;
mod serve;
mod short;
mod tls;
mod tokens;
mod wire;

pub(crate) use access::check_exposure;
pub use decision::{LimitBody, StateBody};
pub use keys::KeysError;
pub(crate) use keys::{KeyFiles, Keys};
pub use limits::{ExplanationBody, ListedLimit};
pub(crate) use serve::Http;
pub(crate) use tls::PEM_BYTES_MAX;
pub use tls::TlsError;
pub use tokens::TokensError;
