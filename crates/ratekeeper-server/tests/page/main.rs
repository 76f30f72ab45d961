//! The live page in a real browser, against a real server.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod crowd;
mod driver;
mod live;
mod memory;
mod overrides;
mod phone;
mod picture;
mod shared;
mod stage;

#[path = "../../../ratekeeper-redis/tests/it/servers/mod.rs"]
#[allow(dead_code, unused_imports, reason = "another program uses the rest")]
mod servers;
