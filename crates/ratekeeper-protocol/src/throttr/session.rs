//! A connection: requests in, one answer for each.

use std::cell::Cell;
use std::sync::Arc;

use futures_util::future::join;
use ratekeeper::algorithm::quota::{Ask, Outcome, Quota};
use ratekeeper::limiter::Asking;
use ratekeeper::store::Question;
use ratekeeper::store::shared::BucketNames;
use ratekeeper::{Keyed, Limiter, Moment};

use super::codec::{self, FRAME_BYTES_MAX, Request, STATE_BYTES};
use super::named::NamedAsks;
use crate::foreign::Opening;
use crate::{Counts, Flow, StreamDoor};

/// How many requests are decided at once.
const BATCH_REQUESTS: usize = 64;
/// The same where quotas and buckets are elsewhere: whatever one read brings goes there in one trip.
const TRIP_REQUESTS: usize = 1 << 14;

/// The answer to what begins like no request.
const NO: u8 = 0;

/// What a door does beyond the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Closes the connection at the first byte that begins no request, and answers nothing to it.
    pub strict: bool,
    /// Lets the limiter answer requests whose resource is the name of a limit.
    pub named_limits: bool,
}

/// Answers requests for quotas.
#[derive(Clone)]
pub struct Door {
    quotas: Arc<Keyed<Quota>>,
    limiter: Arc<Limiter>,
    options: Options,
}

/// What is remembered of a connection: the request that is not complete yet.
#[derive(Clone, Debug, Default)]
pub struct Session {
    partial: Vec<u8>,
    /// How far the reads before, which were discarded, look like those of a browser.
    opening: Opening,
}

impl Session {
    /// How many bytes it remembers; fewer than the longest request has.
    pub fn held_bytes(&self) -> usize {
        self.partial.len()
    }
}

impl Door {
    /// A door to `quotas`, and with [`Options::named_limits`] to `limiter`.
    pub fn new(quotas: Arc<Keyed<Quota>>, limiter: Arc<Limiter>, options: Options) -> Self {
        Self { quotas, limiter, options }
    }
}

impl StreamDoor for Door {
    type Session = Session;

    /// The last byte of a request can be all that a read brings.
    const REPLY_BYTES_PER_BYTE: usize = STATE_BYTES;

    fn waits(&self) -> bool {
        self.quotas.waits() || self.limiter.wherever().waits()
    }

    async fn receive_wherever(
        &self,
        session: &mut Session,
        bytes: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> Flow {
        let mut replies = Replies { now, out, counts };
        let opening = std::mem::take(&mut session.opening);
        // First, because the second byte of TLS is an opcode here.
        if opening != Opening::None && opening.after(bytes) == Opening::Foreign {
            return replies.hang_up();
        }
        let partial = &mut session.partial;
        let before = partial.len();
        let (mut first, mut rest) = (None, bytes);
        if before > 0 {
            // A request that has begun is complete within so many bytes.
            let missing = FRAME_BYTES_MAX.saturating_sub(before);
            partial.extend_from_slice(bytes.get(..missing).unwrap_or(bytes));
            let Some((request, behind)) = codec::parse(partial) else { return Flow::Open };
            let used = partial.len().saturating_sub(behind.len()).saturating_sub(before);
            (first, rest) = (Some(request), bytes.get(used..).unwrap_or_default());
        }
        let mut requests = Requests { first, rest };
        self.answer(&mut requests, &mut replies).await;
        // What is left of it, without what else `requests` borrows.
        let used = rest.len().saturating_sub(requests.rest.len());
        let rest = rest.get(used..).unwrap_or_default();
        partial.clear();
        match rest {
            [] => {}
            [opcode, ..] if codec::is_opcode(*opcode) => partial.extend_from_slice(rest),
            // Clients send it behind a request when an id is longer than its length can say.
            // They wait for one answer then, so that a second would be taken for the next one.
            garbage if garbage.len() < bytes.len() => return self.discard(&mut replies),
            // A browser can be made by any page to send requests: the connection ends with its first read.
            read => match opening.after(read) {
                Opening::Foreign => return replies.hang_up(),
                opening => {
                    session.opening = opening;
                    return self.discard_read(&mut replies);
                }
            },
        }
        Flow::Open
    }

    /// Half a request is not answered.
    async fn finish_wherever(
        &self,
        session: &mut Session,
        _: Moment,
        _: &mut Vec<u8>,
        counts: &mut Counts,
    ) {
        let partial = std::mem::take(&mut session.partial);
        counts.malformed = counts.malformed.saturating_add(u64::from(!partial.is_empty()));
    }
}

struct Replies<'a> {
    now: Moment,
    out: &'a mut Vec<u8>,
    counts: &'a mut Counts,
}

thread_local! {
    /// One for each thread rather than each connection, of which there are many more. Boxed, because
    /// it is moved in and out all the time.
    static ROOM: Cell<Option<Box<Room>>> = const { Cell::new(None) };
}

/// Room for requests that are decided at once, to be used again and again.
#[derive(Default)]
struct Room {
    questions: Vec<Question<Quota>>,
    /// What their quotas are called, where others need to know.
    names: BucketNames,
    outcomes: Vec<Outcome>,
}

/// Why no more requests are gathered before these are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// There are enough.
    Full,
    /// No other is complete.
    Dry,
}

/// The requests of one read, of which the first may have begun before it.
struct Requests<'a> {
    first: Option<Request<'a>>,
    rest: &'a [u8],
}

impl<'a> Requests<'a> {
    #[inline]
    fn next(&mut self) -> Option<Request<'a>> {
        self.first.take().or_else(|| {
            let (request, rest) = codec::parse(self.rest)?;
            self.rest = rest;
            Some(request)
        })
    }
}

impl Door {
    async fn answer(&self, requests: &mut Requests<'_>, replies: &mut Replies<'_>) {
        let waits = self.waits();
        loop {
            // Taken, not borrowed: while this one waits for its answers, others come.
            let mut room = ROOM.take().unwrap_or_default();
            let mut named = None;
            let stop = self.gather(requests, &mut room, &mut named);
            let Room { questions, names, outcomes } = &mut *room;
            outcomes.resize(questions.len(), Outcome::default());
            match named {
                None if waits => {
                    self.quotas.decide_wherever(questions, names, outcomes, replies.now).await;
                    replies.add_all(questions, outcomes);
                }
                None => {
                    self.quotas.decide(questions, outcomes, replies.now);
                    replies.add_all(questions, outcomes);
                }
                // Quotas and named limits have nothing in common, so both are asked at once.
                Some(mut named) => {
                    let quotas =
                        self.quotas.decide_wherever(questions, names, outcomes, replies.now);
                    join(quotas, named.settle(self.limiter.wherever(), replies.now)).await;
                    replies.add_mixed(questions, outcomes, &named);
                }
            }
            ROOM.set(Some(room));
            if stop == Stop::Dry {
                return;
            }
        }
    }

    /// Reads up to a batch of requests.
    fn gather<'a>(
        &self,
        requests: &mut Requests<'a>,
        room: &mut Room,
        named: &mut Option<NamedAsks<'a>>,
    ) -> Stop {
        let waits = self.waits();
        let most = if waits { TRIP_REQUESTS } else { BATCH_REQUESTS };
        let limits = self.options.named_limits.then(|| self.limiter.asking());
        let Room { questions, names, .. } = room;
        questions.clear();
        names.clear();
        for _ in 0..most {
            let Some(request) = requests.next() else { return Stop::Dry };
            if let Some((consumer, limit)) = named_limit(limits.as_ref(), &request) {
                let named = named.get_or_insert_default();
                named.push(limit, consumer, request.ask, questions.len());
                continue;
            }
            questions.push(self.quotas.question(&[request.key], request.ask));
            if waits {
                names.push_parts(&request.ids());
            }
        }
        if requests.rest.is_empty() { Stop::Dry } else { Stop::Full }
    }

    /// Discards what stands behind a request, or closes.
    fn discard(&self, replies: &mut Replies<'_>) -> Flow {
        let flow = replies.hang_up();
        if self.options.strict { flow } else { Flow::Open }
    }

    /// The same with a whole read, which has an answer.
    fn discard_read(&self, replies: &mut Replies<'_>) -> Flow {
        let flow = self.discard(replies);
        if flow == Flow::Open {
            replies.out.push(NO);
        }
        flow
    }
}

/// The consumer and the limit, if the resource is the name of one.
fn named_limit<'a>(
    limits: Option<&Asking<'_>>,
    request: &Request<'a>,
) -> Option<(&'a [u8], &'a str)> {
    let limits = limits?;
    let [consumer, resource] = request.ids();
    let limit = str::from_utf8(resource).ok().filter(|name| limits.contains(name))?;
    Some((consumer, limit))
}

impl Replies<'_> {
    /// Counts what was not understood, and ends the connection without an answer.
    fn hang_up(&mut self) -> Flow {
        self.counts.malformed = self.counts.malformed.saturating_add(1);
        Flow::Close
    }

    #[inline]
    fn add_all(&mut self, questions: &[Question<Quota>], outcomes: &[Outcome]) {
        for (question, outcome) in questions.iter().zip(outcomes) {
            self.add(&question.ask, outcome);
        }
    }

    /// The answers of both kinds, in the order of the requests.
    fn add_mixed(
        &mut self,
        questions: &[Question<Quota>],
        outcomes: &[Outcome],
        named: &NamedAsks<'_>,
    ) {
        let mut quotas = questions.iter().zip(outcomes);
        let mut told = 0_usize;
        for (behind, ask, outcome) in named.answers() {
            for (question, outcome) in quotas.by_ref().take(behind.saturating_sub(told)) {
                self.add(&question.ask, outcome);
            }
            told = behind;
            self.add(ask, outcome);
        }
        for (question, outcome) in quotas {
            self.add(&question.ask, outcome);
        }
    }

    #[inline]
    fn add(&mut self, ask: &Ask, outcome: &Outcome) {
        codec::write(ask, outcome, self.out);
        let counts = &mut *self.counts;
        counts.requests = counts.requests.saturating_add(1);
        if let Ask::Insert { .. } = ask {
            let counter = if outcome.can { &mut counts.allowed } else { &mut counts.denied };
            *counter = counter.saturating_add(1);
        }
    }
}
