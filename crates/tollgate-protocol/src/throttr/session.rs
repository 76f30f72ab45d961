//! A connection: requests in, one answer for each.

use std::sync::Arc;

use futures_util::future::join;
use smallvec::SmallVec;
use tollgate::algorithm::quota::{Ask, Outcome, Quota};
use tollgate::limiter::Names;
use tollgate::store::Question;
use tollgate::store::shared::BucketNames;
use tollgate::{Keyed, Limiter, Moment};

use super::codec::{self, FRAME_BYTES_MAX, Request, STATE_BYTES};
use super::named::NamedAsks;
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
        let mut head = std::mem::take(&mut session.partial);
        let before = head.len();
        if before > 0 {
            // A request that has begun is complete within so many bytes.
            let missing = FRAME_BYTES_MAX.saturating_sub(before);
            head.extend_from_slice(bytes.get(..missing).unwrap_or(bytes));
        }
        let (first, mut rest) = match codec::parse(&head) {
            Some((request, behind)) => {
                let used = head.len().saturating_sub(behind.len()).saturating_sub(before);
                (Some(request), bytes.get(used..).unwrap_or_default())
            }
            None if before > 0 => {
                session.partial = head;
                return Flow::Open;
            }
            None => (None, bytes),
        };
        let complete = std::iter::from_fn(|| {
            let request;
            (request, rest) = codec::parse(rest)?;
            Some(request)
        });
        self.answer(first.into_iter().chain(complete), &mut replies).await;
        head.clear();
        session.partial = head;
        match rest {
            [] => {}
            [opcode, ..] if codec::is_opcode(*opcode) => {
                session.partial.extend_from_slice(rest);
            }
            // Clients send it behind a request when an id is longer than its length can say.
            // They wait for one answer then, so that a second would be taken for the next one.
            garbage => return self.discard(garbage.len() == bytes.len(), &mut replies),
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

/// Requests that are decided at once.
#[derive(Default)]
struct Asked<'a> {
    /// Who answers each, in order.
    order: SmallVec<[By; BATCH_REQUESTS]>,
    questions: SmallVec<[Question<Quota>; BATCH_REQUESTS]>,
    /// What their quotas are called, where others need to know.
    names: BucketNames,
    named: NamedAsks<'a>,
}

/// Who answers a request.
#[derive(Clone, Copy)]
enum By {
    Quota,
    /// The limiter.
    Named,
}

impl Door {
    async fn answer<'a>(
        &self,
        requests: impl Iterator<Item = Request<'a>>,
        replies: &mut Replies<'_>,
    ) {
        let mut requests = requests;
        let mut asked = Asked::default();
        loop {
            self.gather(&mut requests, &mut asked);
            if asked.order.is_empty() {
                return;
            }
            self.decide(&mut asked, replies).await;
        }
    }

    /// Reads up to a batch of requests.
    fn gather<'a>(&self, requests: &mut impl Iterator<Item = Request<'a>>, asked: &mut Asked<'a>) {
        let waits = self.waits();
        let most = if waits { TRIP_REQUESTS } else { BATCH_REQUESTS };
        let names = self.options.named_limits.then(|| self.limiter.names());
        for Request { ask, consumer, resource } in requests.take(most) {
            if let Some(limit) = limit_of(names.as_ref(), resource) {
                asked.order.push(By::Named);
                asked.named.push(limit, consumer, ask);
                continue;
            }
            let key = [consumer, resource];
            asked.order.push(By::Quota);
            asked.questions.push(self.quotas.question(&key, ask));
            if waits {
                asked.names.push_parts(&key);
            }
        }
    }

    /// Answers the requests, and forgets them. Quotas and named limits have nothing in common, so
    /// both are asked at once.
    async fn decide(&self, asked: &mut Asked<'_>, replies: &mut Replies<'_>) {
        let Asked { order, questions, names, named } = asked;
        let mut outcomes: SmallVec<[Outcome; BATCH_REQUESTS]> = SmallVec::new();
        outcomes.resize(questions.len(), Outcome::default());
        let quotas = self.quotas.decide_wherever(questions, names, &mut outcomes, replies.now);
        if named.is_empty() {
            quotas.await;
        } else {
            join(quotas, named.settle(self.limiter.wherever(), replies.now)).await;
        }
        let mut quotas = questions.iter().zip(&outcomes).map(|(it, outcome)| (&it.ask, outcome));
        let mut named_answers = named.answers();
        for by in order.drain(..) {
            let answer = match by {
                By::Quota => quotas.next(),
                By::Named => named_answers.next(),
            };
            if let Some((ask, outcome)) = answer {
                replies.add(ask, outcome);
            }
        }
        drop(named_answers);
        questions.clear();
        names.clear();
        named.clear();
    }

    fn discard(&self, is_whole_read: bool, replies: &mut Replies<'_>) -> Flow {
        replies.counts.malformed = replies.counts.malformed.saturating_add(1);
        if self.options.strict {
            return Flow::Close;
        }
        if is_whole_read {
            replies.out.push(NO);
        }
        Flow::Open
    }
}

/// The limit that a resource is the name of.
fn limit_of<'a>(names: Option<&Names<'_>>, resource: &'a [u8]) -> Option<&'a str> {
    let names = names?;
    str::from_utf8(resource).ok().filter(|name| names.contains(name))
}

impl Replies<'_> {
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
