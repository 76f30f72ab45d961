//! The room for buckets and routes, which all origins share.
//!
//! Each account has a room: so many buckets and so many routes it may keep. All rooms together are
//! [`BUCKETS_MAX`]. An account that has nearly filled its room gets more: first of what is free, then
//! of what others do not fill, then of what others may forget.

use std::cmp::Reverse;

use ratekeeper_time::{Moment, Nanos};

use super::origins::OWN;
use super::{Account, BUCKETS_MAX, Lead, ORIGINS_MAX, ROUTES_MAX, Tracker};
use crate::arena::Slot;

/// What no other origin takes from one; half of the room, if there are as many origins as may be.
const ROOM_MIN: usize = BUCKETS_MAX / 2 / ORIGINS_MAX;
/// What no other origin takes from the profile's own hosts: the other half.
const ROOM_OWN_MIN: usize = BUCKETS_MAX / 2;
/// An account gets at least so much more at a time.
const STEP_MIN: usize = ROOM_MIN;
/// With less than this left an account asks for more.
const SPARE: usize = 8;
/// From an origin that was not used for so long, also those take room that have more.
const QUIET: Nanos = Nanos::from_secs(60);

const _: () = assert!(ROUTES_MAX == BUCKETS_MAX, "a room is for as many of both");

impl Account {
    /// Where this account is, if its room is nearly full.
    #[inline]
    pub(super) fn lacks_room(&self) -> Option<Slot> {
        self.is_cramped.then_some(self.me)
    }

    /// To be called before something is kept.
    pub(super) fn count_room(&mut self) {
        self.is_cramped |= self.kept() + SPARE >= self.room();
    }

    fn kept(&self) -> usize {
        self.buckets.len().max(self.routes.len())
    }

    fn room(&self) -> usize {
        self.buckets.max()
    }

    /// Forgets what is beyond the room, but nothing that lets anybody send too early; if that is more,
    /// the room is larger.
    fn set_room(&mut self, room: usize, now: Moment) {
        self.buckets.set_max(room, |bucket| bucket.is_idle(now));
        let buckets = &self.buckets;
        let is_idle = |lead: &Lead| buckets.at(lead.bucket).is_none_or(|it| it.is_idle(now));
        self.routes.set_max(room, is_idle);
        let room = room.max(self.kept());
        self.buckets.set_max(room, |_| false);
        self.routes.set_max(room, |_| false);
    }

    /// Keeps an equal part of the room.
    pub(super) fn share_room(&mut self, origins: usize, now: Moment) {
        self.set_room(BUCKETS_MAX / origins, now);
    }

    /// Frees room that it does not fill.
    fn trim_room(&mut self, now: Moment) {
        self.set_room(self.room().min(self.kept() + SPARE), now);
    }
}

impl Tracker {
    /// Makes room for an account that has just begun.
    pub(super) fn begin_room(&mut self, slot: Slot, now: Moment) {
        if let Some(account) = self.accounts.at_mut(slot) {
            account.set_room(0, now);
        }
        self.make_room(slot, now);
    }

    /// Gives an account more room, if there is some.
    #[cold]
    pub(super) fn make_room(&mut self, slot: Slot, now: Moment) {
        let Some(account) = self.accounts.at_mut(slot) else { return };
        account.is_cramped = false;
        let room = account.room();
        let wanted = STEP_MIN.max(room / 4);
        if self.free_room() < wanted {
            let others = self.accounts.iter_mut().filter(|other| other.me != slot);
            others.for_each(|other| other.trim_room(now));
        }
        let free = self.free_room();
        if free < wanted {
            self.take_room(slot, wanted - free, now);
        }
        let more = wanted.min(self.free_room());
        if let Some(account) = self.accounts.at_mut(slot) {
            account.set_room(room + more, now);
        }
    }

    fn free_room(&self) -> usize {
        let taken = self.accounts.iter().map(Account::room).sum();
        BUCKETS_MAX.saturating_sub(taken)
    }

    /// Takes room from origins that are not used, or have more than the one that needs it: from the
    /// largest first.
    fn take_room(&mut self, slot: Slot, mut wanted: usize, now: Moment) {
        let own = self.accounts.find(OWN);
        let least = |slot| if Some(slot) == own { ROOM_OWN_MIN } else { ROOM_MIN };
        let kept = self.accounts.at(slot).map_or(0, Account::kept);
        let is_quiet = |other: &Account| now.since(other.now) >= QUIET;
        let may_give = |other: &&Account| {
            other.me != slot
                && other.kept() > least(other.me)
                && (other.kept() > kept + wanted || is_quiet(other))
        };
        let mut others: Vec<_> = self.accounts.iter().filter(may_give).collect();
        others.sort_unstable_by_key(|other| (!is_quiet(other), Reverse(other.kept())));
        let others: Vec<_> = others.into_iter().map(|other| other.me).collect();
        for other in others {
            let Some(account) = self.accounts.at_mut(other) else { continue };
            let before = account.room();
            account.set_room(before.saturating_sub(wanted).max(least(other)), now);
            wanted = wanted.saturating_sub(before.saturating_sub(account.room()));
            if wanted == 0 {
                break;
            }
        }
    }
}
