//! The binary as its users meet it: arguments, files and standard input in; standard output,
//! standard error and the exit code out.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod ask;
mod ask_offline;
mod bench;
mod bench_compare;
mod bench_ends;
mod bench_judge;
mod bench_load;
mod check;
mod client_bucket;
mod client_resp;
mod client_throttr;
mod client_udp;
mod docs;
mod fake;
mod help;
mod https;
mod killed;
mod overrides;
mod overrides_live;
mod program;
mod replay;
mod replay_doors;
mod replay_errors;
mod replay_reload;
mod replay_rows;
mod serve;
mod server;
mod shared;
mod state;
mod top;
mod vectors;

#[path = "../../../ratekeeper-redis/tests/it/servers/mod.rs"]
#[allow(dead_code, unused_imports, reason = "another program uses the rest")]
mod servers;
