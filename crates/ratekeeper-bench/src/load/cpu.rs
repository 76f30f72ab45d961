//! How much of a processor another process uses.

use std::cell::{Cell, RefCell};
use std::time::Duration;
use std::{fs, io};

use ratekeeper::Moment;

use super::tally::Window;

/// How long a tick is in `/proc`: a hundredth of a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// The use of one process in the window of a run.
#[derive(Debug)]
pub(crate) struct Cpu {
    pid: u32,
    begin: Cell<Option<Duration>>,
    end: Cell<Option<Duration>>,
    failure: RefCell<Option<io::Error>>,
}

impl Cpu {
    /// Refuses a process that is not there.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        used(pid)?;
        let (begin, end) = (Cell::default(), Cell::default());
        Ok(Self { pid, begin, end, failure: RefCell::default() })
    }

    /// Reads what was used, once at either end of the window.
    pub(crate) fn look(&self, window: &Window, now: Moment) {
        for (edge, cell) in [(window.begin, &self.begin), (window.end, &self.end)] {
            if now >= edge && cell.get().is_none() {
                match used(self.pid) {
                    Ok(used) => cell.set(Some(used)),
                    Err(error) => drop(self.failure.borrow_mut().get_or_insert(error)),
                }
            }
        }
    }

    /// What was used in the window. Refuses if the process went away.
    pub(crate) fn used(self) -> io::Result<Duration> {
        match (self.begin.get(), self.end.get(), self.failure.into_inner()) {
            (Some(begin), Some(end), None) => Ok(end.saturating_sub(begin)),
            (_, _, failure) => Err(failure.unwrap_or(io::ErrorKind::NotFound.into())),
        }
    }
}

/// What a process has used since it began, by itself and in the kernel.
fn used(pid: u32) -> io::Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks(&text)
        .and_then(|ticks| u32::try_from(ticks).ok())
        .and_then(|ticks| TICK.checked_mul(ticks))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The fields 14 and 15. The second is the name of the program, which may have anything in it, so
/// they are counted from behind it.
fn ticks(text: &str) -> Option<u64> {
    let (_, behind) = text.rsplit_once(')')?;
    let mut fields = behind.split_ascii_whitespace().skip(11);
    let [user, kernel]: [u64; 2] = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?];
    user.checked_add(kernel)
}

#[cfg(test)]
mod tests;
