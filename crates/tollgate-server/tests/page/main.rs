//! The live page in a real browser, against a real server.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod crowd;
mod driver;
mod live;
mod overrides;
mod phone;
mod picture;
mod stage;
