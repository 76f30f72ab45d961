//! Overrides that end by themselves: first they are out of force, then that is recorded.

use std::sync::atomic::Ordering;

use ratekeeper::{Moment, Nanos};

use super::BY_ITSELF;
use super::audit::Action;
use super::change::Who;
use super::error::OverrideError;
use super::step::Step;
use crate::engine::ServerEngine;
use crate::transport::Time;

/// How soon it is tried again to record that some have ended.
const RETRY: Nanos = Nanos::from_secs(1);

impl ServerEngine {
    /// Puts the overrides out of force whose time has come when the wall clock says `wall`, and returns when
    /// the next one ends, if one does. It waits for no disk.
    pub(crate) fn end_overrides(&self, wall: Moment, time: &dyn Time) -> Option<Moment> {
        if self.active_overrides.load().has_ended_in_force(wall) {
            let changing = self.active_overrides.change();
            let old = changing.load();
            let next = old.as_of(wall);
            if let Err(error) = self.apply(&changing, next, time.now(), |swap| swap()) {
                tracing::error!(%error, "overrides have ended, but are still in force");
            }
        }
        self.active_overrides.load().table.next_end_after(wall)
    }

    /// Ends the overrides whose time has come when the wall clock says `wall`, records that on the disk, and
    /// returns when to call this next: when the next one ends, if one does.
    ///
    /// Where it cannot be recorded, they end all the same. It is then tried again, and if the process dies
    /// before, their time is still over at the next start.
    pub(crate) fn expire_overrides(&self, wall: Moment, time: &dyn Time) -> Option<Moment> {
        let next_end = self.active_overrides.load().table.next_end();
        if next_end.is_none_or(|end| end > wall) {
            return next_end;
        }
        self.end_overrides(wall, time);
        let recorded = self.record_ended(wall, time);
        let was_unrecorded =
            self.active_overrides.is_unrecorded.swap(recorded.is_err(), Ordering::Relaxed);
        match recorded {
            Ok(()) => self.active_overrides.load().table.next_end(),
            Err(error) => {
                // Said once, until it works again.
                if !was_unrecorded {
                    let error = crate::with_causes(&error);
                    tracing::error!(%error, "overrides have ended, which could not be kept on the disk");
                }
                Some(wall.after(RETRY))
            }
        }
    }

    /// Takes those that are over off the disk and off the table.
    fn record_ended(&self, wall: Moment, time: &dyn Time) -> Result<(), OverrideError> {
        let recording = self.active_overrides.record();
        let old = recording.load();
        let ended: Vec<_> = old.table.iter().filter(|over| over.is_over(wall)).cloned().collect();
        if ended.is_empty() {
            return Ok(());
        }
        let table = old.table.without(|over| over.is_over(wall));
        // They are out of force already.
        let while_they_lasted = old.as_of(Moment::EPOCH);
        let steps = ended.into_iter().map(|over| {
            let (before, after) = (while_they_lasted.applied(&over), old.applied(&over));
            Step { why: over.why.clone(), action: Action::Expire, over, before, after }
        });
        let who = Who { by: BY_ITSELF, from: None };
        let records = steps.map(|step| step.record(who, wall)).collect();
        self.keep_and_apply(&recording, &table, records, (wall, time))
    }
}
