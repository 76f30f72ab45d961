//! Room for a new key: found first, and made when the key is put for certain.

use smallvec::SmallVec;

use super::search::{Newcomer, weighs};
use super::{Place, ShardTable, load_max};
use crate::Moment;
use crate::algorithm::{Algorithm, Owner};

/// What makes room for a new key.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Room {
    /// The key that has to go; none if there is room, or the table can grow.
    pub(super) victim: Option<u128>,
    /// The owner of the new key holds more than its share, and no key near could be forgotten for free.
    pub(super) is_share_full: bool,
}

impl<A: Algorithm> ShardTable<A> {
    /// What makes room for a new key near its home, where others of its transaction have spoken for
    /// `rooms`. Changes nothing. Where memory is full and no key may be forgotten, tells when the first
    /// of those it looked at will be idle: until then, if nothing else changes, the same call fails.
    pub(in crate::store) fn find_room(
        &self,
        book: &A::Book,
        newcomer: Newcomer,
        rooms: &[Room],
        now: Moment,
    ) -> Result<Room, Moment> {
        let free = rooms.iter().filter(|room| room.victim.is_none()).count();
        if self.len + free < load_max(self.capacity) || self.capacity < self.capacity_max {
            return Ok(Room::default());
        }
        let spoken_for: SmallVec<[u128; 4]> = rooms.iter().filter_map(|room| room.victim).collect();
        self.search(book, newcomer, &spoken_for, now)
    }

    /// Makes the room that was found for a new key of `owner`.
    pub(in crate::store) fn make_room(
        &mut self,
        book: &A::Book,
        owner: Owner,
        room: Room,
        now: Moment,
    ) {
        if room.is_share_full {
            self.shares.count_share_full(owner);
        }
        match room.victim.map(|key| self.find(key)) {
            Some(Place::At(slot)) => self.forget(book, slot, now),
            // It has gone already, which made the room as well.
            Some(Place::Absent) => {}
            None if self.len < load_max(self.capacity) => {}
            None => self.grow(book, now),
        }
    }

    /// Puts a key back that [`Self::find`] did not find. Where memory is full, one of the keys that
    /// [`Self::find_room`] would choose from is forgotten, or this one, if less is given away by that.
    pub(in crate::store) fn put_back(
        &mut self,
        book: &A::Book,
        key: u128,
        cell: A::Cell,
        now: Moment,
    ) {
        let owner = A::owner(book, &cell);
        let newcomer = Newcomer { owner, key, on_full: A::share(book, owner).on_full() };
        let room = self.find_room(book, newcomer, &[], now);
        match room.ok().filter(|room| !self.is_least(book, owner, &cell, *room, now)) {
            Some(room) => {
                self.make_room(book, owner, room, now);
                self.insert(book, key, cell, now);
            }
            None => self.count_forgotten(book, &cell, now),
        }
    }

    /// Whether forgetting `cell`, of an owner beyond its share, gives away less than making `room` for it.
    fn is_least(
        &self,
        book: &A::Book,
        owner: Owner,
        cell: &A::Cell,
        room: Room,
        now: Moment,
    ) -> bool {
        let Some(Place::At(slot)) = room.victim.map(|key| self.find(key)) else { return false };
        let [own, victim] = [cell, &self.cell(slot)].map(|cell| A::eviction_rank(book, cell, now));
        self.shares.is_full(owner, A::share(book, owner))
            && victim.is_some_and(|victim| own.is_none_or(|own| weighs(&own) <= weighs(&victim)))
    }
}
