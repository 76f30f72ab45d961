//! Whole servers on free ports, with real sockets.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod counters;
mod crowd;
mod drain;
mod exactness;
mod http;
mod http_frames;
mod http_hard;
mod http_live;
mod overrides;
mod reload;
mod state;
mod support;
mod vectors;
