//! Room for buckets that are not there yet, and who holds how much of it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::shares::Holding;
use super::super::sync::Guard;
use super::super::table::{Newcomer, Place, Room};
use super::super::{Fingerprint, Question};
use super::{Inside, MemoryStore};
use crate::Moment;
use crate::algorithm::{Algorithm, Change, OnFull, Owner};

impl<A: Algorithm> MemoryStore<A> {
    /// What each owner of keys holds now, and what became of its keys for want of memory.
    pub fn holdings(&self) -> Vec<Holding> {
        let book = self.book();
        self.shares.held(|owner| A::share(&book, owner))
    }

    /// The numbers of these owners are about to be others'. They hold nothing any more.
    pub(crate) fn close_accounts(&self, owners: &[Owner]) {
        for owner in owners {
            self.shares.close(*owner);
        }
    }

    pub(super) fn book(&self) -> Arc<A::Book> {
        Arc::clone(&self.shards[0].0.lock().book)
    }

    /// Works out anew what each owner may hold, if much has changed. No shard may be locked.
    pub(super) fn keep_shares(&self) {
        if self.shares.is_old() {
            self.shares.survey(|| {
                let book = self.book();
                move |owner| A::share(&book, owner)
            });
        }
    }

    /// Has a bucket be what somebody else says that it is; none is as good as a full one. Where
    /// there is no room for it, it stays unknown. Tells whether it is known now.
    pub fn learn(&self, bucket: Fingerprint, cell: Option<A::Cell>, now: Moment) -> bool {
        self.learn_if(bucket, cell, now, |book, owner| A::share(book, owner).on_full())
    }

    /// Does what [`learn`](Self::learn) does, for a store in which the newest are worth most: another
    /// bucket of the same owner is forgotten for it, whatever the owner wants otherwise.
    pub fn learn_newest(&self, bucket: Fingerprint, cell: A::Cell, now: Moment) -> bool {
        self.learn_if(bucket, Some(cell), now, |_, _| OnFull::Forget)
    }

    fn learn_if(
        &self,
        bucket: Fingerprint,
        cell: Option<A::Cell>,
        now: Moment,
        on_full: impl FnOnce(&A::Book, Owner) -> OnFull,
    ) -> bool {
        let key = bucket.get();
        let mut inside = self.shard_of(bucket).0.lock();
        let place = inside.table.find(key);
        let Some(cell) = cell else {
            inside.apply(key, place, Change::Remove, now);
            return true;
        };
        if place == Place::Absent {
            let Inside { table, book, .. } = &mut *inside;
            let owner = A::owner(book, &cell);
            let newcomer = Newcomer { owner, key, on_full: on_full(book, owner) };
            let Ok(room) = table.find_room(book, newcomer, &[], now) else { return false };
            table.make_room(book, owner, room, now);
            self.hints.tell(self.shard(bucket.upper()), table);
        }
        inside.apply(key, place, Change::Put(cell), now);
        drop(inside);
        self.keep_shares();
        true
    }
}

/// Makes room for the buckets of a transaction that are not there yet, unless one of its asks is denied;
/// tells whether one is. `position` tells in which of the locked shards the bucket of a question is.
///
/// Room is found for all buckets before any is made. So a denied ask is told the longest wait, and no key is
/// forgotten for a transaction that is denied.
pub(super) fn make_room_for_all<'q, A: Algorithm>(
    asked: impl Iterator<Item = ((&'q Question<A>, &'q mut A::Outcome), &'q mut Change<A::Cell>)>,
    locked: &mut [Guard<'_, Inside<A>>],
    position: impl Fn(&Question<A>) -> usize,
    is_denied_anyway: bool,
    now: Moment,
) -> bool {
    let mut is_denied = is_denied_anyway;
    let mut rooms: SmallVec<[(usize, Owner, Room); 4]> = SmallVec::new();
    for ((question, outcome), change) in asked {
        let at = position(question);
        let here = || rooms.iter().filter(|(other, ..)| *other == at).map(|(.., room)| *room);
        match locked[at].room_for(question, outcome, change, here, now) {
            Some(Ok(room)) if matches!(change, Change::Put(_)) => {
                rooms.push((at, A::asker(&locked[at].book, &question.ask), room));
            }
            Some(Err(away)) => {
                if !is_denied_anyway {
                    locked[at].count_turned_away(question, change);
                }
                (*outcome, *change) = (away, Change::Keep);
                is_denied |= A::vetoes(&question.ask, outcome);
            }
            Some(Ok(_)) | None => {}
        }
    }
    for (at, owner, room) in rooms.into_iter().filter(|_| !is_denied) {
        let Inside { table, book, .. } = &mut *locked[at];
        table.make_room(book, owner, room, now);
    }
    is_denied
}

impl<A: Algorithm> Inside<A> {
    /// The room for the bucket of a question that is not there, or what to answer instead; none if no room
    /// is needed, because the bucket is there or is not to be kept. Others of the same transaction have
    /// spoken for the rooms that `others` tells. Changes nothing.
    ///
    /// What only asks whether it would pass needs room as well: without it, a spend would be denied.
    pub(super) fn room_for<R: Iterator<Item = Room>>(
        &self,
        question: &Question<A>,
        outcome: &A::Outcome,
        change: &Change<A::Cell>,
        others: impl FnOnce() -> R,
        now: Moment,
    ) -> Option<Result<Room, A::Outcome>> {
        let Self { book, table, .. } = self;
        let is_kept = matches!(change, Change::Put(_)) || A::is_dry_run(&question.ask, outcome);
        let key = question.bucket.get();
        if !is_kept || table.find(key) != Place::Absent {
            return None;
        }
        let owner = A::asker(book, &question.ask);
        let newcomer = Newcomer { owner, key, on_full: A::share(book, owner).on_full() };
        let rooms: SmallVec<[Room; 4]> = others().collect();
        let room = table.find_room(book, newcomer, &rooms, now);
        Some(room.map_err(|room_at| A::turn_away(book, &question.ask, room_at.since(now))))
    }

    /// Counts an ask that was denied because there is no room; one that would only have been is not.
    pub(super) fn count_turned_away(&mut self, question: &Question<A>, change: &Change<A::Cell>) {
        if matches!(change, Change::Put(_)) {
            self.table.count_turned_away(A::asker(&self.book, &question.ask));
        }
    }

    /// Puts a bucket that is not there where room was found for it, unless nothing is to be put.
    pub(super) fn put_new(
        &mut self,
        question: &Question<A>,
        change: Change<A::Cell>,
        room: Room,
        now: Moment,
    ) {
        if let Change::Put(cell) = change {
            let owner = A::asker(&self.book, &question.ask);
            self.table.make_room(&self.book, owner, room, now);
            self.table.insert(&self.book, question.bucket.get(), cell, now);
        }
    }
}
