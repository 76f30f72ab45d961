//! From the paths that were given to limits.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tollgate::Limits;
use tollgate::limits::{FILE_BYTES_MAX, Source};

use crate::error::Error;

/// The limits for a first try, and the page that explains limits files.
const STARTER: Source<'static> =
    Source { name: "the starter limits", text: include_str!("starter/limits.yaml") };

/// Where limits are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) limits: PathBuf,
    pub(crate) overrides: Option<PathBuf>,
}

impl Files {
    /// The limits that the files say.
    pub(crate) fn load(&self) -> Result<Limits, Error> {
        self.parse(false)
    }

    /// The limits that the files said, to compare others with.
    pub(crate) fn load_old(&self) -> Result<Limits, Error> {
        self.parse(true)
    }

    fn parse(&self, is_old: bool) -> Result<Limits, Error> {
        let [limits, overrides] =
            if is_old { ["old limits", "old overrides"] } else { ["limits", "overrides"] };
        let limits = Text::read(limits, &self.limits)?;
        let overrides =
            self.overrides.as_ref().map(|path| Text::read(overrides, path)).transpose()?;
        let overrides = overrides.as_ref().map(Text::source);
        Limits::parse(&limits.source(), overrides.as_ref())
            .map_err(|faults| Error::Faults { faults, is_old })
    }
}

/// The limits that come with the program.
pub(crate) fn starter() -> Result<Limits, Error> {
    Limits::parse(&STARTER, None).map_err(|faults| Error::Faults { faults, is_old: false })
}

/// What is in a file, and what to call it.
struct Text {
    name: String,
    text: String,
}

impl Text {
    fn read(what: &'static str, path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read { what, path: path.to_owned(), source };
        // One byte more than there may be, so that a larger file is refused as such.
        let bytes_max = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(bytes_max).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|error| Error::NotText {
            what,
            path: path.to_owned(),
            at: error.utf8_error().valid_up_to(),
        })?;
        Ok(Self { name: path.display().to_string(), text })
    }

    fn source(&self) -> Source<'_> {
        Source { name: &self.name, text: &self.text }
    }
}
