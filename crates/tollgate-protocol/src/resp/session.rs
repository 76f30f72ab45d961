//! A connection: requests in, one reply for each.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::algorithm::book::Action;
use tollgate::limiter::Answers;
use tollgate::{Batch, Limiter, Moment};

use super::access::Gatekeeper;
use super::carried;
use super::codec::{self, Fault, REQUEST_BYTES_MAX, Scan, Words};
use super::command::{Command, Verb};
use super::connection::{Client, Talk};
use super::gather::{Alike, BATCH_ASKS, Gathered, SAID_BYTES, Step, TRIP_ASKS, Terms, joined};
use super::reply::{self, ERROR_BYTES_MAX, Retry};
use crate::{Counts, Flow, StreamDoor, scan};

/// How many bytes a door replies before it wants them written, unless it is told otherwise.
const REPLY_BYTES: usize = 64 << 10;
/// How much room is kept for the next request that comes in pieces.
const PARTIAL_BYTES_KEPT: usize = 4 << 10;
/// How much of a word is repeated to who sent it.
const SHOWN_BYTES: usize = 128;

thread_local! {
    /// One for each thread rather than each connection, of which there are many more.
    static BATCH: RefCell<Batch> = RefCell::default();
}

/// Answers the commands of Redis clients from the limits of a limiter.
pub struct Door {
    limiter: Arc<Limiter>,
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
    /// How many bytes of requests it remembers: of one that is not complete, or of a read that is
    /// not answered yet.
    pub fn held_bytes(&self) -> usize {
        self.partial.len().saturating_add(self.backlog.len())
    }
}

impl Door {
    /// A door to `limiter`.
    pub fn new(limiter: Arc<Limiter>) -> Self {
        let connections = AtomicU64::new(0);
        Self { limiter, keeper: None, reply_bytes: REPLY_BYTES, connections }
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
        self.limiter.wherever().waits()
    }

    async fn receive_wherever(
        &self,
        session: &mut Session,
        bytes: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> Flow {
        self.greet(&mut session.client);
        let mut replies = Replies { now, out, counts };
        let mut backlog = std::mem::take(&mut session.backlog);
        let mut rest = bytes;
        if !backlog.is_empty() {
            backlog.extend_from_slice(bytes);
            rest = &backlog;
        }
        let mut head = std::mem::take(&mut session.partial);
        if !head.is_empty() {
            let bounds = session.client.bounds(self.keeper());
            match session.scan.fill(&mut head, &mut rest, bounds) {
                Ok(true) => {}
                Ok(false) => {
                    session.partial = head;
                    return Flow::Open;
                }
                Err(fault) => return replies.break_off(fault),
            }
        }
        let mut requests = Requests { head: &head, rest, text: scan::text(rest) };
        let flow = self.answer(&mut requests, &mut session.client, &mut replies).await;
        // What is left of it, without what else `requests` borrows.
        let used = rest.len().saturating_sub(requests.rest.len());
        let rest = rest.get(used..).unwrap_or_default();
        head.clear();
        head.shrink_to(PARTIAL_BYTES_KEPT);
        session.scan = Scan::default();
        match flow {
            Flow::Open => head.extend_from_slice(rest),
            Flow::Again => session.backlog = rest.to_vec(),
            Flow::Close => {}
        }
        session.partial = head;
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
        let is_partial = session.held_bytes() > 0;
        *session = Session::default();
        counts.malformed = counts.malformed.saturating_add(u64::from(is_partial));
    }
}

/// The requests of one read, of which the first may have begun before it.
struct Requests<'a> {
    /// The whole of the first; empty if it began with this read.
    head: &'a [u8],
    rest: &'a [u8],
    /// What of the rest is text, up to the first byte that is not; also of what was read since.
    text: &'a str,
}

impl<'a> Requests<'a> {
    /// Reads the words of the next request. Returns whether there is one.
    #[inline]
    fn next(&mut self, bounds: &codec::Bounds, words: &mut Words<'a>) -> Result<bool, Fault> {
        if !self.head.is_empty() {
            let head = std::mem::take(&mut self.head);
            return codec::parse(head, bounds, words).map(|used| used.is_some());
        }
        let Some(used) = codec::parse(self.rest, bounds, words)? else { return Ok(false) };
        self.rest = self.rest.get(used..).unwrap_or_default();
        Ok(true)
    }
}

impl<'a> Requests<'a> {
    /// Asks what the next request asks, if it is alike. Returns whether it is.
    #[inline]
    fn repeat(&mut self, alike: &Alike<'a>, gathered: &mut Gathered<'a>) -> bool {
        let Some((word, rest)) = alike.next(self.rest) else { return false };
        let Some(id) = carried::plain(word, self.text) else { return false };
        gathered.again(alike, id);
        self.rest = rest;
        true
    }

    /// What was read of the rest since it was `before`; nothing where nothing follows it.
    fn since(&self, before: &'a [u8]) -> &'a [u8] {
        let read = before.len().saturating_sub(self.rest.len());
        before.get(..read).filter(|_| !self.rest.is_empty()).unwrap_or_default()
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
    /// The key of the last request has to be written out first.
    Key(Verb),
    /// The last request closes the connection.
    Close,
    Fault(Fault),
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

    async fn answer(
        &self,
        requests: &mut Requests<'_>,
        client: &mut Client,
        replies: &mut Replies<'_>,
    ) -> Flow {
        let before = replies.out.len();
        let mut words = Words::new();
        let mut gathered = Gathered::default();
        loop {
            let stop = self.gather(requests, client, &mut words, &mut gathered, replies.counts);
            self.decide(&mut gathered, replies).await;
            match stop {
                Stop::Full => {}
                Stop::Dry => return Flow::Open,
                Stop::Transaction => self.transact(&words, replies).await,
                Stop::Key(verb) => self.write_out(verb, &words, client, replies).await,
                Stop::Close => return Flow::Close,
                Stop::Fault(fault) => return replies.break_off(fault),
            }
            let written = replies.out.len().saturating_sub(before);
            if written >= self.reply_bytes && !requests.rest.is_empty() {
                return Flow::Again;
            }
        }
    }

    /// Reads requests until they have to be decided. What is no ask is answered here, in its turn.
    fn gather<'a>(
        &self,
        requests: &mut Requests<'a>,
        client: &mut Client,
        words: &mut Words<'a>,
        gathered: &mut Gathered<'a>,
        counts: &mut Counts,
    ) -> Stop {
        let asks_max = if self.waits() { TRIP_ASKS } else { BATCH_ASKS };
        let mut terms = Terms::new(&self.limiter);
        let mut alike = None;
        while !gathered.is_full(asks_max) {
            if alike.as_ref().is_some_and(|alike| requests.repeat(alike, gathered)) {
                counts.requests = counts.requests.saturating_add(1);
                continue;
            }
            let before = requests.rest;
            alike = None;
            match requests.next(client.bounds(self.keeper()), words) {
                Ok(true) => {}
                Ok(false) => return Stop::Dry,
                Err(fault) => return Stop::Fault(fault),
            }
            let Some((name, arguments)) = words.split_first() else {
                counts.ignored = counts.ignored.saturating_add(1);
                continue;
            };
            let command = match understood(name, arguments, client, self.keeper(), counts) {
                Ok(command) => command,
                Err(Misunderstood::Stranger) => return Stop::Close,
                Err(Misunderstood::Refused(parts)) => {
                    gathered.say(|out| reply::error(&parts, out));
                    continue;
                }
            };
            match command.verb {
                Verb::ClThrottle | Verb::ClReset => {
                    let Some((key, terms)) = arguments.split_first() else { continue };
                    let Some(key) = carried::plain(key, requests.text) else {
                        return Stop::Key(command.verb);
                    };
                    self.gather_carried(command.verb, key, terms, client, gathered);
                    alike = Alike::to(requests.since(before), words, 1, gathered);
                }
                Verb::Throttle => {
                    gathered.throttle(&mut terms, arguments, requests.text);
                    if terms.are_for_all() {
                        alike = Alike::to(requests.since(before), words, 2, gathered);
                    }
                }
                Verb::ThrottleReset => gathered.throttle_reset(arguments),
                Verb::ThrottleTransaction => return Stop::Transaction,
                verb => {
                    let keeper = self.keeper();
                    let mut flow = Flow::Open;
                    gathered.say(|out| {
                        flow = Talk { client, keeper, words: arguments, out }.answer(verb);
                    });
                    if flow == Flow::Close {
                        return Stop::Close;
                    }
                }
            }
        }
        Stop::Full
    }

    #[inline]
    fn gather_carried<'a>(
        &self,
        verb: Verb,
        key: &'a str,
        words: &[&[u8]],
        client: &mut Client,
        gathered: &mut Gathered<'a>,
    ) {
        if verb == Verb::ClReset {
            gathered.cl_reset(key, &self.limiter);
        } else {
            gathered.cl_throttle(key, words, &mut client.rule, &self.limiter);
        }
    }

    /// Decides an ask whose key is no text, or could be taken for one that is not. It is alone: what
    /// stands for its key lives no longer than this.
    async fn write_out(
        &self,
        verb: Verb,
        words: &[&[u8]],
        client: &mut Client,
        replies: &mut Replies<'_>,
    ) {
        let [_, key, words @ ..] = words else { return };
        let key = carried::text_of(key);
        let mut gathered = Gathered::default();
        self.gather_carried(verb, &key, words, client, &mut gathered);
        self.decide(&mut gathered, replies).await;
    }

    /// Decides what was gathered, replies in order, and forgets it.
    async fn decide(&self, gathered: &mut Gathered<'_>, replies: &mut Replies<'_>) {
        if gathered.asks.is_empty() {
            replies.out.extend_from_slice(&gathered.said);
        } else {
            // Taken, not borrowed: while this one waits for its answers, others come.
            let mut batch = BATCH.take();
            let actions = &gathered.actions;
            let action = |place: usize| actions.get(place).copied().unwrap_or(Action::CheckOnly);
            let limiter = self.limiter.wherever();
            let answers = limiter.batch_with(&mut batch, &gathered.asks, action, replies.now).await;
            replies.add(gathered, answers);
            BATCH.set(batch);
        }
        gathered.clear();
    }

    /// `THROTTLE.TRANSACTION limit id cost [limit id cost ..]`
    async fn transact(&self, words: &[&[u8]], replies: &mut Replies<'_>) {
        let asks = match joined(words.get(1..).unwrap_or_default()) {
            Ok(asks) => asks,
            Err(why) => return reply::error(&[why], replies.out),
        };
        match self.limiter.wherever().transaction(&asks, replies.now).await {
            Ok(merged) => {
                let retry = replies.judge(merged.decision.allowed, false);
                let Some(ask) = asks.get(merged.decided_by) else { return };
                let burst = self.limiter.terms(ask.limit, ask.id).map_or(0, |it| it.burst());
                reply::five_and_name(&merged.decision, burst, retry, ask.limit, replies.out);
            }
            Err(mistake) => reply::mistake(&mistake, replies.out),
        }
    }
}

/// Why a request is not done.
enum Misunderstood<'w> {
    /// It is from no client of ours: a browser, which a foreign page has send requests to us, says
    /// these words first.
    Stranger,
    Refused([&'w [u8]; 3]),
}

/// The command of a request, if there is such a command and the client may use it.
#[inline]
fn understood<'w>(
    name: &'w [u8],
    arguments: &[&[u8]],
    client: &Client,
    keeper: Option<&dyn Gatekeeper>,
    counts: &mut Counts,
) -> Result<&'static Command, Misunderstood<'w>> {
    let refused = match Command::named(name) {
        Some(command) if !command.takes(arguments.len().saturating_add(1)) => {
            let name = command.name.as_bytes();
            [b"ERR wrong number of arguments for '", name, b"' command"]
        }
        Some(command) => {
            counts.requests = counts.requests.saturating_add(1);
            return match client.refusal(command.verb, keeper) {
                Some(why) => Err(Misunderstood::Refused([why, b"", b""])),
                None => Ok(command),
            };
        }
        None => [b"ERR unknown command '", name.get(..SHOWN_BYTES).unwrap_or(name), b"'"],
    };
    counts.malformed = counts.malformed.saturating_add(1);
    let is_browser = name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:");
    Err(if is_browser { Misunderstood::Stranger } else { Misunderstood::Refused(refused) })
}

struct Replies<'a> {
    now: Moment,
    out: &'a mut Vec<u8>,
    counts: &'a mut Counts,
}

impl Replies<'_> {
    fn add(&mut self, gathered: &Gathered<'_>, answers: Answers<'_>) {
        let mut asked = gathered.asks.iter().zip(answers.decisions()).enumerate();
        let mut said = gathered.said.as_slice();
        for step in &gathered.steps {
            if let Step::Said(length) = step {
                let (text, behind) = said.split_at_checked(*length).unwrap_or((said, &[]));
                self.out.extend_from_slice(text);
                said = behind;
                continue;
            }
            let Some((place, (ask, decision))) = asked.next() else { return };
            let after = if *step == Step::Reset { asked.next() } else { None };
            let Some(decision) = decision else {
                if let Some(Err(mistake)) = answers.iter().nth(place) {
                    reply::mistake(mistake, self.out);
                }
                continue;
            };
            match *step {
                Step::Spend { burst } => {
                    let retry = self.judge(decision.allowed, ask.cost > burst);
                    reply::five(&decision, burst, retry, self.out);
                }
                Step::Refund { burst } => reply::five(&decision, burst, Retry::Passed, self.out),
                Step::Reset => {
                    let is_reset =
                        after.is_some_and(|(_, (_, it))| it.is_some_and(|it| it.allowed));
                    let was_there = !decision.reset_in.is_zero();
                    reply::integer((is_reset && was_there).into(), self.out);
                }
                Step::Said(_) => {}
            }
        }
    }

    #[inline]
    fn judge(&mut self, is_allowed: bool, is_too_much: bool) -> Retry {
        let counter = if is_allowed { &mut self.counts.allowed } else { &mut self.counts.denied };
        *counter = counter.saturating_add(1);
        match (is_allowed, is_too_much) {
            (true, _) => Retry::Passed,
            (false, true) => Retry::Never,
            (false, false) => Retry::Later,
        }
    }

    /// Says what is wrong with the bytes, after which nobody knows where a request begins.
    fn break_off(&mut self, fault: Fault) -> Flow {
        self.counts.malformed = self.counts.malformed.saturating_add(1);
        let sign = if let Fault::Sign(sign) = fault { [b'\'', sign, b'\''] } else { [0; 3] };
        let sign = if matches!(fault, Fault::Sign(_)) { &sign[..] } else { &[] };
        reply::error(&[b"ERR Protocol error: ", fault.text().as_bytes(), sign], self.out);
        Flow::Close
    }
}
