//! Files that a running server reads again, in groups: where the disk of one group hangs, the others are
//! read all the same.

use std::io;
use std::time::Duration;

use parking_lot::Mutex;

use crate::files::Stamp;
use crate::reading::{FileThread, Place, Unread};

/// All groups.
#[derive(Debug)]
pub(crate) struct FileGroups {
    /// Limits, overrides, buckets and rules, which refer to each other.
    pub(crate) limits: FileGroup,
    pub(crate) tokens: FileGroup,
    pub(crate) certificates: FileGroup,
}

/// Files that are read together, on a thread of their own.
#[derive(Debug)]
pub(crate) struct FileGroup {
    thread: FileThread,
    /// What they looked like before they were last read to their end: what changes from there on is
    /// seen to have changed.
    seen: Mutex<Stamp>,
}

impl FileGroups {
    /// Starts the threads. Reading one group has to be done within `bound`.
    pub(crate) fn start(bound: Duration) -> io::Result<Self> {
        let group =
            || FileThread::start(bound).map(|thread| FileGroup { thread, seen: Mutex::default() });
        Ok(Self { limits: group()?, tokens: group()?, certificates: group()? })
    }

    /// Lets everybody go who waits for a file.
    pub(crate) fn stop(&self) {
        for group in [&self.limits, &self.tokens, &self.certificates] {
            group.thread.stop();
        }
    }
}

impl FileGroup {
    /// Reads the files with `read`; `look` says what they look like. Neither parses anything: what takes
    /// long here is the disk.
    pub(crate) fn read<T: Send + 'static, E: Send + 'static>(
        &self,
        look: impl FnOnce(&Place) -> Stamp + Send + 'static,
        read: impl FnOnce(&Place) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<T, E>, Unread> {
        let (stamp, done) = self.run(move |place| (look(place), read(place)))?;
        // Files that could not be read are as new as before.
        if done.is_ok() {
            *self.seen.lock() = stamp;
        }
        Ok(done)
    }

    /// Whether the files look different from when they were read. While they cannot be looked at, nothing
    /// can be said of them.
    pub(crate) fn has_changed(&self, look: impl FnOnce(&Place) -> Stamp + Send + 'static) -> bool {
        self.run(look).is_ok_and(|stamp| stamp != *self.seen.lock())
    }

    /// Has the thread of these files do something.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Place) -> T + Send + 'static,
    ) -> Result<T, Unread> {
        self.thread.run(job)
    }
}
