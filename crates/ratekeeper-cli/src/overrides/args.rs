//! The arguments of `ratekeeper override` as they are typed.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use ratekeeper::{Clock, Moment, Nanos};
use ratekeeper_client::http::RawPlace;
use ratekeeper_console::{Format, parse_length};
use ratekeeper_server::overrides::Utc;

pub(crate) const OVERRIDE_HELP: &str = "\
Changes are made on a server, over HTTP, and are in force from the next ask on; what was spent stays
spent. A server with a state directory keeps them. If the server has tokens, this takes one whose
role is `admin`, for `list` and `export` one that is `read`.

EXAMPLES
  ratekeeper override add LoginsPerUser ada --burst 50 --count 10 --period 1m --why 'moves house'
  ratekeeper override add LoginsPerUser ada --burst 50 --count 10 --period 1m --why 'a test' \\
    --until 2h --dry-run
      what would change, if it were for two hours
  ratekeeper override list --limit LoginsPerUser
  ratekeeper override remove LoginsPerUser ada --why 'has moved'
  ratekeeper override export > overrides.json && ratekeeper override import overrides.json --dry-run
  ratekeeper override import overrides.yaml --why 'from the old server'

EXIT CODES
  0  done, or it would have been
  2  the arguments, the file or the change are wrong; nothing has changed
  3  a server was not reached, or did not answer";

const ADD_HELP: &str = "\
An override replaces what the limit allows to everybody. One that allows the id less than it is
allowed now is refused without --lower.";

const IMPORT_HELP: &str = "\
The file is what `export` writes, or an overrides file in YAML, in either of its forms. A comment
in it says why; --why does where there is none. All are made, or none.";

const LIST_HELP: &str = "\
Overrides from files are listed too. With --format json there is one object per line.";

#[derive(Debug, Subcommand)]
pub(crate) enum Override {
    /// Allow an id more, or less, than the limit does
    #[command(after_help = ADD_HELP)]
    Add(Box<Add>),
    /// Show the overrides of a server
    #[command(after_help = LIST_HELP)]
    List(Box<List>),
    /// Remove one that was made while the server ran
    Remove(Box<Remove>),
    /// Make those that are in a file, all of them or none
    #[command(after_help = IMPORT_HELP)]
    Import(Box<Import>),
    /// Print those that were made while the server ran, as a document to import
    Export(Box<Export>),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The name of the limit, such as `LoginsPerUser`
    #[arg(value_name = "LIMIT")]
    pub(super) limit: String,
    /// Whom it is for, such as ada
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// How many tokens a full bucket holds
    #[arg(long, value_name = "N")]
    pub(super) burst: u64,
    /// How many tokens come back in a period
    #[arg(long, value_name = "N")]
    pub(super) count: u64,
    /// How long that takes, such as 3h
    #[arg(long, value_name = "DURATION", value_parser = parse_length)]
    pub(super) period: Nanos,
    /// Why, for whoever reads it later
    #[arg(long, value_name = "TEXT")]
    pub(super) why: String,
    /// When it ends: 2h from now, or 2040-12-01T00:00:00Z [default: never]
    #[arg(long, value_name = "TIME|DURATION")]
    pub(super) until: Option<Until>,
    /// Allow less than the id is allowed now
    #[arg(long)]
    pub(super) lower: bool,
    /// Only say what would change
    #[arg(long)]
    pub(super) dry_run: bool,
    /// How to print the change
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) place: RawPlace,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those of this limit
    #[arg(long, value_name = "NAME")]
    pub(super) limit: Option<String>,
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) place: RawPlace,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The name of the limit, such as `LoginsPerUser`
    #[arg(value_name = "LIMIT")]
    pub(super) limit: String,
    /// Whom it is for, such as ada
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// Why, for whoever reads it later
    #[arg(long, value_name = "TEXT")]
    pub(super) why: String,
    /// Only say what would change
    #[arg(long)]
    pub(super) dry_run: bool,
    /// How to print the change
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) place: RawPlace,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// What export wrote, or an overrides file
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Why, where the file does not say
    #[arg(long, value_name = "TEXT")]
    pub(super) why: Option<String>,
    /// Allow ids less than they are allowed now
    #[arg(long)]
    pub(super) lower: bool,
    /// Only say what would change
    #[arg(long)]
    pub(super) dry_run: bool,
    /// How to print the changes
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) place: RawPlace,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(super) place: RawPlace,
}

/// When an override ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    At(Moment),
    In(Nanos),
}

impl Until {
    /// The moment, if it is asked for now.
    pub(super) fn moment(self) -> Moment {
        match self {
            Self::At(moment) => moment,
            Self::In(length) => Clock::start().now().after(length),
        }
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(Utc(moment)) = text.parse() {
            return Ok(Self::At(moment));
        }
        let length = ratekeeper::limits::parse_duration(text);
        length.map(Self::In).map_err(|_| "write it like 2h or 2040-12-01T00:00:00Z".to_owned())
    }
}
