//! The files that say what is allowed, and their texts.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use ratekeeper::Limits;
use ratekeeper::limits::document::{Report, Span};
use ratekeeper::limits::{FILE_BYTES_MAX, Faults, NamedLimit, Origin, Source};
use ratekeeper_protocol::{bucket, udp};
use ratekeeper_redis::TooSlow;

use crate::reading::{FileThread, Place, READ_TIME_MAX, Unread, read_file};
use crate::settings::Settings;

/// The limits for a first try, and the page that explains limits files.
pub const STARTER_LIMITS: Source<'static> =
    Source { name: "the starter limits", text: include_str!("starter/limits.yaml") };

/// One byte more than a file may have, so that a larger one is refused as such.
const BYTES_READ_MAX: usize = FILE_BYTES_MAX + 1;

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
    #[error(transparent)]
    Unread(#[from] Unread),
}

impl Text {
    /// Reads a file, or whatever a person names instead of one, such as a pipe. `what` says what it
    /// holds, for errors.
    pub fn read(what: &'static str, path: &Path) -> Result<Self, ReadError> {
        let failed = |source| ReadError::Io { what, path: path.to_owned(), source };
        let bytes_max = u64::try_from(BYTES_READ_MAX).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(bytes_max).read_to_end(&mut bytes).map_err(failed)?;
        Self::new(path, bytes)
    }

    /// Reads a file that a server reads, and perhaps again while it runs. Refuses what is no regular
    /// file.
    pub fn read_regular(what: &'static str, path: &Path) -> Result<Self, ReadError> {
        let failed = |source| ReadError::Io { what, path: path.to_owned(), source };
        Self::new(path, read_file(path, BYTES_READ_MAX).map_err(failed)?)
    }

    /// The same on a thread of its own, before the process can be asked to end: a disk that does not answer
    /// in time is an error. None if there is no such file and there need not be one.
    pub fn read_in_time(
        what: &'static str,
        path: &Path,
        must_exist: bool,
    ) -> Result<Option<Self>, ReadError> {
        let path = path.to_owned();
        let failed = |source| ReadError::Io { what, path: path.clone(), source };
        let thread = FileThread::start(READ_TIME_MAX).map_err(failed)?;
        Self::read_on(&thread, what, path, must_exist)
    }

    pub(crate) fn read_on(
        thread: &FileThread,
        what: &'static str,
        path: PathBuf,
        must_exist: bool,
    ) -> Result<Option<Self>, ReadError> {
        thread.run(move |place| {
            place.is(&path);
            if !must_exist && !path.exists() {
                return Ok(None);
            }
            Self::read_regular(what, &path).map(Some)
        })?
    }

    fn new(path: &Path, bytes: Vec<u8>) -> Result<Self, ReadError> {
        let name = path.display().to_string();
        let text = String::from_utf8(bytes).map_err(|error| not_text(&name, &error))?;
        Ok(Self { name, text })
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

/// Where the files are. If there is none of any kind, starters stand in for all of them.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    limits: Option<PathBuf>,
    overrides: Option<PathBuf>,
    buckets: Option<PathBuf>,
    rules: Option<PathBuf>,
    /// Whether buckets are shared, and so counted elsewhere.
    is_shared: bool,
}

/// What was in the files, which is still to be parsed.
#[derive(Debug)]
pub(crate) struct Texts {
    limits: Option<Text>,
    overrides: Option<Text>,
    buckets: Option<Text>,
    rules: Option<Text>,
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
            error => Self::Read(error),
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
    /// There are overrides of limits, and no limits.
    #[error(
        "the overrides in {} are of limits, and no limits file is named: name it with --limits, or \
         `limits` in ratekeeper.yaml",
        overrides.display()
    )]
    NoLimits {
        /// Where the overrides are.
        overrides: PathBuf,
    },
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<Option<FileStamp>>);

/// Device, inode, size, when it was written, and when anything about it was changed, which nobody can set:
/// seconds and nanoseconds.
type FileStamp = (u64, u64, u64, [i64; 4]);

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

    /// Whether there is none, so that starters stand in.
    pub(crate) fn are_starters(&self) -> bool {
        self.paths().next().is_none()
    }

    /// Reads all of them. It is said at `place` which of them is looked at.
    pub(crate) fn read(&self, place: &Place) -> Result<Texts, ReadError> {
        let read = |what, path: &Option<PathBuf>| {
            let read = |path: &PathBuf| {
                place.is(path);
                Text::read_regular(what, path)
            };
            path.as_ref().map(read).transpose()
        };
        Ok(Texts {
            limits: read("limits", &self.limits)?,
            overrides: read("overrides", &self.overrides)?,
            buckets: read("buckets", &self.buckets)?,
            rules: read("rules", &self.rules)?,
        })
    }

    /// What their texts say. Refuses all of them if anything is wrong with one. A large file takes a while.
    pub(crate) fn parse(&self, texts: &Texts) -> Result<Loaded, LoadError> {
        let Texts { limits, overrides, buckets, rules } = texts;
        if let (None, Some(overrides)) = (&self.limits, &self.overrides) {
            return Err(LoadError::NoLimits { overrides: overrides.clone() });
        }
        let overrides = overrides.as_ref().map(Text::source);
        let limits = match limits {
            Some(limits) => Limits::parse(&limits.source(), overrides.as_ref())?,
            None if self.are_starters() => Limits::parse(&STARTER_LIMITS, None)?,
            None => Limits::new(),
        };
        let limits = match buckets {
            Some(text) => limits.with_buckets(&text.source())?,
            None if self.are_starters() => with_starter_buckets(limits)?,
            None => limits,
        };
        let no_rules = Source { name: "no rules", text: "" };
        let rules = match rules {
            Some(rules) => rules.source(),
            None if self.are_starters() => udp::STARTER,
            None => no_rules,
        };
        let rules = udp::Rules::parse(&rules, &limits)?;
        if self.is_shared {
            limits.iter().try_for_each(check_shared)?;
        }
        Ok(Loaded { limits, rules })
    }

    /// What faults call them.
    pub(crate) fn names(&self) -> Vec<String> {
        if self.are_starters() {
            let starters = [STARTER_LIMITS.name, bucket::STARTER.name, udp::STARTER.name];
            return starters.map(str::to_owned).to_vec();
        }
        self.paths().map(|path| path.display().to_string()).collect()
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let paths = [&self.limits, &self.overrides, &self.buckets, &self.rules];
        paths.into_iter().flatten().map(PathBuf::as_path)
    }

    /// What they look like now.
    pub(crate) fn stamp(&self, place: &Place) -> Stamp {
        Stamp::of(self.paths(), place)
    }
}

impl Stamp {
    /// What these files look like now. It is said at `place` which of them is looked at.
    pub(crate) fn of<'a>(paths: impl Iterator<Item = &'a Path>, place: &Place) -> Self {
        let stamp = |file: Metadata| {
            let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
            (file.dev(), file.ino(), file.size(), times)
        };
        let look = |path: &Path| {
            place.is(path);
            path.metadata().ok().map(stamp)
        };
        Self(paths.map(look).collect())
    }
}

/// Refuses a limit that Redis cannot count.
fn check_shared(named: &NamedLimit) -> Result<(), LoadError> {
    let default = named.default().map(|default| (&default.limit, &default.origin));
    let overrides = named.overrides().iter().map(|over| (&over.limit, &over.origin));
    for (limit, origin) in default.into_iter().chain(overrides) {
        ratekeeper_redis::Rule::new(limit.rule()).map_err(|source| LoadError::TooSlow {
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
