//! Reading files that somebody else writes: regular ones only, only so much of them, and on a thread
//! of their own, so that nobody waits for a disk that does not answer for longer than is said here.

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use nix::libc;
use parking_lot::{Condvar, Mutex};

/// How long reading a group of files may take. Tests that have a disk hang wait for less.
pub(crate) const READ_TIME_MAX: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 10 });

/// Opens a file to read it. Refuses what is no regular file: a pipe would be waited for, and a device
/// may have no end.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    // Before it is opened, because opening a device may do something.
    refuse_irregular(path.metadata()?.is_file())?;
    // It may have become something else since.
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    refuse_irregular(file.metadata()?.is_file())?;
    Ok(file)
}

/// What is in a regular file, at most `bytes_max` bytes of it.
pub(crate) fn read_file(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    open_file(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All that is in a regular file. Refuses one that is larger than `bytes_max` bytes.
pub(crate) fn read_whole_file(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let bytes = read_file(path, bytes_max.saturating_add(1))?;
    if bytes.len() > bytes_max {
        return Err(io::Error::other(format!("it is larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

fn refuse_irregular(is_regular: bool) -> io::Result<()> {
    if is_regular { Ok(()) } else { Err(io::Error::other("it is no regular file")) }
}

/// Why files were not read, whatever is in them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum Unread {
    #[error(
        "{} does not answer within {}s: see whether its disk or network share does",
        path.display(),
        bound.as_secs_f64()
    )]
    Late { path: PathBuf, bound: Duration },
    #[error("the server is to stop, so no files are read any more")]
    Stopped,
    #[error("the thread that reads files is gone: this is a bug")]
    Gone,
}

/// A thread that reads files. A disk that hangs stops this thread only; whoever waits for it gives up after
/// the bound.
#[derive(Debug)]
pub(crate) struct FileThread {
    /// Locked by a call of `run` until its job is done.
    turn: Mutex<Sender<Job>>,
    shared: Arc<Shared>,
    bound: Duration,
}

type Job = Box<dyn FnOnce() + Send>;

/// What the thread and those who wait for it both see.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The file that was looked at last.
    place: Place,
}

#[derive(Debug, Default)]
struct State {
    is_busy: bool,
    is_stopped: bool,
}

/// Where the thread says which file it is about to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place(Arc<Mutex<PathBuf>>);

impl Place {
    pub(crate) fn is(&self, path: &Path) {
        path.clone_into(&mut self.0.lock());
    }
}

impl FileThread {
    /// Starts the thread. What it is given to do has to be done within `bound`.
    pub(crate) fn start(bound: Duration) -> io::Result<Self> {
        let (turn, jobs) = channel::<Job>();
        let work = move || jobs.into_iter().for_each(|job| job());
        thread::Builder::new().name("files".into()).spawn(work)?;
        Ok(Self { turn: Mutex::new(turn), shared: Arc::default(), bound })
    }

    /// Has the thread do something, and returns what came of it. Fails if that takes too long, or if
    /// the thread still hangs where it hung before.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Place) -> T + Send + 'static,
    ) -> Result<T, Unread> {
        let Some(turn) = self.turn.try_lock_for(self.bound) else { return Err(self.late()) };
        {
            let mut state = self.shared.state.lock();
            if state.is_stopped {
                return Err(Unread::Stopped);
            }
            if state.is_busy {
                return Err(self.late());
            }
            state.is_busy = true;
        }
        let result = Arc::new(Mutex::new(None));
        let (shared, slot) = (Arc::clone(&self.shared), Arc::clone(&result));
        let job = move || {
            // Were it to panic through, nothing would ever be read again.
            let done = catch_unwind(AssertUnwindSafe(|| job(&shared.place)));
            *slot.lock() = Some(done.map_err(|_| Unread::Gone));
            shared.state.lock().is_busy = false;
            shared.changed.notify_all();
        };
        turn.send(Box::new(job)).map_err(|_| Unread::Gone)?;
        let mut state = self.shared.state.lock();
        while state.is_busy && !state.is_stopped {
            if self.shared.changed.wait_for(&mut state, self.bound).timed_out() {
                break;
            }
        }
        let is_stopped = state.is_stopped;
        drop(state);
        let done = result.lock().take();
        done.unwrap_or_else(|| Err(if is_stopped { Unread::Stopped } else { self.late() }))
    }

    /// Ends every call of [`run`](Self::run) that waits now or is made later with [`Unread::Stopped`].
    pub(crate) fn stop(&self) {
        self.shared.state.lock().is_stopped = true;
        self.shared.changed.notify_all();
    }

    fn late(&self) -> Unread {
        Unread::Late { path: self.shared.place.0.lock().clone(), bound: self.bound }
    }
}
