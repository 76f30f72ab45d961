//! Reverse proxies in front of a page, configured by the files of `examples/proxies`: only ports
//! and paths are put in, so what is tested is what people copy.
//!
//! The server runs in virtual time, so "later" takes no time, and exactly as long as it should.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod caddy;
mod laws;
mod nginx;
mod page;
mod proxy;
mod stage;
mod traefik;
mod visitor;
