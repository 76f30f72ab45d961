//! The arguments of `ratekeeper state` as they are typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ratekeeper::Limits;
use ratekeeper_server::Text;
use ratekeeper_server::settings::{Setting, Settings, StoreSettings};

use crate::error::Error;
use crate::files::Files;

pub(crate) const STATE_HELP: &str = "\
What was spent is moved as lines of JSON, one bucket each, such as
  {\"kind\":\"bucket\",\"bucket\":\"6:ada\",\"value\":\"1763273645123456 300000 100000/1 20\"}
with the value that Redis keeps: the microsecond since 1970, the ticks that were owed then, ticks
per token and per microsecond, and the burst. What is owed is rounded up, and is written only where
less is owed; so it can be done twice, and gives nobody anything.

EXAMPLES
  ratekeeper state export --state /var/lib/ratekeeper --limits limits.yaml --ids users.txt |
    ratekeeper state import --store redis://10.0.0.5
      from the memory of a server that was stopped to Redis
  ratekeeper state export --store redis://10.0.0.5 > spent.jsonl
  ratekeeper state import --state /var/lib/ratekeeper --limits limits.yaml < spent.jsonl

EXIT CODES
  0  done
  2  the arguments, the files or a line are wrong
  3  the store was not reached, or did not answer";

const EXPORT_HELP: &str = "\
A state directory has no names of buckets, only what they are hashed to. Buckets with an override,
and those of everybody, are named by the files; --ids names the others, as lines such as
LoginsPerUser:ada. How many have no name is told. Averages of the UDP door and quotas of Throttr
have none, and are exported from a store only. Of a store a bucket may come twice.";

const IMPORT_HELP: &str = "\
The lines come from standard input. Into a state directory all are written or none; into a store
none is before the first million lines were read and found good. Averages and quotas are left out of
a state directory.";

#[derive(Debug, Subcommand)]
pub(crate) enum State {
    /// Print what was spent
    #[command(after_help = EXPORT_HELP)]
    Export(Box<Export>),
    /// Have what was spent elsewhere be spent here
    #[command(after_help = IMPORT_HELP)]
    Import(Box<Import>),
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(super) place: RawPlace,
    /// More buckets to look for, as lines LIMIT:ID; - is standard input
    #[arg(long, value_name = "FILE", requires = "state")]
    pub(super) ids: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(flatten)]
    pub(super) place: RawPlace,
}

#[derive(Debug, Args)]
pub(crate) struct RawPlace {
    /// The store that servers share, as `redis://HOST`; or `RATEKEEPER_STORE`
    #[arg(long, value_name = "ADDRESS", env = "RATEKEEPER_STORE", hide_env = true)]
    #[arg(required_unless_present = "state", conflicts_with = "state")]
    store: Option<String>,
    /// Whose certificates it may show, under rediss://
    #[arg(long, value_name = "FILE", requires = "store")]
    store_ca: Option<PathBuf>,
    /// The certificate that is shown to it
    #[arg(long, value_name = "FILE", requires = "store_key")]
    store_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "store_cert")]
    store_key: Option<PathBuf>,
    /// The state directory of a server that is stopped
    #[arg(long, value_name = "DIR", requires = "limits")]
    state: Option<PathBuf>,
    /// The file that says what each limit allows
    #[arg(long, value_name = "FILE", requires = "state")]
    limits: Option<PathBuf>,
    /// The file that says what it allows to some
    #[arg(long, value_name = "FILE", requires = "limits")]
    overrides: Option<PathBuf>,
    /// The buckets file of the token-bucket server
    #[arg(long, value_name = "FILE", requires = "limits")]
    buckets: Option<PathBuf>,
}

/// Where state is.
pub(super) enum Place {
    Store(StoreSettings),
    Folder(PathBuf, Limits),
}

impl RawPlace {
    /// The place, with its files read.
    pub(super) fn open(&self) -> Result<Place, Error> {
        match (&self.state, &self.limits) {
            (Some(folder), Some(limits)) => Ok(Place::Folder(folder.clone(), self.limits(limits)?)),
            _ => self.store().map(Place::Store),
        }
    }

    fn limits(&self, limits: &std::path::Path) -> Result<Limits, Error> {
        let files = Files { limits: limits.to_owned(), overrides: self.overrides.clone() };
        let limits = files.load()?;
        let Some(buckets) = &self.buckets else { return Ok(limits) };
        let text = Text::read("buckets", buckets)?;
        let faults = |faults| Error::Faults { faults, is_old: false };
        limits.with_buckets(&text.source()).map_err(faults)
    }

    fn store(&self) -> Result<StoreSettings, Error> {
        let mut settings = Settings::default();
        let text = self.store.as_deref().unwrap_or_default();
        if let Some(setting) = Setting::named("store.address") {
            setting.set(&mut settings, text).map_err(|source| {
                let (name, text) = ("--store".to_owned(), setting.shown(text).to_owned());
                Error::Setting { name, text, source }
            })?;
        }
        let store = StoreSettings {
            ca: self.store_ca.clone(),
            cert: self.store_cert.clone(),
            key: self.store_key.clone(),
            ..settings.store
        };
        if store.address.is_some() { Ok(store) } else { Err(Error::NoStore) }
    }
}
