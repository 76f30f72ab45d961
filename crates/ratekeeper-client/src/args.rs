//! The argument that all clients but that of HTTP take.

use clap::Args;
use ratekeeper::Nanos;
use ratekeeper_console::parse_length;

/// How patient a client is.
#[derive(Debug, Args)]
pub struct RawPatience {
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_length)]
    pub timeout: Nanos,
}
