//! Overrides of a server, for the program that it runs in.

use std::io;
use std::sync::Arc;

use ratekeeper::Moment;

use super::active_overrides::OverrideCounts;
use super::audit::Record;
use super::change::{Changed, NewOverride, Who};
use super::error::{OverrideError, Refused};
use super::list::Page;
use super::table::RunTimeOverride;
use crate::server::Server;

impl Server {
    /// Makes an override, or changes it; in a dry run, only tells what that would do. Refuses terms
    /// that cannot be, and lower ones than are in force unless that is allowed.
    ///
    /// It is in force, and on the disk if there is a state directory, when this returns.
    pub fn put_override(
        &self,
        new: NewOverride,
        who: Who<'_>,
        is_dry_run: bool,
    ) -> Result<Changed, OverrideError> {
        self.engine().put_override(new, who, is_dry_run, self.time())
    }

    /// Makes or changes many overrides, all of them or none.
    pub fn put_overrides(
        &self,
        many: Vec<NewOverride>,
        who: Who<'_>,
        is_dry_run: bool,
    ) -> Result<Vec<Changed>, Refused> {
        self.engine().put_overrides(many, who, is_dry_run, self.time())
    }

    /// Removes an override that was made at run time. Refuses to remove one from a file.
    pub fn remove_override(
        &self,
        limit: &str,
        id: &str,
        why: &str,
        who: Who<'_>,
        is_dry_run: bool,
    ) -> Result<Changed, OverrideError> {
        self.engine().remove_override(limit, id, why, who, is_dry_run, self.time())
    }

    /// Overrides from files and from run time, of one limit or of all, after where a page ended.
    pub fn overrides(&self, limit: Option<&str>, after: Option<&str>, max: usize) -> Page {
        self.engine().overrides(limit, after, max)
    }

    /// The override that was made at run time and is in force for an id.
    pub fn override_of(&self, limit: &str, id: &str) -> Option<Arc<RunTimeOverride>> {
        self.engine().override_of(limit, id)
    }

    /// How many overrides there are.
    pub fn override_counts(&self) -> OverrideCounts {
        self.engine().active_overrides.counts()
    }

    /// The last records of the audit, the newest last. Fails where the file cannot be read.
    pub fn audit(&self, last: usize) -> io::Result<Vec<Record>> {
        self.engine().audit(last)
    }

    /// Puts the overrides out of force whose time has come, and waits for no disk.
    pub(crate) fn end_overrides(&self, wall: Moment) -> Option<Moment> {
        self.engine().end_overrides(wall, self.time())
    }

    /// Ends the overrides whose time has come when the wall clock says `wall`, and returns when the next
    /// one ends. A process calls this by itself; whoever has a server without one calls it when the
    /// time has come.
    pub fn expire_overrides(&self, wall: Moment) -> Option<Moment> {
        self.engine().expire_overrides(wall, self.time())
    }
}
