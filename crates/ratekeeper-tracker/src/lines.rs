//! The lines of a bucket: one for each class of requests that wait for it.
//!
//! What one class waits for need not keep another waiting, so that a limit on what is written does
//! not stop what is read. Within a line the first comes first; of several lines that their bucket
//! lets go, the one whose first came first.

use ratekeeper_time::Moment;
use smallvec::SmallVec;

use crate::arena::Slot;
use crate::headers::Unit;
use crate::paces::Class;
use crate::request::Load;

/// The lines of a bucket, of which none is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    pub(crate) all: SmallVec<[Line; 1]>,
    /// What keeps the oldest waiting that the bucket lets not go.
    pub(crate) stand: Stand,
}

/// Those who wait, the first and the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) class: Class,
    pub(crate) first: Option<Slot>,
    pub(crate) last: Option<Slot>,
    pub(crate) waiting: Load,
    /// The number of the first, if it may go as soon as the limits on everything allow.
    pub(crate) ready: Option<u64>,
}

/// Where a bucket that somebody waits for stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It lets the first of each line go.
    #[default]
    Open,
    /// An answer must come first.
    Aside,
    /// At that moment.
    Timed(Moment),
}

impl Lines {
    pub(crate) fn of(&self, class: Class) -> Option<&Line> {
        self.all.iter().find(|line| line.class == class)
    }

    pub(crate) fn of_mut(&mut self, class: Class) -> Option<&mut Line> {
        self.all.iter_mut().find(|line| line.class == class)
    }

    /// The line of a class, made if need be.
    pub(crate) fn add(&mut self, class: Class) -> &mut Line {
        let known = self.all.iter().position(|line| line.class == class);
        let place = known.unwrap_or_else(|| {
            self.all.push(Line { class, ..Line::default() });
            self.all.len() - 1
        });
        &mut self.all[place]
    }

    /// What those cost together who wait.
    pub(crate) fn waiting(&self, unit: Unit) -> u64 {
        self.all.iter().map(|line| line.waiting.of(unit)).sum()
    }
}
