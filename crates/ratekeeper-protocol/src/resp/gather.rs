//! From requests to what is asked of the limiter in one go.

use ratekeeper::Request;
use ratekeeper::algorithm::book::Action;
use ratekeeper::limiter::{Asking, TRANSACTION_ASKS_MAX};
use ratekeeper::limits::IdBuffer;
use smallvec::SmallVec;

use super::carried::{Asked, Desk, KnownRule};
use super::codec::integer;
use super::connection::NO_INTEGER;
use super::reply;
use crate::scan;

/// How many asks are decided at once.
pub(super) const BATCH_ASKS: usize = 64;
/// The same where buckets are elsewhere: whatever one read brings goes there in one trip.
pub(super) const TRIP_ASKS: usize = 1 << 9;
/// How much is said between asks before they are decided.
pub(super) const SAID_BYTES: usize = 16 << 10;

/// The asks of a transaction.
pub(super) type Joined<'a> = SmallVec<[Request<'a>; TRANSACTION_ASKS_MAX / 8]>;

const NO_TEXT: &[u8] = b"ERR names and ids are UTF-8, and this is not";
const NEGATIVE: &[u8] = b"ERR the cost in a transaction must not be negative";
const TRIPLES: &[u8] = b"ERR a transaction has a limit, an id and a cost for each of its asks";

/// Asks that are decided together, and what is said in between.
#[derive(Default)]
pub(super) struct Gathered<'a> {
    pub(super) asks: SmallVec<[Request<'a>; BATCH_ASKS]>,
    /// What is wanted of each ask, up to the last that does not just spend.
    actions: SmallVec<[Action; BATCH_ASKS]>,
    /// Where the replies come from, in order.
    pub(super) steps: SmallVec<[Step; BATCH_ASKS]>,
    /// How many they are.
    replies: usize,
    pub(super) said: Vec<u8>,
}

/// Where replies come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was said already, in so many bytes.
    Said(usize),
    /// So many from the next answers.
    Spend { burst: u64, times: usize },
    /// From the next answer.
    Refund { burst: u64 },
    /// From the next two: what was there, and that it is there no longer.
    Reset,
}

impl<'a> Gathered<'a> {
    pub(super) fn clear(&mut self) {
        self.asks.clear();
        self.actions.clear();
        self.steps.clear();
        self.replies = 0;
        self.said.clear();
    }

    /// Whether it is time to decide.
    #[inline]
    pub(super) fn is_full(&self, asks_max: usize) -> bool {
        self.replies >= asks_max || self.said.len() >= SAID_BYTES
    }

    /// How many more replies there is room for.
    #[inline]
    pub(super) fn room(&self, asks_max: usize) -> usize {
        asks_max.saturating_sub(self.replies)
    }

    /// What is wanted of an ask, by its place.
    #[inline]
    pub(super) fn action(&self, place: usize) -> Action {
        self.actions.get(place).copied().unwrap_or(Action::CheckAndSpend)
    }

    /// Says something at once, in its turn.
    pub(super) fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.said.len();
        write(&mut self.said);
        self.step(Step::Said(self.said.len().saturating_sub(before)), 1);
    }

    pub(super) fn refuse(&mut self, why: &[u8]) {
        self.say(|out| reply::error(&[why], out));
    }

    /// `THROTTLE limit id [cost]`; a negative cost gives back. The words may be parts of `text`.
    #[inline]
    pub(super) fn throttle(
        &mut self,
        terms: &mut Terms<'a, '_>,
        words: &[&'a [u8]],
        text: &'a str,
    ) {
        let (limit, id, cost) = match words {
            [limit, id] => (limit, id, Some(1)),
            [limit, id, cost] => (limit, id, integer(cost)),
            _ => return self.refuse(b"ERR wrong number of arguments for 'throttle' command"),
        };
        let Some(cost) = cost else { return self.refuse(NO_INTEGER) };
        let (Some(limit), Some(id)) = (scan::text_in(text, limit), scan::text_in(text, id)) else {
            return self.refuse(NO_TEXT);
        };
        let (limit, burst) = terms.find(limit, id);
        self.spend(|cost| Request::new(limit, id, cost), burst, cost);
    }

    /// `CL.THROTTLE key max_burst count period [quantity]`
    #[inline]
    pub(super) fn cl_throttle(
        &mut self,
        key: &'a str,
        words: &[&[u8]],
        last: &mut Option<KnownRule>,
        desk: Desk<'_>,
    ) {
        if words.len() > 4 {
            return self.refuse(b"ERR wrong number of arguments for 'cl.throttle' command");
        }
        match Asked::read(words, last, desk) {
            Ok(Asked { rule: KnownRule { burst, carried, .. }, quantity }) => {
                self.spend(|cost| Request::carried(carried, key, cost), burst, quantity);
            }
            Err(refusal) => self.say(|out| refusal.write(out)),
        }
    }

    /// `CL.RESET key`
    pub(super) fn cl_reset(&mut self, key: &'a str, desk: Desk<'_>) {
        match desk.any_rule() {
            Ok(carried) => self.reset(Request::carried(carried, key, 0)),
            Err(refusal) => self.say(|out| refusal.write(out)),
        }
    }

    /// Asks for `cost` tokens, of which the bucket holds up to `burst`, or gives them back.
    #[inline]
    pub(super) fn spend(&mut self, ask: impl FnOnce(u64) -> Request<'a>, burst: u64, cost: i64) {
        let tokens = cost.unsigned_abs();
        if cost < 0 {
            // More than it holds is never missing.
            self.push(ask(tokens.min(burst)), Action::Refund);
            self.step(Step::Refund { burst }, 1);
        } else {
            self.asks.push(ask(tokens));
            self.step(Step::Spend { burst, times: 1 }, 1);
        }
    }

    /// What the last ask spends, and how much its bucket holds, if that is what was asked last.
    pub(super) fn last_spend(&self) -> Option<(u64, u64)> {
        match (self.asks.last(), self.steps.last()) {
            (Some(ask), Some(Step::Spend { burst, .. })) => Some((ask.cost, *burst)),
            _ => None,
        }
    }

    /// `THROTTLE.RESET limit id`
    pub(super) fn throttle_reset(&mut self, words: &[&'a [u8]]) {
        let [limit, id] = words else { return };
        match (str::from_utf8(limit), str::from_utf8(id)) {
            (Ok(limit), Ok(id)) => self.reset(Request::new(limit, id, 0)),
            _ => self.refuse(NO_TEXT),
        }
    }

    /// Asks what is missing of a bucket, and fills it.
    pub(super) fn reset(&mut self, ask: Request<'a>) {
        self.push(ask, Action::CheckOnly);
        self.push(ask, Action::Reset);
        self.step(Step::Reset, 1);
    }

    fn push(&mut self, ask: Request<'a>, action: Action) {
        self.actions.resize(self.asks.len(), Action::CheckAndSpend);
        self.asks.push(ask);
        self.actions.push(action);
    }

    /// Adds where the next replies come from, which are so many.
    #[inline]
    pub(super) fn step(&mut self, step: Step, replies: usize) {
        self.steps.push(step);
        self.replies = self.replies.wrapping_add(replies);
    }
}

/// The asks of `THROTTLE.TRANSACTION limit id cost [limit id cost ..]`, or why they are none.
pub(super) fn joined<'a>(words: &[&'a [u8]]) -> Result<Joined<'a>, &'static [u8]> {
    let (triples, []) = words.as_chunks() else { return Err(TRIPLES) };
    let ask = |[limit, id, cost]: &[&'a [u8]; 3]| {
        let cost = integer(cost).ok_or(NO_INTEGER)?;
        let cost = u64::try_from(cost).map_err(|_| NEGATIVE)?;
        match (str::from_utf8(limit), str::from_utf8(id)) {
            (Ok(limit), Ok(id)) => Ok(Request::new(limit, id, cost)),
            _ => Err(NO_TEXT),
        }
    };
    triples.iter().map(ask).collect()
}

/// Finds out how much buckets hold. Asks in a row are often for one limit, and most limits hold
/// the same for everybody.
pub(super) struct Terms<'a, 'l> {
    pub(super) asking: Asking<'l>,
    pub(super) desk: Desk<'l>,
    limit: &'a str,
    /// If it is the same for every id.
    burst: Option<u64>,
}

impl<'a, 'l> Terms<'a, 'l> {
    pub(super) fn new(desk: Desk<'l>) -> Self {
        // The limiter says that there is no limit without a name.
        Self { asking: desk.limiter.asking(), desk, limit: "", burst: Some(0) }
    }

    /// The name of the limit, and how much a bucket of it holds. Names that are the same are then
    /// the same text in memory, which is faster for the limiter.
    #[inline]
    pub(super) fn find(&mut self, limit: &'a str, id: &str) -> (&'a str, u64) {
        let for_all = self.for_all(limit);
        for_all.unwrap_or_else(|| (self.limit, self.burst_of(id)))
    }

    /// The same, if it holds the same for every id.
    #[inline]
    pub(super) fn for_all(&mut self, limit: &'a str) -> Option<(&'a str, u64)> {
        if self.limit != limit {
            self.look_up(limit);
        }
        self.burst.map(|burst| (self.limit, burst))
    }

    /// Whether a bucket of the last limit holds the same for every id.
    pub(super) fn are_for_all(&self) -> bool {
        self.burst.is_some()
    }

    fn look_up(&mut self, limit: &'a str) {
        self.limit = limit;
        self.burst = match self.asking.named(limit) {
            Some(it) if !it.overrides().is_empty() => None,
            Some(it) => it.default().map(|default| default.limit.burst()),
            // The limiter says that there is none.
            None => Some(0),
        };
    }

    fn burst_of(&self, id: &str) -> u64 {
        let mut buffer = IdBuffer::new();
        self.asking.entitled(self.limit, id, &mut buffer).map_or(0, |it| it.terms.burst())
    }
}
