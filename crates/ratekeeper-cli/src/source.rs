//! Where the counters of a server are read: over HTTP, or from its control socket.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use ratekeeper_client::http::RawPlace;

/// Where to look.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// At a control socket.
    Control(PathBuf),
    /// Over HTTP.
    Http(RawPlace),
    /// Nobody says; with what is needed to ask where HTTP usually is.
    Usual(RawPlace),
}

#[derive(Debug, Args)]
struct RawSource {
    /// The control socket of the server [default: the one that a server has]
    #[arg(long, env = "RATEKEEPER_CONTROL", value_name = "PATH", hide_env = true)]
    control: Option<PathBuf>,
    #[command(flatten)]
    place: RawPlace,
}

impl Args for Source {
    fn augment_args(command: clap::Command) -> clap::Command {
        RawSource::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// What is typed wins over what is in the environment.
impl FromArgMatches for Source {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let RawSource { control, place } = RawSource::from_arg_matches(matches)?;
        let is_typed = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        match (is_typed("control"), is_typed("url"), control) {
            (true, true, _) => {
                let words = "--control and --url are two servers: say one of them";
                Err(clap::Error::raw(ErrorKind::ArgumentConflict, words))
            }
            (true, false, Some(control)) => Ok(Self::Control(control)),
            (_, _, _) if place.has_url() => Ok(Self::Http(place)),
            (_, _, Some(control)) => Ok(Self::Control(control)),
            (_, _, None) => Ok(Self::Usual(place)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
