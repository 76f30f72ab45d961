//! The state directory: what was spent, saved so that a restart forgets nothing.
//!
//! What was spent is in one file, `state`. A new one is written beside it and takes its place only when it is
//! whole and on the disk, so whenever the process ends there is one whole file. A file that is
//! damaged all the same is set aside for a person to look at, and the server starts without it.

use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::libc;
use parking_lot::Mutex;
use ratekeeper::limits::Limits;
use ratekeeper::store::saved::{Reader, RestoreError, SavedClocks, Section, Writer};
use ratekeeper::{Keyed, Limiter, Moment, Nanos};

use crate::admin::{Started, WALL_STEP_MIN};
use crate::engine::{Shares, Stores};
use crate::reading::open_file;
use crate::transport::{ResumedTime, Time};

/// The file, and the one that is being written.
const FILE: &str = "state";
const NEW_FILE: &str = "state.new";
/// What a folder of ours allows: everything to its owner.
const PRIVATE: u32 = 0o700;
/// Buckets have at least so much time ahead of them. A state that was saved later was saved by a
/// clock that was wrong by a century, and nothing that is owed there would come back before time ends.
const TIME_LEFT_MIN: Nanos = Nanos::from_secs(100 * 365 * 86_400);
/// Held as long as a server uses the directory.
const LOCK_FILE: &str = "lock";

/// A state directory that is ours alone.
#[derive(Debug)]
pub(crate) struct StateDir {
    folder: PathBuf,
    /// Locked while one is being written.
    writing: Mutex<()>,
    /// The system gives the lock back when the process ends, however it ends.
    _lock: File,
}

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum StateError {
    #[error("{doing} the state directory {}", folder.display())]
    Io { doing: &'static str, folder: PathBuf, source: io::Error },
    #[error(
        "another server uses the state directory {}: stop it, or give this one a --state of its own",
        folder.display()
    )]
    Taken { folder: PathBuf },
    #[error("restoring what was spent from the state directory {}", folder.display())]
    Restore { folder: PathBuf, source: RestoreError },
    #[error(
        "overrides.json in the state directory {} is of version {version}, which this program does \
         not know: start the program that wrote it, or move the file away",
        folder.display()
    )]
    Overrides { folder: PathBuf, version: u32 },
}

impl StateDir {
    /// Makes the directory ours. Refuses one that another server uses.
    pub(crate) fn open(folder: &Path) -> Result<Self, StateError> {
        let failed = |source| StateError::Io { doing: "opening", folder: folder.into(), source };
        make_private(folder).map_err(failed)?;
        let lock = private_file().truncate(false).open(folder.join(LOCK_FILE)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateError::Taken { folder: folder.into() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        Ok(Self { folder: folder.into(), writing: Mutex::default(), _lock: lock })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The time by which buckets go on from what was saved, whatever has happened to the wall clock
    /// since: `time` itself if nothing was saved.
    pub(crate) fn resume(&self, time: Arc<dyn Time>) -> Result<Arc<dyn Time>, StateError> {
        let Some(saved) = self.clocks() else { return Ok(time) };
        let wall = time.wall();
        let resumed = saved.resume(wall);
        if Moment::MAX.since(resumed) < TIME_LEFT_MIN {
            self.set_aside(&"it was saved by a clock that was wrong by a century", wall)?;
            return Ok(time);
        }
        let back = saved.wall.since(wall);
        if back > WALL_STEP_MIN {
            tracing::warn!(
                back = %back.brief(),
                "the wall clock has been set back since the state was saved: buckets go on as of then, \
                 and nothing has come back meanwhile"
            );
        }
        if resumed == time.now() {
            return Ok(time);
        }
        Ok(Arc::new(ResumedTime::new(time, resumed)))
    }

    /// What time it was at the last save, if that is known. What is damaged is told by whoever reads
    /// all of it.
    pub(crate) fn clocks(&self) -> Option<SavedClocks> {
        let mut reader = Reader::new(open_file(&self.folder.join(FILE)).ok()?).ok()?;
        match reader.next_section() {
            Ok(Some(Section::Clocks)) => SavedClocks::restore(&mut reader).ok(),
            _ => None,
        }
    }

    /// The stores as they were saved, with `limits` in force since `started`; none if nothing usable
    /// was saved.
    pub(crate) fn restore(
        &self,
        limits: &Limits,
        shares: Shares,
        started: Started,
    ) -> Result<Option<Stores>, StateError> {
        let path = self.folder.join(FILE);
        match self.load(limits, shares, started.at) {
            Ok(Some(stores)) => {
                let keys = stores.limiter.held().keys
                    + stores.averages.held().keys
                    + stores.quotas.held().keys
                    + stores.inline_rules.held().keys;
                tracing::info!(keys, path = %path.display(), "what was spent is restored");
                Ok(Some(stores))
            }
            Err(StateError::Restore { source: damage, .. }) if damage.is_damage() => {
                self.set_aside(&damage, started.wall).map(|()| None)
            }
            other => other,
        }
    }

    /// The same for whoever does not serve: what is damaged is refused, and stays where it is.
    pub(crate) fn load(
        &self,
        limits: &Limits,
        shares: Shares,
        at: Moment,
    ) -> Result<Option<Stores>, StateError> {
        let file = match open_file(&self.folder.join(FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed("reading", source)),
        };
        let restored = read(file, limits, shares, at).map(Some);
        restored.map_err(|source| StateError::Restore { folder: self.folder.clone(), source })
    }

    /// Whether a server uses it, or ever did.
    pub(crate) fn was_used(folder: &Path) -> bool {
        folder.join(LOCK_FILE).exists()
    }

    /// How many bytes are saved; none if nothing is.
    pub(crate) fn bytes(folder: &Path) -> Option<u64> {
        fs::metadata(folder.join(FILE)).ok().map(|file| file.len())
    }

    /// A damaged file is kept for whoever wants to know why, and is in nobody's way.
    fn set_aside(&self, damage: &dyn Display, wall: Moment) -> Result<(), StateError> {
        let seconds = wall.as_nanos() / 1_000_000_000;
        let aside = self.folder.join(format!("{FILE}.damaged-{seconds}"));
        fs::rename(self.folder.join(FILE), &aside)
            .map_err(|source| self.failed("setting aside a file in", source))?;
        tracing::error!(
            %damage, set_aside = %aside.display(),
            "the saved state cannot be used: starting as if nothing had been spent"
        );
        Ok(())
    }

    /// Writes what was spent, and replaces the file by it.
    pub(crate) fn save(&self, stores: &Stores, clocks: SavedClocks) -> Result<(), StateError> {
        let _only_one = self.writing.lock();
        self.write(stores, clocks).map_err(|source| self.failed("writing to", source))
    }

    fn write(&self, stores: &Stores, clocks: SavedClocks) -> io::Result<()> {
        let now = clocks.buckets;
        let new = self.folder.join(NEW_FILE);
        let mut file = private_file().truncate(true).open(&new)?;
        let mut writer = Writer::new(&mut file)?;
        // First, so that it can be read before there is room for the rest.
        clocks.save(&mut writer)?;
        stores.limiter.save(&mut writer, now)?;
        stores.averages.save(&mut writer, now)?;
        stores.quotas.save(&mut writer, now)?;
        stores.inline_rules.save(&mut writer, now)?;
        writer.finish()?;
        // On the disk before it has the name: a power cut leaves the old one or the new one.
        file.sync_data()?;
        fs::rename(&new, self.folder.join(FILE))?;
        File::open(&self.folder)?.sync_all()
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> StateError {
        StateError::Io { doing, folder: self.folder.clone(), source }
    }
}

fn read(file: File, limits: &Limits, shares: Shares, at: Moment) -> Result<Stores, RestoreError> {
    let (mut limiter, mut averages, mut quotas, mut inline_rules) = (None, None, None, None);
    let mut reader = Reader::new(file)?;
    while let Some(section) = reader.next_section()? {
        let reader = &mut reader;
        match section {
            Section::Limits => {
                limiter = Some(Limiter::restore(limits.clone(), shares.limits, reader, at)?);
            }
            Section::Averages => averages = Some(Keyed::restore(shares.averages, reader, at)?),
            Section::Clocks => {}
            Section::Quotas => quotas = Some(Keyed::restore(shares.quotas, reader, at)?),
            Section::InlineRules => {
                inline_rules = Some(Keyed::restore(shares.inline_rules, reader, at)?);
            }
        }
    }
    // Only now is all of it known to be good. What a file does not have, nobody had used.
    let empty = Stores::new(limits.clone(), shares)
        .map_err(|source| RestoreError::Memory { memory: shares.all(), source })?;
    Ok(Stores {
        limiter: limiter.map_or(empty.limiter, Arc::new),
        averages: averages.map_or(empty.averages, Arc::new),
        quotas: quotas.map_or(empty.quotas, Arc::new),
        inline_rules: inline_rules.map_or(empty.inline_rules, Arc::new),
        shared: empty.shared,
    })
}

/// A file that nobody else may read: it holds the secret that keys are hashed with, or names.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    // Whoever opens a pipe to write to it waits for somebody who reads it, unless told not to.
    options.write(true).create(true).mode(0o600).custom_flags(libc::O_NONBLOCK);
    options
}

/// Makes a folder that nobody else may look into, whatever the umask is. One that is there stays as
/// its owner made it.
fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(PRIVATE).create(folder) {
        // The umask may have taken from it what its owner needs.
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(PRIVATE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {
            warn_if_others_write(folder)
        }
        Err(error) => Err(error),
    }
}

/// Who may write to the folder may put another state there.
fn warn_if_others_write(folder: &Path) -> io::Result<()> {
    let mode = fs::metadata(folder)?.permissions().mode();
    if mode & 0o022 != 0 {
        tracing::warn!(
            folder = %folder.display(),
            "others than its owner may write to the state directory: use `chmod 700`"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
