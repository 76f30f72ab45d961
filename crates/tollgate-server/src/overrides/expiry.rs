//! Overrides that end by themselves.

use tollgate::{Moment, Nanos};

use super::BY_ITSELF;
use super::audit::Action;
use super::change::Who;
use super::standing::Changing;
use super::step::Step;
use crate::house::House;
use crate::transport::Time;

/// How soon it is tried again to keep that some have ended.
const RETRY: Nanos = Nanos::from_secs(1);

impl House {
    /// Ends the overrides whose time has come when the wall clock says `wall`, and returns when to call
    /// this next: when the next one ends, if one does.
    ///
    /// Where that cannot be kept on the disk, they end all the same. It is then tried again, and
    /// if the process dies before, their time is still over at the next start.
    pub(crate) fn expire_overrides(&self, wall: Moment, time: &dyn Time) -> Option<Moment> {
        let next_end = self.standing.load().table.next_end();
        if next_end.is_none_or(|end| end > wall) {
            return next_end;
        }
        let changing = self.standing.change();
        if self.expire(&changing, wall, time) {
            self.standing.load().table.next_end()
        } else {
            Some(wall.after(RETRY))
        }
    }

    /// Whether all of it was done.
    fn expire(&self, changing: &Changing<'_>, wall: Moment, time: &dyn Time) -> bool {
        let old = changing.load();
        let ended: Vec<_> = old.table.iter().filter(|over| over.is_over(wall)).cloned().collect();
        let next = old.with_table(old.table.without(|over| over.is_over(wall)), wall);
        let steps = ended.into_iter().map(|over| {
            let (before, after) = (old.applied(&over), next.applied(&over));
            Step { why: over.why.clone(), action: Action::Expire, over, before, after }
        });
        let who = Who { by: BY_ITSELF, from: None };
        let records = steps.map(|step| step.record(who, wall)).collect();
        let Err(error) = self.keep_and_apply(changing, next, records, time) else {
            return true;
        };
        // Once they are out of force, there is no more to say until it works.
        if old.has_ended_in_force(wall) {
            let error = crate::with_causes(&error);
            tracing::error!(%error, "overrides have ended, which could not be kept on the disk");
            let next = old.with_table(old.table.clone(), wall);
            if let Err(error) = self.apply(changing, next, time.now(), |swap| swap()) {
                tracing::error!(%error, "overrides have ended, but are still in force");
            }
        }
        false
    }
}
