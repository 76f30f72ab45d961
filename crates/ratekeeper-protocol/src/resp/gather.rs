//! From requests to what is asked in one go: of the limiter by name, and of the buckets of
//! `CL.THROTTLE` by the rule that comes with the ask.

use std::cell::Cell;

use ratekeeper::algorithm::gcra::Outcome;
use ratekeeper::algorithm::inline_rule::{self as inline, InlineGcra, InlineRule};
use ratekeeper::algorithm::tokens::Action;
use ratekeeper::limiter::{Asking, TRANSACTION_ASKS_MAX};
use ratekeeper::limits::IdBuffer;
use ratekeeper::store::Question;
use ratekeeper::store::shared::{BucketNames, Sharing};
use ratekeeper::{Keyed, Limiter, Request};
use smallvec::SmallVec;

use super::codec::integer;
use super::connection::NO_INTEGER;
use super::inline_rule::{BUCKET_PREFIX, InlineAsk, Refusal, WrittenRule, any_rule, check_key};
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
pub(super) struct Gathered<'a, 'd> {
    /// Asks of named limits.
    pub(super) asks: SmallVec<[Request<'a>; BATCH_ASKS]>,
    /// What is wanted of each of those, up to the last that does not just spend.
    pub(super) actions: SmallVec<[Action; BATCH_ASKS]>,
    pub(super) inline: InlineAsks<'a, 'd>,
    /// Where the replies come from, in order.
    pub(super) steps: SmallVec<[Step; BATCH_ASKS]>,
    /// How many they are.
    replies: usize,
    pub(super) said: Vec<u8>,
}

/// What is wanted of an ask, by its place.
#[inline]
pub(super) fn action_at(actions: &[Action], place: usize) -> Action {
    actions.get(place).copied().unwrap_or(Action::CheckAndSpend)
}

/// Asks that bring their rule along.
pub(super) struct InlineAsks<'a, 'd> {
    pub(super) buckets: &'d Keyed<InlineGcra>,
    pub(super) keys: SmallVec<[&'a [u8]; BATCH_ASKS]>,
    pub(super) room: InlineRoom,
}

/// Room for asks that are decided together, to be used again and again.
#[derive(Default)]
pub(super) struct InlineRoom {
    pub(super) questions: Vec<Question<InlineGcra>>,
    /// What the buckets are called, where others need to know.
    pub(super) names: BucketNames,
    pub(super) outcomes: Vec<Outcome>,
}

thread_local! {
    /// One for each thread rather than each connection, of which there are many more.
    static ROOM: Cell<InlineRoom> = Cell::default();
}

/// Whose rule an ask is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// That of a named limit.
    Limit,
    /// That which came with it.
    InlineRule,
}

/// Where replies come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was said already, in so many bytes.
    Said(usize),
    /// So many from the next answers.
    Spend { by: By, burst: u64, times: usize },
    /// From the next answer.
    Refund { by: By, burst: u64 },
    /// From the next two: what was there, and that it is there no longer.
    Reset { by: By },
}

/// The bucket of an ask.
#[derive(Clone, Copy)]
enum Bucket<'a> {
    OfLimit { limit: &'a str, id: &'a str },
    OfKey { key: &'a [u8], rule: InlineRule },
}

impl Bucket<'_> {
    fn by(&self) -> By {
        match self {
            Self::OfLimit { .. } => By::Limit,
            Self::OfKey { .. } => By::InlineRule,
        }
    }
}

impl<'a, 'd> Gathered<'a, 'd> {
    pub(super) fn new(buckets: &'d Keyed<InlineGcra>) -> Self {
        // Taken, not borrowed: while this connection waits for its answers, others come.
        let room = ROOM.take();
        let mut inline = InlineAsks { buckets, keys: SmallVec::new(), room };
        inline.clear();
        Self {
            asks: SmallVec::new(),
            actions: SmallVec::new(),
            inline,
            steps: SmallVec::new(),
            replies: 0,
            said: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.asks.clear();
        self.actions.clear();
        self.inline.clear();
        self.steps.clear();
        self.replies = 0;
        self.said.clear();
    }

    /// Whether nothing is asked.
    pub(super) fn asks_nothing(&self) -> bool {
        self.asks.is_empty() && self.inline.keys.is_empty()
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

    /// What is wanted of an ask of a named limit, by its place.
    #[inline]
    pub(super) fn action(&self, place: usize) -> Action {
        action_at(&self.actions, place)
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
        self.spend(Bucket::OfLimit { limit, id }, burst, cost);
    }

    /// `CL.THROTTLE key max_burst count period [quantity]`
    #[inline]
    pub(super) fn cl_throttle(
        &mut self,
        key: &'a [u8],
        words: &[&[u8]],
        last: &mut Option<WrittenRule>,
    ) {
        if words.len() > 4 {
            return self.refuse(b"ERR wrong number of arguments for 'cl.throttle' command");
        }
        match (InlineAsk::read(words, last), check_key(key)) {
            (Ok(InlineAsk { rule, quantity }), Ok(())) => {
                self.spend(Bucket::OfKey { key, rule }, rule.burst(), quantity);
            }
            (Err(refusal), _) => self.refuse_rule(&refusal),
            (_, Err(mistake)) => self.say(|out| reply::mistake(&mistake, out)),
        }
    }

    /// `CL.RESET key`
    pub(super) fn cl_reset(&mut self, key: &'a [u8]) {
        match (any_rule(), check_key(key)) {
            (Ok(rule), Ok(())) => self.reset(Bucket::OfKey { key, rule }),
            (Err(refusal), _) => self.refuse_rule(&refusal),
            (_, Err(mistake)) => self.say(|out| reply::mistake(&mistake, out)),
        }
    }

    fn refuse_rule(&mut self, refusal: &Refusal) {
        self.say(|out| refusal.write(out));
    }

    /// Asks for `cost` tokens, of which the bucket holds up to `burst`, or gives them back.
    #[inline]
    fn spend(&mut self, bucket: Bucket<'a>, burst: u64, cost: i64) {
        let (tokens, by) = (cost.unsigned_abs(), bucket.by());
        if cost < 0 {
            // More than it holds is never missing.
            self.push(bucket, tokens.min(burst), Action::Refund);
            self.step(Step::Refund { by, burst }, 1);
        } else {
            self.push(bucket, tokens, Action::CheckAndSpend);
            self.step(Step::Spend { by, burst, times: 1 }, 1);
        }
    }

    /// What the last ask costs, if it spends.
    pub(super) fn last_cost(&self) -> Option<u64> {
        let Some(Step::Spend { by, .. }) = self.steps.last() else { return None };
        match by {
            By::Limit => self.asks.last().map(|ask| ask.cost),
            By::InlineRule => self.inline.room.questions.last().map(|question| question.ask.cost),
        }
    }

    /// `THROTTLE.RESET limit id`
    pub(super) fn throttle_reset(&mut self, words: &[&'a [u8]]) {
        let [limit, id] = words else { return };
        match (str::from_utf8(limit), str::from_utf8(id)) {
            (Ok(limit), Ok(id)) => self.reset(Bucket::OfLimit { limit, id }),
            _ => self.refuse(NO_TEXT),
        }
    }

    /// Asks what is missing of a bucket, and fills it.
    fn reset(&mut self, bucket: Bucket<'a>) {
        self.push(bucket, 0, Action::CheckOnly);
        self.push(bucket, 0, Action::Reset);
        self.step(Step::Reset { by: bucket.by() }, 1);
    }

    #[inline]
    fn push(&mut self, bucket: Bucket<'a>, cost: u64, action: Action) {
        match bucket {
            Bucket::OfLimit { limit, id } => {
                if action != Action::CheckAndSpend {
                    self.actions.resize(self.asks.len(), Action::CheckAndSpend);
                    self.actions.push(action);
                }
                self.asks.push(Request::new(limit, id, cost));
            }
            Bucket::OfKey { key, rule } => {
                self.inline.push(key, inline::Ask { rule, action, cost });
            }
        }
    }

    /// Adds where the next replies come from, which are so many.
    #[inline]
    pub(super) fn step(&mut self, step: Step, replies: usize) {
        self.steps.push(step);
        self.replies = self.replies.wrapping_add(replies);
    }
}

impl<'a> InlineAsks<'a, '_> {
    #[inline]
    pub(super) fn push(&mut self, key: &'a [u8], ask: inline::Ask) {
        self.room.questions.push(self.buckets.question(&[key], ask));
        self.keys.push(key);
        if self.buckets.waits() {
            self.room.names.push_with(|to| {
                to.extend_from_slice(BUCKET_PREFIX);
                to.extend_from_slice(key);
                Sharing::default()
            });
        }
    }

    /// Makes room for the outcomes.
    #[inline]
    pub(super) fn expect_outcomes(&mut self) {
        let InlineRoom { questions, outcomes, .. } = &mut self.room;
        outcomes.clear();
        outcomes.resize(questions.len(), Outcome::default());
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.room.questions.clear();
        self.room.names.clear();
    }
}

impl Drop for InlineAsks<'_, '_> {
    fn drop(&mut self) {
        // A thread that is ending keeps nothing.
        let _is_kept = ROOM.try_with(|room| room.set(std::mem::take(&mut self.room)));
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
    limit: &'a str,
    /// If it is the same for every id.
    burst: Option<u64>,
}

impl<'a, 'l> Terms<'a, 'l> {
    pub(super) fn new(limiter: &'l Limiter) -> Self {
        // The limiter says that there is no limit without a name.
        Self { asking: limiter.asking(), limit: "", burst: Some(0) }
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
