//! Values of arguments that several commands take.

use clap::ValueEnum;
use ratekeeper::Nanos;
use ratekeeper::limits::parse_duration;

/// For whom the output is: people or programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the words say it, and the help stays on one line per option")]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// The length of time that is typed. Refuses what is no duration, with advice.
pub fn parse_length(text: &str) -> Result<Nanos, String> {
    parse_duration(text).map_err(|error| format!("it {error}: write it like 10s, 1.5h or 1h30m"))
}
