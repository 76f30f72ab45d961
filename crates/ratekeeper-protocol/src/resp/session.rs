//! A connection: requests in, one reply for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join;
use ratekeeper::algorithm::inline_rule::InlineGcra;
use ratekeeper::limiter::Witness;
use ratekeeper::{Keyed, Limiter, Moment};

use super::access::Gatekeeper;
use super::codec::{Fault, REQUEST_BYTES_MAX, Scan, Words};
use super::command::Verb;
use super::connection::{Client, Talk};
use super::gather::{
    BATCH_ASKS, Gathered, InlineAsks, InlineRoom, SAID_BYTES, TRIP_ASKS, Terms, action_at, joined,
};
use super::inline_rule::WrittenRule;
use super::replies::Replies;
use super::reply::{self, ERROR_BYTES_MAX};
use super::requests::Requests;
use super::shape::Asked;
use super::transaction::Turn;
use super::understood::{Misunderstood, understood};
use crate::{Counts, Flow, StreamDoor, scan, spare};

/// How many bytes a door replies before it wants them written, unless it is told otherwise.
const REPLY_BYTES: usize = 64 << 10;
/// How much room is kept for the next request that comes in pieces.
const PARTIAL_BYTES_KEPT: usize = 4 << 10;

/// Answers the commands of Redis clients: from the limits of a limiter, and by rules that come with asks.
pub struct Door {
    limiter: Arc<Limiter>,
    inline: Arc<Keyed<InlineGcra>>,
    /// Told of what is decided by rules that come with asks.
    witness: Option<Arc<dyn Witness>>,
    keeper: Option<Arc<dyn Gatekeeper>>,
    reply_bytes: usize,
    /// How many connections there were.
    connections: AtomicU64,
}

/// What is remembered of a connection.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The request that is not complete yet, and how far it was looked at.
    partial: Vec<u8>,
    scan: Scan,
    /// What is to be answered once the replies before it have been written.
    backlog: Vec<u8>,
    client: Client,
}

impl Session {
    /// How many bytes of requests it remembers: of one that is not complete, of a read that is not
    /// answered yet, or of those behind `MULTI`.
    pub fn held_bytes(&self) -> usize {
        let queued = self.client.queue.as_ref().map_or(0, |queue| queue.held_bytes());
        self.unread_bytes().saturating_add(queued)
    }

    fn unread_bytes(&self) -> usize {
        self.partial.len().saturating_add(self.backlog.len())
    }
}

impl Door {
    /// A door to `limiter`, and to the buckets of asks that bring their rule along.
    pub fn new(limiter: Arc<Limiter>, inline: Arc<Keyed<InlineGcra>>) -> Self {
        let (keeper, witness, connections) = (None, None, AtomicU64::new(0));
        Self { limiter, inline, witness, keeper, reply_bytes: REPLY_BYTES, connections }
    }

    /// The same door, which tells `witness` of what is decided by rules that come with asks. Of named
    /// limits its limiter tells.
    #[must_use]
    pub fn with_witness(self, witness: Arc<dyn Witness>) -> Self {
        Self { witness: Some(witness), ..self }
    }

    /// The same door, where clients have to show a token that `keeper` knows.
    #[must_use]
    pub fn with_keeper(self, keeper: Arc<dyn Gatekeeper>) -> Self {
        Self { keeper: Some(keeper), ..self }
    }

    /// The same door, which wants its replies written when there are so many bytes of them.
    #[must_use]
    pub fn with_reply_bytes(self, reply_bytes: usize) -> Self {
        Self { reply_bytes: reply_bytes.min(REPLY_BYTES), ..self }
    }
}

impl StreamDoor for Door {
    type Session = Session;

    /// More than most requests cause. For the others there is [`Flow::Again`].
    const REPLY_BYTES_PER_BYTE: usize = 16;

    /// What is there when it is noticed to be enough: one more batch, and one more request, whose
    /// words may be its reply.
    const REPLY_BYTES_MORE: usize =
        REPLY_BYTES + TRIP_ASKS * (ERROR_BYTES_MAX + 3) + SAID_BYTES + REQUEST_BYTES_MAX;

    fn waits(&self) -> bool {
        self.inline.waits() || self.limiter.wherever().waits()
    }

    async fn receive_wherever(
        &self,
        session: &mut Session,
        bytes: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> Flow {
        let Session { partial, scan, backlog, client } = session;
        self.greet(client);
        let mut replies = Replies { now, out, counts };
        let mut before;
        let mut rest = bytes;
        if !backlog.is_empty() {
            before = std::mem::take(backlog);
            before.extend_from_slice(bytes);
            rest = &before;
        }
        if !partial.is_empty() {
            match scan.fill(partial, &mut rest, client.bounds(self.keeper())) {
                Ok(true) => {}
                Ok(false) => return Flow::Open,
                Err(fault) => return replies.break_off(fault),
            }
        }
        let mut requests = Requests { head: partial, rest, text: scan::text(rest) };
        let flow = self.answer_all(&mut requests, client, &mut replies).await;
        // What is left of it, without what else `requests` borrows.
        let used = rest.len().saturating_sub(requests.rest.len());
        let rest = rest.get(used..).unwrap_or_default();
        if !partial.is_empty() {
            partial.clear();
            partial.shrink_to(PARTIAL_BYTES_KEPT);
            *scan = Scan::default();
        }
        match flow {
            Flow::Open => partial.extend_from_slice(rest),
            Flow::Again => {
                *backlog = std::mem::take(&mut client.due);
                backlog.extend_from_slice(rest);
            }
            Flow::Close => {}
        }
        flow
    }

    /// Half a request is not answered.
    async fn finish_wherever(
        &self,
        session: &mut Session,
        _: Moment,
        _: &mut Vec<u8>,
        counts: &mut Counts,
    ) {
        let is_partial = session.unread_bytes() > 0;
        *session = Session::default();
        counts.malformed = counts.malformed.saturating_add(u64::from(is_partial));
    }
}

/// Why no more is gathered before what is there has been decided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// There is enough.
    Full,
    /// There is no complete request.
    Dry,
    /// The last request is a transaction.
    Transaction,
    /// The last request was `EXEC`: what it does is to be read before what follows it.
    Exec,
    /// The last request closes the connection.
    Close,
    Fault(Fault),
}

/// Why requests are not answered any further.
enum Paused {
    Ended(Flow),
    /// The last request was `EXEC`.
    Exec,
}

impl Door {
    fn keeper(&self) -> Option<&dyn Gatekeeper> {
        self.keeper.as_deref()
    }

    /// Numbers who is new, and looks whether who has shown a token still has a good one.
    #[inline]
    fn greet(&self, client: &mut Client) {
        if client.number == 0 {
            client.number = self.connections.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        }
        if let (Some(keeper), Some(pass)) = (&self.keeper, client.pass) {
            client.pass = keeper.renew(pass);
        }
    }

    /// Answers requests, and where `EXEC` is among them also those that are due with it, before what follows
    /// it. What is due and not yet answered is left in [`Client::due`].
    async fn answer_all(
        &self,
        requests: &mut Requests<'_>,
        client: &mut Client,
        replies: &mut Replies<'_>,
    ) -> Flow {
        let start = replies.out.len();
        loop {
            match self.answer(requests, client, replies, start).await {
                Paused::Ended(flow) => return flow,
                Paused::Exec => {}
            }
            let due = std::mem::take(&mut client.due);
            let mut queued = Requests { head: &[], rest: &due, text: scan::text(&due) };
            // Boxed, like all that is seldom. None of what is due is another `EXEC`.
            match Box::pin(self.answer(&mut queued, client, replies, start)).await {
                Paused::Ended(Flow::Close) => return Flow::Close,
                Paused::Ended(Flow::Open | Flow::Again) | Paused::Exec => {}
            }
            let is_enough = replies.out.len().saturating_sub(start) >= self.reply_bytes;
            if is_enough && !(queued.rest.is_empty() && requests.is_empty()) {
                client.due.extend_from_slice(queued.rest);
                return Flow::Again;
            }
        }
    }

    /// Answers requests until there is something else. `start` is how much was replied before.
    async fn answer(
        &self,
        requests: &mut Requests<'_>,
        client: &mut Client,
        replies: &mut Replies<'_>,
        start: usize,
    ) -> Paused {
        let mut words = Words::new();
        let mut gathered = Gathered::new(&self.inline);
        loop {
            let mut terms = Terms::new(&self.limiter);
            let stop = self.gather(
                requests,
                client,
                &mut terms,
                &mut words,
                &mut gathered,
                replies.counts,
            );
            let (is_said, waits) = (gathered.asks_nothing(), self.waits());
            if is_said {
                replies.out.extend_from_slice(&gathered.said);
            } else if !waits {
                replies.decide(&mut gathered, &terms.asking, self.witness.as_deref());
            }
            // A reload waits for who holds the limits, so nobody does while it waits itself.
            drop(terms);
            if waits && !is_said {
                // Boxed, like all that is seldom: others need no room for it.
                Box::pin(self.decide(&mut gathered, replies)).await;
            }
            match stop {
                Stop::Full => {}
                Stop::Dry => return Paused::Ended(Flow::Open),
                Stop::Exec => return Paused::Exec,
                Stop::Transaction => self.transact(&words, replies).await,
                Stop::Close => return Paused::Ended(Flow::Close),
                Stop::Fault(fault) => return Paused::Ended(replies.break_off(fault)),
            }
            let written = replies.out.len().saturating_sub(start);
            if written >= self.reply_bytes && !requests.rest.is_empty() {
                return Paused::Ended(Flow::Again);
            }
            gathered.clear();
        }
    }

    /// Reads requests until they have to be decided. What is no ask is answered here, in its turn.
    fn gather<'a>(
        &self,
        requests: &mut Requests<'a>,
        client: &mut Client,
        terms: &mut Terms<'a, '_>,
        words: &mut Words<'a>,
        gathered: &mut Gathered<'a, '_>,
        counts: &mut Counts,
    ) -> Stop {
        let asks_max = if self.waits() { TRIP_ASKS } else { BATCH_ASKS };
        while !gathered.is_full(asks_max) {
            if requests.is_empty() {
                return Stop::Dry;
            }
            if client.queue.is_none()
                && client.refusal(Verb::Throttle, self.keeper()).is_none()
                && let Some(times) = requests.repeat(&client.shape, terms, gathered, asks_max)
            {
                counts.requests = counts.requests.saturating_add(times as u64);
                continue;
            }
            if let Some(stop) = self.gather_one(requests, client, terms, words, gathered, counts) {
                return stop;
            }
        }
        Stop::Full
    }

    /// Reads a request word by word. Out of line, so that those that need not be take the registers.
    #[inline(never)]
    fn gather_one<'a>(
        &self,
        requests: &mut Requests<'a>,
        client: &mut Client,
        terms: &mut Terms<'a, '_>,
        words: &mut Words<'a>,
        gathered: &mut Gathered<'a, '_>,
        counts: &mut Counts,
    ) -> Option<Stop> {
        let (head, before) = (requests.head, requests.rest);
        match requests.next(client.bounds(self.keeper()), words) {
            Ok(true) => {}
            Ok(false) => return Some(Stop::Dry),
            Err(fault) => return Some(Stop::Fault(fault)),
        }
        let Some((name, arguments)) = words.split_first() else {
            counts.ignored = counts.ignored.saturating_add(1);
            return None;
        };
        let command = match understood(name, arguments, client, self.keeper(), counts) {
            Ok(command) => command,
            Err(Misunderstood::Stranger) => return Some(Stop::Close),
            Err(Misunderstood::Refused(parts)) => {
                client.spoil();
                gathered.say(|out| reply::error(&parts, out));
                return None;
            }
        };
        let request = if head.is_empty() { requests.since(before) } else { head };
        match client.turn(command.verb, request) {
            Turn::Now => {}
            turn => return wait(turn, gathered, counts),
        }
        match command.verb {
            Verb::ClThrottle | Verb::ClReset => {
                let (key, words) = arguments.split_first()?;
                if command.verb == Verb::ClReset {
                    gathered.cl_reset(key);
                } else {
                    gathered.cl_throttle(key, words, &mut client.rule);
                }
            }
            Verb::Throttle => gathered.throttle(terms, arguments, requests.text),
            Verb::ThrottleTransaction => return Some(Stop::Transaction),
            verb => {
                let flow = self.talk(verb, arguments, client, gathered);
                return (flow == Flow::Close).then_some(Stop::Close);
            }
        }
        if command.verb != Verb::Throttle || terms.are_for_all() {
            learn(command.verb, requests.since(before), words, client, gathered);
        }
        None
    }

    /// What is asked seldom, and what is no ask.
    #[inline(never)]
    fn talk<'a>(
        &self,
        verb: Verb,
        words: &[&'a [u8]],
        client: &mut Client,
        gathered: &mut Gathered<'a, '_>,
    ) -> Flow {
        let (keeper, mut flow) = (self.keeper(), Flow::Open);
        if verb == Verb::ThrottleReset {
            gathered.throttle_reset(words);
        } else {
            gathered.say(|out| flow = Talk { client, keeper, words, out }.answer(verb));
        }
        flow
    }

    /// Decides what was gathered, wherever, and replies in order.
    async fn decide(&self, gathered: &mut Gathered<'_, '_>, replies: &mut Replies<'_>) {
        let (limiter, mut batch, now) = (self.limiter.wherever(), spare::take(), replies.now);
        let inline = &mut gathered.inline;
        inline.expect_outcomes();
        let InlineAsks { buckets, room, .. } = inline;
        let InlineRoom { questions, names, outcomes } = room;
        let by_rule = buckets.decide_wherever(questions, names, outcomes, now);
        let (asks, action) = (&gathered.asks, |place| action_at(&gathered.actions, place));
        // They have no bucket in common, so both are asked at once.
        let (answers, ()) = join(limiter.batch_with(&mut batch, asks, action, now), by_rule).await;
        replies.add(gathered, answers, self.witness.as_deref());
        spare::put_back(batch);
    }

    /// `THROTTLE.TRANSACTION limit id cost [limit id cost ..]`
    async fn transact(&self, words: &[&[u8]], replies: &mut Replies<'_>) {
        if !self.waits() {
            return self.transact_at_once(words, replies);
        }
        match joined(words.get(1..).unwrap_or_default()) {
            Ok(asks) => {
                let limiter = self.limiter.wherever();
                let merged = Box::pin(limiter.transaction(&asks, replies.now)).await;
                replies.conclude(merged, &asks, &self.limiter);
            }
            Err(why) => reply::error(&[why], replies.out),
        }
    }

    /// Out of line: there is room for the largest, which others should not have to make.
    #[inline(never)]
    fn transact_at_once(&self, words: &[&[u8]], replies: &mut Replies<'_>) {
        match joined(words.get(1..).unwrap_or_default()) {
            Ok(asks) => {
                let merged = self.limiter.transaction(&asks, replies.now);
                replies.conclude(merged, &asks, &self.limiter);
            }
            Err(why) => reply::error(&[why], replies.out),
        }
    }
}

/// Replies to a request that is not done at once, or says when others are.
fn wait(turn: Turn, gathered: &mut Gathered<'_, '_>, counts: &mut Counts) -> Option<Stop> {
    match turn {
        Turn::Now => None,
        Turn::Done(text) => {
            gathered.say(|out| out.extend_from_slice(text));
            None
        }
        Turn::Later(text) => {
            // It is counted when it is done.
            counts.requests = counts.requests.saturating_sub(1);
            gathered.say(|out| out.extend_from_slice(text));
            None
        }
        Turn::Due(count) => {
            gathered.say(|out| reply::array(count, out));
            Some(Stop::Exec)
        }
    }
}

/// Remembers what a request looks like that was gathered last, if the next is likely to.
fn learn(
    verb: Verb,
    request: &[u8],
    words: &[&[u8]],
    client: &mut Client,
    gathered: &Gathered<'_, '_>,
) {
    let (Some(cost), Some(b'*')) = (gathered.last_cost(), request.first()) else {
        return;
    };
    match (verb, client.rule, words) {
        (Verb::ClThrottle, Some(WrittenRule { rule, .. }), _) => {
            client.shape.learn(request, words, 1, Asked::Inline { rule, cost });
        }
        (Verb::Throttle, _, [_, limit, ..]) => {
            let start = limit.as_ptr().addr().wrapping_sub(request.as_ptr().addr());
            let limit = start..start.wrapping_add(limit.len());
            client.shape.learn(request, words, 2, Asked::Named { limit, cost });
        }
        _ => {}
    }
}
