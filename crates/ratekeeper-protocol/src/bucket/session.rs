//! A connection: lines in, one answer for each.

use std::iter;
use std::sync::Arc;

use ratekeeper::algorithm::book::Action;
use ratekeeper::limiter::{Asking, EVERYBODY};
use ratekeeper::{Decision, Limiter, Moment, Request};
use smallvec::SmallVec;

use super::codec::{self, Command};
use crate::{Counts, Flow, StreamDoor, foreign, scan, spare};

/// The longest line that is read unless a door is told otherwise, in bytes, without its end.
pub const LINE_BYTES_MAX: usize = 1 << 10;

/// How many lines are decided at once: clients that send many in one go often send a hundred, and a
/// batch of what is left would wait for memory again.
const BATCH_LINES: usize = 128;
/// The same where the buckets are elsewhere: whatever one read brings goes there in one trip.
const TRIP_LINES: usize = 1 << 14;

const ALLOWED: &[u8] = b"1\n";
const DENIED: &[u8] = b"0\n";
const NOT_FOUND: &[u8] = b"BUCKET NOT FOUND\n";
const INVALID: &[u8] = b"INVALID COMMAND\n";
const BYE: &[u8] = b"BYE\n";

/// Answers lines from the limits and buckets of a limiter.
#[derive(Clone)]
pub struct Door {
    limiter: Arc<Limiter>,
    line_bytes_max: usize,
}

/// What is remembered of a connection: the line that is not complete yet.
#[derive(Clone, Debug, Default)]
pub struct Session {
    partial: Vec<u8>,
}

impl Session {
    /// How many bytes it remembers; at most one more than a line can have.
    pub fn held_bytes(&self) -> usize {
        self.partial.len()
    }
}

impl Door {
    /// A door to `limiter`.
    pub fn new(limiter: Arc<Limiter>) -> Self {
        Self { limiter, line_bytes_max: LINE_BYTES_MAX }
    }

    /// The same door for lines of up to `line_bytes_max` bytes. Buckets whose names do not fit in
    /// such a line cannot be asked for.
    #[must_use]
    pub fn with_line_bytes_max(self, line_bytes_max: usize) -> Self {
        Self { line_bytes_max, ..self }
    }
}

impl StreamDoor for Door {
    type Session = Session;

    /// The last byte of a line can be all that a read brings, and the longest answer has so many.
    const REPLY_BYTES_PER_BYTE: usize = NOT_FOUND.len();

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
        let mut replies = Replies { now, out, counts };
        let partial = &mut session.partial;
        let (mut first, mut rest) = (None, bytes);
        if !partial.is_empty()
            && let Some((end, behind)) = codec::split(bytes)
        {
            if self.is_too_long(partial, end) {
                return replies.refuse_last();
            }
            partial.extend_from_slice(end);
            (first, rest) = (Some(partial.as_slice()), behind);
        }
        let is_complete = first.is_some();
        let mut lines = Lines { first, bytes: rest, text: scan::text(rest), at: 0 };
        if self.answer(&mut lines, &mut replies).await == Flow::Close {
            return Flow::Close;
        }
        // What is left of it, without what else `lines` borrows.
        let rest = rest.get(lines.at..).unwrap_or_default();
        if is_complete {
            partial.clear();
        }
        if !rest.is_empty() {
            if self.is_too_long(partial, rest) {
                return replies.refuse_last();
            }
            partial.extend_from_slice(rest);
            // A hello need not have a line feed in it, and its sender waits for an answer.
            if foreign::is_tls(partial) {
                return replies.refuse_last();
            }
        }
        Flow::Open
    }

    async fn finish_wherever(
        &self,
        session: &mut Session,
        now: Moment,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) {
        let partial = std::mem::take(&mut session.partial);
        if !partial.is_empty() {
            let mut lines = Lines { first: Some(&partial), bytes: &[], text: "", at: 0 };
            self.answer(&mut lines, &mut Replies { now, out, counts }).await;
        }
    }
}

/// The complete lines of one read, of which the first may have begun before it.
struct Lines<'a> {
    first: Option<&'a [u8]>,
    bytes: &'a [u8],
    /// What of the bytes is text, up to the first that is not.
    text: &'a str,
    /// Where the next line begins.
    at: usize,
}

/// What a line says.
enum Line<'a> {
    Get {
        /// None if it is no text; then nothing is called so.
        name: Option<&'a str>,
        cost: u64,
    },
    Quit,
    Invalid,
    /// It is too long, or from a browser: nothing behind it is read.
    Refused,
}

impl<'a> Lines<'a> {
    /// The name that the next line asks for, if it is as most are.
    #[inline]
    fn next_plain(&mut self, bytes_max: usize) -> Option<&'a str> {
        let (name, used) = codec::plain_get(self.text.get(self.at..)?)?;
        // With its end, so that no line is taken for short enough that is not.
        if used > bytes_max || self.first.is_some() {
            return None;
        }
        self.at = self.at.wrapping_add(used);
        Some(name)
    }

    /// Out of line, like all that is not for most lines, so that these take the registers.
    #[inline(never)]
    fn next_of_any_kind(&mut self, bytes_max: usize) -> Option<Line<'a>> {
        let line = if let Some(first) = self.first.take() {
            first
        } else {
            let (line, _) = codec::split(self.rest())?;
            self.at = self.at.wrapping_add(line.len()).wrapping_add(1);
            line
        };
        Some(Line::of(line, bytes_max))
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.at >= self.bytes.len()
    }

    /// What was not read yet.
    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

impl<'a> Line<'a> {
    fn of(line: &'a [u8], bytes_max: usize) -> Self {
        let content = codec::content(line);
        if content.len() > bytes_max {
            return Self::Refused;
        }
        match codec::parse(content) {
            Command::Get { name, cost } => Self::Get { name: str::from_utf8(name).ok(), cost },
            Command::Quit => Self::Quit,
            Command::Invalid if foreign::is_line(content) => Self::Refused,
            Command::Invalid => Self::Invalid,
        }
    }
}

struct Replies<'a> {
    now: Moment,
    out: &'a mut Vec<u8>,
    counts: &'a mut Counts,
}

/// Lines that are answered together.
#[derive(Default)]
struct Gathered<'a> {
    asks: SmallVec<[Request<'a>; BATCH_LINES]>,
    /// What is said without asking, and behind how many asks.
    said: SmallVec<[(usize, Said); BATCH_LINES]>,
}

/// The answer to a line that asks nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    NotFound,
    Invalid,
    Bye,
}

/// Why no more lines are gathered before these are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// There are enough.
    Full,
    /// No other is complete.
    Dry,
    /// The last closes the connection.
    Close,
}

impl Door {
    /// Whether a line in two pieces is longer than the bound, whatever follows it. The last byte
    /// may be the CR of its end.
    fn is_too_long(&self, head: &[u8], end: &[u8]) -> bool {
        let length = head.len().saturating_add(end.len());
        let last = end.last().or(head.last());
        length.saturating_sub(usize::from(last == Some(&b'\r'))) > self.line_bytes_max
    }

    async fn answer(&self, lines: &mut Lines<'_>, replies: &mut Replies<'_>) -> Flow {
        let wherever = self.limiter.wherever();
        let mut gathered = Gathered::default();
        loop {
            let mut finder = Finder::new(&self.limiter);
            let stop = self.gather(lines, &mut finder, &mut gathered);
            let mut batch = spare::take();
            let asks = &gathered.asks;
            if asks.is_empty() {
                replies.add(&gathered.said, iter::empty());
            } else if wherever.waits() {
                // A reload waits for who holds the limits.
                drop(finder);
                let answers = wherever.batch(&mut batch, asks, replies.now).await;
                replies.add(&gathered.said, answers.decisions());
            } else {
                let spend = |_| Action::CheckAndSpend;
                let answers = finder.asking.batch_with(&mut batch, asks, spend, replies.now);
                replies.add(&gathered.said, answers.decisions());
            }
            spare::put_back(batch);
            match stop {
                Stop::Full => {}
                Stop::Dry => return Flow::Open,
                Stop::Close => return Flow::Close,
            }
            gathered.asks.clear();
            gathered.said.clear();
        }
    }

    /// Reads up to a batch of lines, and no further than one that closes the connection.
    fn gather<'a>(
        &self,
        lines: &mut Lines<'a>,
        finder: &mut Finder<'a, '_>,
        gathered: &mut Gathered<'a>,
    ) -> Stop {
        let most = if self.waits() { TRIP_LINES } else { BATCH_LINES };
        while gathered.asks.len().wrapping_add(gathered.said.len()) < most {
            if let Some(name) = lines.next_plain(self.line_bytes_max) {
                gathered.ask(finder.find(name), 1);
                continue;
            }
            if lines.is_empty() {
                return Stop::Dry;
            }
            match lines.next_of_any_kind(self.line_bytes_max) {
                Some(Line::Get { name, cost }) => {
                    gathered.ask(name.and_then(|name| finder.find(name)), cost);
                }
                Some(Line::Invalid) => gathered.say(Said::Invalid),
                Some(Line::Refused) => {
                    gathered.say(Said::Invalid);
                    return Stop::Close;
                }
                Some(Line::Quit) => {
                    gathered.say(Said::Bye);
                    return Stop::Close;
                }
                None => return Stop::Dry,
            }
        }
        Stop::Full
    }
}

impl<'a> Gathered<'a> {
    /// Asks for what was found under a name.
    #[inline]
    fn ask(&mut self, found: Option<(&'a str, &'a str)>, cost: u64) {
        match found {
            Some((limit, id)) => self.asks.push(Request::new(limit, id, cost)),
            None => self.say(Said::NotFound),
        }
    }

    #[inline(never)]
    fn say(&mut self, said: Said) {
        self.said.push((self.asks.len(), said));
    }
}

/// Finds out what a name stands for. Lines in a row often have the same name, or the same limit, and
/// the limiter is faster where it is the same text in memory.
struct Finder<'a, 'l> {
    asking: Asking<'l>,
    /// The last limit that was asked for with an id, and the same with the colon behind it; nothing
    /// if that could also begin the name of a bucket.
    limit: &'a str,
    prefix: &'a str,
    /// The last name that was looked up, and what it stands for.
    name: &'a str,
    found: Option<(&'a str, &'a str)>,
}

impl<'a, 'l> Finder<'a, 'l> {
    fn new(limiter: &'l Limiter) -> Self {
        Self { asking: limiter.asking(), limit: "", prefix: "", name: "", found: None }
    }

    #[inline]
    fn find(&mut self, name: &'a str) -> Option<(&'a str, &'a str)> {
        if !self.prefix.is_empty()
            && let Some(id) = scan::strip_prefix(name, self.prefix)
        {
            return Some((self.limit, id));
        }
        if self.name != name {
            (self.name, self.found) = (name, self.look_up(name));
        }
        self.found
    }

    /// The limit and the id that a name stands for: everybody's, or `LIMIT:ID`. A bucket has no ids.
    #[inline(never)]
    fn look_up(&mut self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let has_colons = self.asking.has_colons();
        let colon = scan::position(b':', name.as_bytes());
        if (colon.is_none() || has_colons) && self.asking.contains(name) {
            return Some((name, EVERYBODY));
        }
        let (limit, id) = name.split_at_checked(colon?)?;
        let id = id.get(1..)?;
        let is_limit = self.asking.named(limit).is_some_and(|named| !named.is_bucket());
        if !is_limit {
            return None;
        }
        if self.limit != limit {
            self.limit = limit;
            self.prefix = if has_colons { "" } else { name.strip_suffix(id)? };
        }
        Some((self.limit, id))
    }
}

impl Replies<'_> {
    /// Answers to asks, and what is said between them.
    #[inline]
    fn add(&mut self, said: &[(usize, Said)], decisions: impl Iterator<Item = Option<Decision>>) {
        let (mut decisions, mut behind) = (decisions, 0_usize);
        for (asks, said) in said {
            self.tell(decisions.by_ref().take(asks.saturating_sub(behind)));
            behind = *asks;
            self.say(*said);
        }
        self.tell(decisions);
    }

    #[inline]
    fn tell(&mut self, decisions: impl Iterator<Item = Option<Decision>>) {
        let [mut allowed, mut denied, mut unknown] = [0_u64; 3];
        for decision in decisions {
            // Each in its own place: a copy of known length is no call.
            match decision {
                Some(Decision { allowed: true, .. }) => {
                    allowed = allowed.wrapping_add(1);
                    self.out.extend_from_slice(ALLOWED);
                }
                Some(_) => {
                    denied = denied.wrapping_add(1);
                    self.out.extend_from_slice(DENIED);
                }
                None => {
                    unknown = unknown.wrapping_add(1);
                    self.out.extend_from_slice(NOT_FOUND);
                }
            }
        }
        let counts = &mut *self.counts;
        let all = allowed.wrapping_add(denied).wrapping_add(unknown);
        counts.requests = counts.requests.saturating_add(all);
        counts.allowed = counts.allowed.saturating_add(allowed);
        counts.denied = counts.denied.saturating_add(denied);
    }

    fn say(&mut self, said: Said) {
        let (text, counter) = match said {
            Said::NotFound => (NOT_FOUND, &mut self.counts.requests),
            Said::Bye => (BYE, &mut self.counts.requests),
            Said::Invalid => (INVALID, &mut self.counts.malformed),
        };
        *counter = counter.saturating_add(1);
        self.out.extend_from_slice(text);
    }

    /// Answers a line behind which nothing is read.
    fn refuse_last(&mut self) -> Flow {
        self.counts.malformed = self.counts.malformed.saturating_add(1);
        self.out.extend_from_slice(INVALID);
        Flow::Close
    }
}
