//! The arguments that say which server is asked over HTTP.

use std::fs;
use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches};
use ratekeeper::Nanos;
use ratekeeper_console::{parse_length, secret};
use ratekeeper_server::settings::SecretText;

use super::{HttpError, Place, TlsFiles, Url};

/// Where a server is, what to show it, and how long to wait.
#[derive(Clone, Debug, Args)]
pub struct RawPlace {
    #[arg(long, env = "RATEKEEPER_URL", value_name = "URL", hide_env = true)]
    #[arg(help = "Where the server is [default: http://127.0.0.1:8080]")]
    url: Option<Url>,
    #[command(flatten)]
    token: RawToken,
    /// Who signed the server's certificate [default: whom this system trusts]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The certificate to show, if the server wants one
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_length)]
    timeout: Nanos,
}

impl RawPlace {
    /// Whether somebody says where it is.
    pub fn has_url(&self) -> bool {
        self.url.is_some()
    }

    /// The server, with the token. Refuses a token file that cannot be read.
    pub fn place(&self) -> Result<Place, HttpError> {
        Ok(Place {
            url: self.url.clone().unwrap_or_default(),
            token: self.token.read()?,
            tls: TlsFiles { ca: self.ca.clone(), own: self.cert.clone().zip(self.key.clone()) },
            timeout: self.timeout,
        })
    }
}

/// Where the token is, if there is one.
#[derive(Clone, Debug, Args)]
pub struct RawToken {
    #[command(flatten)]
    set: RawSetToken,
    #[arg(long, value_name = "FILE")]
    #[arg(help = "The file with the token [default: the token in RATEKEEPER_TOKEN, if any]")]
    token_file: Option<PathBuf>,
}

impl RawToken {
    /// The token. Refuses a token file that cannot be read.
    pub fn read(&self) -> Result<Option<SecretText>, HttpError> {
        // What was typed wins over what was set once.
        let Some(path) = &self.token_file else { return Ok(self.set.0.clone()) };
        let text = fs::read_to_string(path).map_err(|source| HttpError::Read {
            what: "the token",
            path: path.clone(),
            source,
        })?;
        match text.trim() {
            "" => Err(HttpError::Empty { what: "token", path: path.clone() }),
            token => Ok(Some(SecretText(token.to_owned()))),
        }
    }
}

/// The token of the environment.
#[derive(Clone, Debug, Default)]
pub struct RawSetToken(pub Option<SecretText>);

impl Args for RawSetToken {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.arg(secret::arg("token", "RATEKEEPER_TOKEN"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RawSetToken {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let set = "RATEKEEPER_TOKEN, or name a file with --token-file";
        secret::read(matches, "token", set).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
