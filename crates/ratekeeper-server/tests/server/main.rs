//! Whole servers on free ports, with real sockets.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod counters;
mod crowd;
mod drain;
mod exactness;
mod http;
mod http_drain;
mod http_frames;
mod http_gate;
mod http_hard;
mod http_heads;
mod http_keys;
mod http_live;
mod http_pipeline;
mod http_short;
mod http_tls;
mod overrides;
mod polling;
mod pressure;
mod reload;
mod resp;
mod segments;
mod state;
mod support;
mod vectors;
