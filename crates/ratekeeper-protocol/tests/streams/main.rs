//! The doors for clients that keep a connection, from recorded exchanges and from their own pages.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bucket;
mod resp;
mod resp_pipelines;
mod throttr;
mod transcript;
