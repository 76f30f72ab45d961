//! The control socket: whoever connects is told the counters, as JSON, and that is all.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::stats::Stats;

/// How long a reader may take.
const READ_TIME_MAX: Duration = Duration::from_secs(1);
/// The longest answer.
const STATS_BYTES_MAX: u64 = 1 << 20;

/// A control socket, which is removed when it is dropped.
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// The right to the path. The system gives it back when the process ends, however it ends; the file
    /// stays, because whoever removed it could remove one that another server has locked.
    _lock: File,
}

/// Why the counters of a server cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// Nobody answers.
    #[error("no server answers at {}: is it running, and with this --control?", path.display())]
    Unreachable {
        /// Where it was looked for.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody answers, but not a server of this kind.
    #[error("what answers at {} is not a Ratekeeper server of this version", path.display())]
    Strange {
        /// Where it was looked for.
        path: PathBuf,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
}

impl Control {
    /// Opens the socket. Refuses a path that another server has, or that is something else.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Before it is looked at: of servers that start at the same moment, each could find it abandoned,
        // and remove the socket of the other.
        let lock = lock(path)?;
        remove_if_abandoned(path)?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: path.to_owned(), _lock: lock })
    }

    /// The next who wants to read.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Locks the file beside a control socket that says whose it is.
fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let mut options = OpenOptions::new();
    // Not through a link: who may write to the folder must not choose which file is made.
    options.write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(name)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(another_server()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn another_server() -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, "another server answers there")
}

/// A server that was killed leaves its socket behind.
fn remove_if_abandoned(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"))
        }
        Ok(_) if StdUnixStream::connect(path).is_ok() => Err(another_server()),
        Ok(_) => std::fs::remove_file(path),
    }
}

/// Tells `stats` to whoever connected.
pub(crate) async fn tell(mut stream: UnixStream, stats: &Stats) {
    let Ok(mut text) = serde_json::to_vec(stats) else { return };
    text.push(b'\n');
    // A reader that does not read is its own problem.
    let _ = timeout(READ_TIME_MAX, stream.write_all(&text)).await;
}

/// Reads the counters of the server whose control socket this is.
pub fn read_stats(path: &Path) -> Result<Stats, StatsError> {
    let read = || {
        let stream = StdUnixStream::connect(path)?;
        stream.set_read_timeout(Some(READ_TIME_MAX))?;
        let mut text = Vec::new();
        stream.take(STATS_BYTES_MAX).read_to_end(&mut text)?;
        Ok(text)
    };
    let text =
        read().map_err(|source| StatsError::Unreachable { path: path.to_owned(), source })?;
    serde_json::from_slice(&text)
        .map_err(|source| StatsError::Strange { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
