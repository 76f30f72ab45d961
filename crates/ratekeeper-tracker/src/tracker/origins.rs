//! The tracker: an account for each origin.
//!
//! Origins share nothing: what one refuses, how long its answers take and who waits for it says
//! nothing of another. A profile may name hosts that are one API; those share an account.

use std::sync::Arc;

use ratekeeper_time::Moment;

use super::queue::{ANYBODY, QUEUE_DEFAULT, WAITERS_MAX};
use super::{Account, Snapshot};
use crate::arena::Slot;
use crate::headers::Said;
use crate::origin::Origin;
use crate::profile::{Paces, Profile};
use crate::recent::Recent;
use crate::request::{Request, Response};
use crate::verdict::{Limited, Reservation, Verdict, WaiterId};

/// How many origins are kept; beyond it, those not used for long are forgotten.
pub const ORIGINS_MAX: usize = 100;
/// The key of the account of the profile's own hosts, and of requests without an origin.
pub(super) const OWN: u64 = 0;
/// An origin that is written longer is looked up every time.
const WRITTEN_BYTES_MAX: usize = 256;

/// Keeps account of what an API allows.
///
/// It has no clock, no lock and no task: each call says what time it is, and the same calls at the
/// same times get the same answers.
///
/// ```
/// use ratekeeper_time::Moment;
/// use ratekeeper_tracker::{Profile, Request, Response, Tracker, Verdict};
///
/// let mut tracker = Tracker::new(Profile::discord());
/// let request = Request::new("POST", "/channels/123/messages");
/// let now = Moment::from_nanos(0);
/// let Verdict::Clear(reservation) = tracker.reserve(&request, now) else { panic!("nothing is known") };
///
/// // Send it; some time later there is an answer.
/// let now = Moment::from_nanos(80_000_000);
/// let fields: [(&str, &[u8]); 4] = [
///     ("x-ratelimit-limit", b"5"),
///     ("x-ratelimit-remaining", b"0"),
///     ("x-ratelimit-reset-after", b"1.250"),
///     ("x-ratelimit-bucket", b"80c17d2f203122d936070c88c8d10f33"),
/// ];
/// tracker.track(reservation, Response { status: 200, fields, body: None }, now);
///
/// let Verdict::Limited(limited) = tracker.reserve(&request, now) else { panic!("it is spent") };
/// // A millisecond is for the rounding.
/// assert_eq!(limited.retry_in.to_string(), "1s251ms");
/// assert!(matches!(tracker.reserve(&request, limited.retry_at), Verdict::Clear(_)));
/// ```
#[derive(Clone, Debug)]
pub struct Tracker {
    pub(super) profile: Profile,
    /// The paces of the profile's own hosts: without the one that processes share.
    own_paces: Paces,
    pub(super) accounts: Recent<Account>,
    latest: Latest,
    next_number: u64,
    /// How many may wait for each bucket.
    pub(super) queue_max: usize,
}

/// The account of the latest request: mostly the next one goes to the same origin.
#[derive(Clone, Debug)]
struct Latest {
    scheme: String,
    authority: String,
    account: Option<Slot>,
}

impl Latest {
    fn remember(&mut self, origin: &Origin<'_>, account: Slot) {
        let (scheme, authority) = origin.written();
        self.account = None;
        if scheme.len() + authority.len() <= WRITTEN_BYTES_MAX {
            self.scheme.clear();
            self.scheme.push_str(scheme);
            self.authority.clear();
            self.authority.push_str(authority);
            self.account = Some(account);
        }
    }
}

impl Tracker {
    /// A tracker that knows no more than the profile.
    pub fn new(profile: Profile) -> Self {
        let mut accounts = Recent::new(ORIGINS_MAX);
        let new = |me| Account::new(profile, me, name(&profile, OWN, &Origin::default()));
        let account = accounts.insert_with(OWN, new, |_| true);
        let latest = Latest { scheme: String::new(), authority: String::new(), account };
        let own_paces = profile.paces;
        Self { profile, own_paces, accounts, latest, next_number: 0, queue_max: QUEUE_DEFAULT }
    }

    /// Lets at most `max` wait for each bucket.
    #[must_use]
    pub fn with_queue(mut self, max: usize) -> Self {
        self.set_queue(max);
        self
    }

    /// Lets at most `max` wait for each bucket from now on. Who waits already may stay.
    pub fn set_queue(&mut self, max: usize) {
        let max = max.min(WAITERS_MAX);
        if max != self.queue_max {
            self.queue_max = max;
            self.accounts.iter_mut().for_each(|account| account.set_queue(max));
        }
    }

    /// Whether a request may be sent now.
    ///
    /// Whoever waits in a queue goes first. A reservation must be settled, or what it reserves stays
    /// reserved.
    #[inline]
    pub fn reserve(&mut self, request: &Request<'_>, now: Moment) -> Verdict {
        let Some(account) = self.account(&request.origin, now) else {
            return Verdict::Limited(self.full(now));
        };
        let verdict = account.reserve(request, now);
        if let Some(cramped) = account.lacks_room() {
            self.make_room(cramped, now);
        }
        verdict
    }

    /// A reservation for a request that is sent whatever the limits are. What it costs is counted, so
    /// that others wait for it. With `now` in the past it also serves for a response to a request
    /// that somebody else sent then.
    ///
    /// There is none when [`IN_FLIGHT_MAX`](crate::IN_FLIGHT_MAX) requests are in flight.
    pub fn send_anyway(&mut self, request: &Request<'_>, now: Moment) -> Option<Reservation> {
        let account = self.account(&request.origin, now)?;
        let reservation = account.send_anyway(request, now);
        if let Some(cramped) = account.lacks_room() {
            self.make_room(cramped, now);
        }
        reservation
    }

    /// Waits in line until [`release`](Self::release) says it is this waiter's turn, which may be
    /// at once. Refused if too many wait already, or if it would be later than `deadline`; then it
    /// says when it would be.
    pub fn join(
        &mut self,
        request: &Request<'_>,
        deadline: Moment,
        now: Moment,
    ) -> Result<WaiterId, Limited> {
        let number = self.next_number;
        let Some(account) = self.account(&request.origin, now) else { return Err(self.full(now)) };
        let joined = account.join(request, number, deadline, now);
        if let Some(cramped) = account.lacks_room() {
            self.make_room(cramped, now);
        }
        self.next_number += u64::from(joined.is_ok());
        joined
    }

    /// Whose turn it is now, if anybody's. Call it until it says nobody; it hands out one reservation
    /// at a time.
    pub fn release(&mut self, now: Moment) -> Option<(WaiterId, Reservation)> {
        self.release_of(ANYBODY, now)
    }

    /// Releases the one who has waited longest of all that are ready, whatever their origin: a limit
    /// that processes share is one for all origins.
    pub(crate) fn release_of(
        &mut self,
        whom: &[bool],
        now: Moment,
    ) -> Option<(WaiterId, Reservation)> {
        let of_own = self.of_own();
        let ready = |account: &mut Account| {
            let whom = if of_own(account.me) { whom } else { ANYBODY };
            Some((account.ready(whom, now)?, account.me))
        };
        let ready = self.accounts.iter_mut().filter_map(ready);
        let (first, account) = ready.min_by_key(|(ready, _)| ready.number)?;
        self.accounts.at_mut(account)?.release(&first)
    }

    /// When [`release`](Self::release) may find somebody, if nothing else happens before. In the
    /// past or now if it would find somebody already; nothing if nobody waits, or only an answer
    /// can let anybody go.
    pub fn next_wake(&mut self) -> Option<Moment> {
        self.next_wake_of(ANYBODY)
    }

    /// When that may find somebody.
    pub(crate) fn next_wake_of(&mut self, whom: &[bool]) -> Option<Moment> {
        let of_own = self.of_own();
        let wake = |account: &mut Account| {
            account.next_wake_of(if of_own(account.me) { whom } else { ANYBODY })
        };
        self.accounts.iter_mut().filter_map(wake).min()
    }

    /// Leaves the line. False if the waiter's turn had come already, or it had left before.
    pub fn leave(&mut self, waiter_id: WaiterId) -> bool {
        self.accounts.at_mut(waiter_id.account).is_some_and(|account| account.leave(waiter_id))
    }

    /// Leaves the line because it took too long, and says when it would be the turn of one who
    /// joined now. Nothing if the waiter's turn had come already.
    pub fn expire(&mut self, waiter_id: WaiterId, now: Moment) -> Option<Limited> {
        self.accounts.at_mut(waiter_id.account)?.expire(waiter_id, now)
    }

    /// Says that the request of a reservation is sent only now, and not when it was allowed. Without
    /// it a wait in between is taken for a part of the round trip, and round trips that seem long
    /// let others go too early.
    pub fn sent(&mut self, reservation: &Reservation, now: Moment) {
        if let Some(account) = self.accounts.at_mut(reservation.account()) {
            account.sent(reservation, now);
        }
    }

    /// Settles a reservation with the response to its request, and learns what that says. Whether
    /// the API refused the request because of a limit.
    pub fn track<'h, H>(
        &mut self,
        reservation: Reservation,
        response: Response<'_, H>,
        now: Moment,
    ) -> bool
    where
        H: IntoIterator<Item = (&'h str, &'h [u8])>,
    {
        let Some(account) = self.accounts.at_mut(reservation.account()) else { return false };
        let is_refused = account.track(reservation, response, now);
        if let Some(cramped) = account.lacks_room() {
            self.make_room(cramped, now);
        }
        is_refused
    }

    /// Settles a reservation with what its response says, where that was read already. Whether the
    /// API refused the request because of a limit.
    pub fn learn(
        &mut self,
        reservation: Reservation,
        status: u16,
        said: &Said<'_>,
        body: Option<&[u8]>,
        now: Moment,
    ) -> bool {
        let Some(account) = self.accounts.at_mut(reservation.account()) else { return false };
        let is_refused = account.learn(reservation, status, said, body, now);
        if let Some(cramped) = account.lacks_room() {
            self.make_room(cramped, now);
        }
        is_refused
    }

    /// Settles a reservation whose request was never sent: what it reserved may be reserved again.
    pub fn give_back(&mut self, reservation: Reservation, now: Moment) {
        if let Some(account) = self.accounts.at_mut(reservation.account()) {
            account.give_back(reservation, now);
        }
    }

    /// Settles a reservation whose request may have been sent, and whose answer will not come: it
    /// counts as spent.
    pub fn lost(&mut self, reservation: Reservation, now: Moment) {
        if let Some(account) = self.accounts.at_mut(reservation.account()) {
            account.lost(reservation, now);
        }
    }

    /// Forgets all that was heard of the limits of a request's bucket, and its refusals: one request
    /// finds out anew. For what a server said that was wrong.
    ///
    /// A refusal of everything stays: for that there is [`forget_all`](Self::forget_all).
    pub fn forget(&mut self, request: &Request<'_>, now: Moment) {
        if let Some(account) = self.account(&request.origin, now) {
            account.forget(request, now);
        }
    }

    /// Forgets all that was heard of all limits, and all refusals. What was sent still counts
    /// against the limits of the profile.
    pub fn forget_all(&mut self, now: Moment) {
        self.accounts.iter_mut().for_each(|account| account.forget_all(now));
    }

    /// The bucket that a reservation belongs to, as people know it.
    pub fn bucket(&self, reservation: &Reservation) -> Option<&Arc<str>> {
        self.accounts.at(reservation.account())?.bucket(reservation)
    }

    /// Whether the limit on all requests counts the request of a reservation.
    pub fn is_counted(&self, reservation: &Reservation) -> bool {
        let account = self.accounts.at(reservation.account());
        account.is_none_or(|account| account.is_counted(reservation))
    }

    /// Whether the request of a reservation, which was not sent yet, may still be: what was heard since
    /// it was allowed may have shut its bucket, or left less in it than is held.
    pub fn may_go(&mut self, reservation: &Reservation, now: Moment) -> bool {
        let account = self.accounts.at_mut(reservation.account());
        account.is_some_and(|account| account.may_go(reservation, now))
    }

    /// How all budgets stand at `now`.
    pub fn snapshot(&self, now: Moment) -> Snapshot {
        let mut all = Snapshot::default();
        for account in self.accounts.iter() {
            let snapshot = account.snapshot(now);
            all.states.extend(snapshot.states);
            all.in_flight += snapshot.in_flight;
            all.waiting += snapshot.waiting;
        }
        all
    }

    /// Where each origin is has changed.
    pub(super) fn forget_latest(&mut self) {
        self.latest.account = None;
    }

    /// The account of an origin, made if need be. There is none if there is no room.
    #[inline]
    fn account(&mut self, origin: &Origin<'_>, now: Moment) -> Option<&mut Account> {
        let Latest { scheme, authority, account } = &self.latest;
        let slot = match account {
            Some(slot) if origin.is_written(scheme, authority) => *slot,
            _ => self.find(origin, now)?,
        };
        self.accounts.touch(slot)
    }

    fn find(&mut self, origin: &Origin<'_>, now: Moment) -> Option<Slot> {
        let key = self.key(origin);
        let found = self.accounts.find(key).or_else(|| self.begin(key, origin));
        let slot = match found {
            Some(slot) => slot,
            None => self.add(key, origin, now)?,
        };
        self.latest.remember(origin, slot);
        Some(slot)
    }

    /// Whether an account is that of the profile's own hosts. All are where it names none.
    fn of_own(&self) -> impl Fn(Slot) -> bool + use<> {
        let (own, names_none) = (self.accounts.find(OWN), self.profile.hosts.is_empty());
        move |account| names_none || own == Some(account)
    }

    /// What the account of a key is to keep.
    pub(super) fn profile_of(&self, key: u64) -> Profile {
        let is_own = key == OWN || self.profile.hosts.is_empty();
        let paces = if is_own { self.own_paces } else { self.profile.paces };
        Profile { paces, ..self.profile }
    }

    fn key(&self, origin: &Origin<'_>) -> u64 {
        let host = origin.host();
        let is_own = self.profile.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        if is_own || origin.is_empty() { OWN } else { origin.key() }
    }

    /// The account that was there from the beginning becomes that of the first origin of all.
    fn begin(&mut self, key: u64, origin: &Origin<'_>) -> Option<Slot> {
        let slot = self.accounts.find(OWN)?;
        let profile = self.profile_of(key);
        let account = self.accounts.at_mut(slot).filter(|account| account.is_new())?;
        *account = Account::new(profile, slot, name(&profile, key, origin));
        account.set_queue(self.queue_max);
        self.accounts.rename(slot, key);
        Some(slot)
    }

    /// One more account.
    fn add(&mut self, key: u64, origin: &Origin<'_>, now: Moment) -> Option<Slot> {
        let (profile, queue_max) = (self.profile_of(key), self.queue_max);
        let new = |me| Account::new(profile, me, name(&profile, key, origin));
        let slot = self.accounts.insert_with(key, new, |account| account.is_idle(now))?;
        if let Some(account) = self.accounts.at_mut(slot) {
            account.set_queue(queue_max);
        }
        self.begin_room(slot, now);
        Some(slot)
    }

    #[cold]
    fn full(&mut self, now: Moment) -> Limited {
        let mut nobodys = Account::new(self.profile, Slot::FIRST, Arc::from(""));
        let now = nobodys.at(now);
        nobodys.full(now)
    }
}

/// What people call an account's origin.
fn name(profile: &Profile, key: u64, origin: &Origin<'_>) -> Arc<str> {
    match profile.hosts.first() {
        Some(host) if key == OWN => Arc::from(*host),
        _ => Arc::from(origin.to_string()),
    }
}

#[cfg(feature = "sharing")]
impl Tracker {
    /// A tracker that leaves the pace of the profile's own hosts to a server.
    pub(crate) fn sharing(profile: Profile) -> Self {
        let own_paces = profile.paces.without_shared();
        let own = Self::new(Profile { paces: own_paces, ..profile });
        Self { profile, own_paces, ..own }
    }

    /// Whether the limit that processes share counts the request of a reservation.
    pub(crate) fn is_shared(&self, reservation: &Reservation) -> bool {
        self.is_counted(reservation) && self.of_own()(reservation.account())
    }

    /// The same of a request.
    pub(crate) fn shares(&self, request: &Request<'_>, now: Moment) -> bool {
        let is_own = self.profile.hosts.is_empty() || self.key(&request.origin) == OWN;
        is_own && !self.profile.route(request, now).exempt
    }

    /// A number for who was allowed at once, as waiters have one.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Puts a request that was allowed and not sent back into the line of its bucket, to where it
    /// stood by its number. Nothing if there is no such line; then it is given back.
    pub(crate) fn stand_back(
        &mut self,
        reservation: Reservation,
        number: u64,
        now: Moment,
    ) -> Option<WaiterId> {
        self.accounts.at_mut(reservation.account())?.stand_back(reservation, number, now)
    }

    /// How much sooner something may be sent than the clock says, because it has a way to go,
    /// wherever it goes.
    pub(crate) fn head_start(&self) -> ratekeeper_time::Nanos {
        self.accounts.iter().map(Account::head_start).min().unwrap_or_default()
    }
}
