//! From the paths that were given to limits.

use std::path::PathBuf;

use ratekeeper::Limits;
use ratekeeper_server::{STARTER_LIMITS, Text};

use crate::error::Error;

/// Where limits are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) limits: PathBuf,
    pub(crate) overrides: Option<PathBuf>,
}

impl Files {
    /// The limits that the files say.
    pub(crate) fn load(&self) -> Result<Limits, Error> {
        self.read()?.parse()
    }

    /// What is in the files.
    pub(crate) fn read(&self) -> Result<Texts, Error> {
        self.read_as(["limits", "overrides"], false)
    }

    /// What was in force, to compare others with.
    pub(crate) fn read_old(&self) -> Result<Texts, Error> {
        self.read_as(["old limits", "old overrides"], true)
    }

    fn read_as(&self, what: [&'static str; 2], is_old: bool) -> Result<Texts, Error> {
        let [limits, overrides] = what;
        let read = |what, path| match Text::read(what, path).map_err(Error::from) {
            Err(Error::Faults { faults, .. }) => Err(Error::Faults { faults, is_old }),
            read => read,
        };
        let limits = read(limits, &self.limits)?;
        let overrides = self.overrides.as_ref().map(|path| read(overrides, path)).transpose()?;
        Ok(Texts { limits, overrides, is_old })
    }
}

/// What is in the files of some limits.
pub(crate) struct Texts {
    limits: Text,
    overrides: Option<Text>,
    is_old: bool,
}

impl Texts {
    /// The limits that the files say.
    pub(crate) fn parse(&self) -> Result<Limits, Error> {
        let overrides = self.overrides.as_ref().map(Text::source);
        Limits::parse(&self.limits.source(), overrides.as_ref())
            .map_err(|faults| Error::Faults { faults, is_old: self.is_old })
    }

    /// The limits that the files say, with the overrides of `other` if there are none and those
    /// fit. They are not read again: what comes from a pipe can be read only once.
    pub(crate) fn parse_beside(&self, other: &Self) -> Result<Limits, Error> {
        let shared = match &self.overrides {
            None => other.overrides.as_ref().map(Text::source),
            Some(_) => None,
        };
        // Overrides of a name that is new do not fit: then none were in force.
        let beside = shared.and_then(|them| Limits::parse(&self.limits.source(), Some(&them)).ok());
        beside.map_or_else(|| self.parse(), Ok)
    }
}

/// The limits that come with the program.
pub(crate) fn starter() -> Result<Limits, Error> {
    Limits::parse(&STARTER_LIMITS, None).map_err(|faults| Error::Faults { faults, is_old: false })
}
