//! The files that say what is allowed, and their texts.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use tollgate::Limits;
use tollgate::limits::document::{Report, Span};
use tollgate::limits::{FILE_BYTES_MAX, Faults, NamedLimit, Origin, Source};
use tollgate_protocol::{bucket, udp};
use tollgate_redis::TooSlow;

use crate::settings::Settings;

/// The limits for a first try, and the page that explains limits files.
pub const STARTER_LIMITS: Source<'static> =
    Source { name: "the starter limits", text: include_str!("starter/limits.yaml") };

/// What is in a file, and what to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    name: String,
    text: String,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum ReadError {
    #[error("reading the {what} from {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    NotText(Faults),
}

impl Text {
    /// Reads a file. `what` says what it holds, for errors.
    pub fn read(what: &'static str, path: &Path) -> Result<Self, ReadError> {
        let failed = |source| ReadError::Io { what, path: path.to_owned(), source };
        // One byte more than there may be, so that a larger file is refused as such.
        let bytes_max = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(bytes_max).read_to_end(&mut bytes).map_err(failed)?;
        let name = path.display().to_string();
        let text = String::from_utf8(bytes).map_err(|error| not_text(&name, &error))?;
        Ok(Self { name, text })
    }

    /// The text of a file, or one that comes with the program.
    fn read_or(
        what: &'static str,
        path: Option<&PathBuf>,
        starter: &Source<'_>,
    ) -> Result<Self, ReadError> {
        match path {
            Some(path) => Self::read(what, path),
            None => Ok(Self::of(starter)),
        }
    }

    /// A text that comes with the program.
    pub fn of(source: &Source<'_>) -> Self {
        Self { name: source.name.to_owned(), text: source.text.to_owned() }
    }

    /// The text with its name.
    pub fn source(&self) -> Source<'_> {
        Source { name: &self.name, text: &self.text }
    }
}

/// The fault of a file that is no text, at the first byte that is none.
fn not_text(name: &str, error: &FromUtf8Error) -> ReadError {
    let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
    let before = String::from_utf8_lossy(bytes.get(..at).unwrap_or_default());
    let before = before.replace("\r\n", "\n");
    let last = before.rsplit(['\n', '\r']).next().unwrap_or_default();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
    let line = count(before.matches(['\n', '\r']).count());
    let span = Span { line, column: count(last.chars().count()), length: 1 };
    let text = String::from_utf8_lossy(bytes);
    let mut report = Report::new(&Source { name, text: &text });
    // It is not known what this line is; in some files it has a secret in it.
    report.hide(span);
    report.fault(span, format!("byte {at} is not UTF-8"), "save the file as UTF-8");
    match Faults::check(std::iter::once(report)) {
        Err(faults) => ReadError::NotText(faults),
        Ok(()) => unreachable!("there is one"),
    }
}

/// Where the files are; where there is none, a starter stands in.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    limits: Option<PathBuf>,
    overrides: Option<PathBuf>,
    buckets: Option<PathBuf>,
    rules: Option<PathBuf>,
    /// Whether buckets are shared, and so counted elsewhere.
    is_shared: bool,
}

/// What the files say, all of it good.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// With the buckets among them.
    pub(crate) limits: Limits,
    pub(crate) rules: udp::Rules,
}

/// A file that is no text has a fault, like one whose text is wrong.
impl From<ReadError> for LoadError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotText(faults) => Self::Faults(faults),
            error @ ReadError::Io { .. } => Self::Read(error),
        }
    }
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// One of them cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// Something is wrong in them.
    #[error(transparent)]
    Faults(#[from] Faults),
    /// A limit is right, but the store that is shared cannot count it.
    #[error("`{limit}` ({origin}) cannot be kept in the store: {source}")]
    TooSlow {
        /// The name of the limit.
        limit: String,
        /// Where it is written.
        origin: Origin,
        /// Why not.
        source: TooSlow,
    },
}

/// What the files look like from outside. Whoever changes one changes this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<Option<FileStamp>>);

/// Device, inode, size, and when it was written: seconds and nanoseconds.
type FileStamp = (u64, u64, u64, i64, i64);

impl Files {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            limits: settings.limits.clone(),
            overrides: settings.overrides.clone(),
            buckets: settings.bucket.buckets.clone(),
            rules: settings.udp.rules.clone(),
            is_shared: settings.store.address.is_some(),
        }
    }

    /// What they say now. Refuses all of them if anything is wrong with one.
    pub(crate) fn load(&self) -> Result<Loaded, LoadError> {
        let limits = Text::read_or("limits", self.limits.as_ref(), &STARTER_LIMITS)?;
        let overrides =
            self.overrides.as_ref().map(|path| Text::read("overrides", path)).transpose()?;
        let buckets = self.buckets.as_ref().map(|path| Text::read("buckets", path)).transpose()?;
        let rules = Text::read_or("rules", self.rules.as_ref(), &udp::STARTER)?;

        let overrides = overrides.as_ref().map(Text::source);
        let limits = Limits::parse(&limits.source(), overrides.as_ref())?;
        let limits = match buckets {
            Some(text) => limits.with_buckets(&text.source())?,
            None => with_starter_buckets(limits)?,
        };
        let rules = udp::Rules::parse(&rules.source(), &limits)?;
        if self.is_shared {
            limits.iter().try_for_each(check_shared)?;
        }
        Ok(Loaded { limits, rules })
    }

    /// What faults call them.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.display().to_string();
        let or = |path: &Option<PathBuf>, starter: &str| {
            path.as_ref().map_or_else(|| starter.to_owned(), name)
        };
        let limits = or(&self.limits, STARTER_LIMITS.name);
        let (buckets, rules) =
            (or(&self.buckets, bucket::STARTER.name), or(&self.rules, udp::STARTER.name));
        let overrides = self.overrides.as_ref().map(name);
        [Some(limits), overrides, Some(buckets), Some(rules)].into_iter().flatten().collect()
    }

    /// What they look like now.
    pub(crate) fn stamp(&self) -> Stamp {
        let paths = [&self.limits, &self.overrides, &self.buckets, &self.rules];
        Stamp::of(paths.into_iter().flatten().map(PathBuf::as_path))
    }
}

impl Stamp {
    /// What these files look like now.
    pub(crate) fn of<'a>(paths: impl Iterator<Item = &'a Path>) -> Self {
        let stamp =
            |file: Metadata| (file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec());
        Self(paths.map(|path| path.metadata().ok().map(stamp)).collect())
    }

    /// What these files look like, and others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

/// Refuses a limit that Redis cannot count.
fn check_shared(named: &NamedLimit) -> Result<(), LoadError> {
    let default = named.default().map(|default| (&default.limit, &default.origin));
    let overrides = named.overrides().iter().map(|over| (&over.limit, &over.origin));
    for (limit, origin) in default.into_iter().chain(overrides) {
        tollgate_redis::Rule::new(limit.rule()).map_err(|source| LoadError::TooSlow {
            limit: named.name().to_owned(),
            origin: origin.clone(),
            source,
        })?;
    }
    Ok(())
}

/// The limits with the starter buckets, but for those whose name a limit has already. So a server
/// begins that has no buckets file.
pub fn with_starter_buckets(limits: Limits) -> Result<Limits, Faults> {
    let is_free = |line: &&str| {
        let name = line.split_whitespace().next().unwrap_or_default();
        limits.named(name).is_none()
    };
    let text: Vec<&str> = bucket::STARTER.text.lines().filter(is_free).collect();
    let is_bucket = |line: &&str| !line.is_empty() && !line.starts_with("# ");
    if !text.iter().any(is_bucket) {
        return Ok(limits);
    }
    let text = text.join("\n");
    limits.with_buckets(&Source { text: &text, ..bucket::STARTER })
}
