//! Names, id formats, defaults and overrides, and the files that hold them.
//!
//! A defaults file says what each name allows to everybody, an overrides file what it allows to
//! some. Both are read as a whole, strictly, and every problem is reported at once:
//!
//! ```
//! use ratekeeper::limits::{Limits, Source};
//!
//! let defaults = Source { name: "limits.yaml", text: "
//! NewOrdersPerAccount:
//!   burst: 300
//!   count: 300
//!   period: 180m
//! " };
//! let overrides = Source { name: "overrides.yaml", text: "
//! NewOrdersPerAccount:12345678: {burst: 300, count: 600, period: 180m}
//! " };
//! let limits = Limits::parse(&defaults, Some(&overrides))?;
//! let orders = limits.named("NewOrdersPerAccount").ok_or("it is there")?;
//! assert_eq!(orders.limit_for("12345678").map(ToString::to_string), Some("600 per 3h, burst 300".into()));
//! assert_eq!(orders.limit_for("1").map(ToString::to_string), Some("300 per 3h".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod added;
mod address;
mod buckets;
mod change;
mod defaults;
mod define;
mod domain;
mod draft;
mod duration;
mod fault;
mod field;
mod id;
mod limit;
mod name;
mod overrides;
pub(crate) mod resolver;
mod shown;
#[cfg(test)]
mod tests;
mod yaml;
mod yaml_reader;

/// The reading of strict YAML with the place of everything, for files that stand beside limits.
///
/// Whoever reads another file with it reports its faults in the same words and the same form.
pub mod document {
    pub use super::fault::{Report, Span};
    pub use super::field::{
        Fields, Owner, boolean, decimal, describe, duration, found, refuse_unknown, text,
        whole_number,
    };
    pub use super::name::nearest;
    pub use super::yaml::{Document, Entry, Key, Node, Pair, Value, read};
}

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::algorithm::Share;
use crate::store::shared::Sharing;

pub use buckets::{BUCKET_NAME_BYTES_MAX, BUCKET_RATE_MAX};
pub use change::{Change, Effect, changes};
pub use defaults::LEASE_MAX;
pub use define::DefineError;
pub use domain::{DomainError, FQDN_SET_NAMES_MAX};
pub use draft::{HINTS_MAX, NAMES_MAX, OVERRIDES_MAX};
pub use duration::{DurationError, parse_duration};
pub use fault::{FAULTS_MAX, Fault, Faults};
pub use field::COMMENT_BYTES_MAX;
pub use id::{ID_BYTES_MAX, IdBuffer, IdError, IdFormat, IdFormatError};
pub use limit::Limit;
use name::KnownName;
pub use name::{NAME_BYTES_MAX, NameError};
pub(crate) use name::{known_format, nearest};
pub use shown::SHOWN_CHARS_MAX;
pub(crate) use shown::Shown;
pub use yaml::FILE_BYTES_MAX;
pub use yaml_reader::DEPTH_MAX;

/// A text and what to call it in faults.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name of the file.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// Where a limit was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    file: Arc<str>,
    line: u32,
}

impl Origin {
    /// Not written in a file, but said by whatever `text` names.
    pub fn named(text: &str) -> Self {
        Self { file: text.into(), line: 0 }
    }

    /// Written nowhere: the program defines it.
    fn program() -> Self {
        Self::named("the program")
    }

    /// The file, by the name of its [`Source`]; or what [`named`](Self::named) was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; zero where the limit was not written in a file.
    pub fn line(&self) -> u32 {
        self.line
    }
}

/// `limits.yaml:3`
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// What a name allows to every id without an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultLimit {
    /// How much.
    pub limit: Limit,
    /// Where it was written.
    pub origin: Origin,
}

/// What a name allows to one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The id in its one spelling.
    pub id: Box<str>,
    /// How much.
    pub limit: Limit,
    /// Where it was written.
    pub origin: Origin,
    /// Why, if the file says so.
    pub comment: Option<Box<str>>,
}

/// Everything that is limited under one name: a default, overrides, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLimit {
    name: Box<str>,
    number: Option<u32>,
    /// Whether it comes from a buckets file, where names may be what limits cannot be called.
    is_bucket: bool,
    is_shadow: bool,
    sharing: Sharing,
    share: Share,
    id_format: IdFormat,
    default: Option<DefaultLimit>,
    /// By id.
    overrides: Vec<Override>,
}

impl NamedLimit {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number that stands for the name in bucket keys.
    pub fn number(&self) -> Option<u32> {
        self.number
    }

    /// Whether it was written in a buckets file.
    pub fn is_bucket(&self) -> bool {
        self.is_bucket
    }

    /// Whether it is in shadow: it decides and counts, but denies nobody.
    pub fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// How its buckets are shared, where they are.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// What share of memory its buckets have, once memory is full.
    pub fn share(&self) -> Share {
        self.share
    }

    /// What its ids look like.
    pub fn id_format(&self) -> IdFormat {
        self.id_format
    }

    /// The one spelling of an id of this limit, as files accept it, or as it was told here before.
    /// Refuses what is not of its format, and part of an IPv6 range.
    pub fn canonical_id(&self, id: &str) -> Result<String, IdError> {
        if self.id_format.is_hashed(id) {
            return Ok(id.to_owned());
        }
        let mut buffer = IdBuffer::new();
        self.id_format.canonical_in_file(id, &mut buffer).map(str::to_owned)
    }

    /// What it allows to ids without an override.
    pub fn default(&self) -> Option<&DefaultLimit> {
        self.default.as_ref()
    }

    /// What it allows to some, sorted by id.
    pub fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    /// The override for an id in its one spelling.
    pub fn override_for(&self, id: &str) -> Option<&Override> {
        let found = self.overrides.binary_search_by(|other| (*other.id).cmp(id));
        found.ok().and_then(|index| self.overrides.get(index))
    }

    /// What applies to an id in its one spelling: its override, else the default, else nothing.
    pub fn limit_for(&self, id: &str) -> Option<&Limit> {
        let default = || self.default.as_ref().map(|default| &default.limit);
        self.override_for(id).map(|over| &over.limit).or_else(default)
    }
}

/// Something legal that is likely not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Where it is.
    pub origin: Origin,
    /// What it is.
    pub text: Box<str>,
}

impl Hint {
    /// That the ids of some limits look as they do because of the names of the limits.
    fn known_names(origin: Origin, known: &[KnownName]) -> Self {
        let names = known.iter().map(|it| format!("`{}` ({})", it.name, it.id_format));
        let names = names.collect::<Vec<_>>().join(", ");
        let text = format!(
            "known names bring the format of their ids along: {names}; write `id` to say that it is \
             meant, or use a name of your own"
        );
        Self { origin, text: text.into() }
    }
}

/// `limits.yaml:3: ..`
impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}

/// A valid set of limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    names: Vec<NamedLimit>,
    places: HashMap<Box<str>, usize>,
    hints: Vec<Hint>,
}

impl Limits {
    /// The limits that the files say. Refuses whatever it does not fully understand, and then
    /// tells everything that is wrong with either file.
    pub fn parse(defaults: &Source<'_>, overrides: Option<&Source<'_>>) -> Result<Self, Faults> {
        draft::parse(defaults, overrides)
    }

    /// These limits, and one for each bucket of a buckets file: `NAME RATE` per line, with the
    /// rate in tokens per second. Refuses whatever it does not fully understand, and then tells
    /// everything that is wrong with the file; a bucket called like a limit is among it.
    ///
    /// A bucket belongs to nobody in particular, so it is asked for
    /// [`EVERYBODY`](crate::limiter::EVERYBODY).
    ///
    /// ```
    /// use ratekeeper::limits::{Limits, Source};
    /// use ratekeeper::{Limiter, Moment, Request};
    ///
    /// let source = Source { name: "buckets.conf", text: "bucketa 1\nslow 0.5\nwide 2 10\n" };
    /// let limits = Limits::new().with_buckets(&source)?;
    /// let terms = |name| limits.named(name).and_then(|it| it.limit_for("*")).map(ToString::to_string);
    /// assert_eq!(terms("bucketa"), Some("1 per 1s".into()));
    /// assert_eq!(terms("slow"), Some("1 per 2s".into()));
    /// assert_eq!(terms("wide"), Some("2 per 1s, burst 10".into()));
    ///
    /// let limiter = Limiter::new(limits)?;
    /// let ask = Request::everybody("bucketa", 1);
    /// assert!(limiter.spend(ask.limit, ask.id, ask.cost, Moment::EPOCH)?.allowed);
    /// assert!(!limiter.spend(ask.limit, ask.id, ask.cost, Moment::EPOCH)?.allowed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_buckets(self, source: &Source<'_>) -> Result<Self, Faults> {
        buckets::add(self, source)
    }

    /// What is limited under `name`.
    pub fn named(&self, name: &str) -> Option<&NamedLimit> {
        self.places.get(name).and_then(|place| self.names.get(*place))
    }

    /// Everything that is limited: in the order of the defaults file, then known names that only
    /// have overrides, by number, then buckets.
    pub fn iter(&self) -> std::slice::Iter<'_, NamedLimit> {
        self.names.iter()
    }

    /// What is legal but likely not meant, for whoever checks the files by hand.
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }
}

impl<'a> IntoIterator for &'a Limits {
    type Item = &'a NamedLimit;
    type IntoIter = std::slice::Iter<'a, NamedLimit>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
