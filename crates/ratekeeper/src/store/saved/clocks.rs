//! What time it was when state was saved, so that buckets go on from there.

use std::io::{self, Read, Write};

use super::{Reader, RestoreError, Section, Writer};
use crate::Moment;

/// Two clocks at the moment of a save.
///
/// Buckets count by a clock that never steps, the wall clock is set by people and by NTP, so the two
/// may differ. Who restores goes on from [`SavedClocks::resume`], whatever happened to the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedClocks {
    /// What time it was for the buckets.
    pub buckets: Moment,
    /// What the wall clock said.
    pub wall: Moment,
}

impl SavedClocks {
    /// Saves them as one section. Fails where `to` does.
    pub fn save<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        to.begin(Section::Clocks);
        to.u64(self.buckets.as_nanos())?;
        to.u64(self.wall.as_nanos())?;
        to.end()
    }

    /// Those that were saved in the section `from` has found. Refuses what is damaged.
    pub fn restore<R: Read>(from: &mut Reader<R>) -> Result<Self, RestoreError> {
        from.begin(Section::Clocks)?;
        let (buckets, wall) = (Moment::from_nanos(from.u64()?), Moment::from_nanos(from.u64()?));
        from.end()?;
        Ok(Self { buckets, wall })
    }

    /// What time it is for the buckets where the wall clock says `wall` now: as much later as the wall
    /// clock has run since, and not later where it was set back.
    pub fn resume(&self, wall: Moment) -> Moment {
        self.buckets.after(wall.since(self.wall))
    }
}
