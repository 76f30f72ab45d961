//! A connection: lines in, one answer for each.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::limiter::{EVERYBODY, Names};
use tollgate::{Batch, Decision, Limiter, Mistake, Moment, Request};

use super::codec::{self, Command};
use crate::{Counts, Flow, StreamDoor, scan};

/// The longest line that is read unless a door is told otherwise, in bytes, without its end.
pub const LINE_BYTES_MAX: usize = 1 << 10;

/// How many lines are decided at once.
const BATCH_LINES: usize = 64;
/// The same where the buckets are elsewhere: whatever one read brings goes there in one trip.
const TRIP_LINES: usize = 1 << 14;

const ALLOWED: &[u8] = b"1\n";
const DENIED: &[u8] = b"0\n";
const NOT_FOUND: &[u8] = b"BUCKET NOT FOUND\n";
const INVALID: &[u8] = b"INVALID COMMAND\n";
const BYE: &[u8] = b"BYE\n";

thread_local! {
    /// One for each thread rather than each connection, of which there are many more.
    static BATCH: RefCell<Batch> = RefCell::default();
}

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
        let mut head = std::mem::take(&mut session.partial);
        let (mut first, mut rest) = (None, bytes);
        if !head.is_empty()
            && let Some((end, behind)) = codec::split(bytes)
        {
            if self.is_too_long(&head, end) {
                return replies.refuse_length();
            }
            head.extend_from_slice(end);
            (first, rest) = (Some(head.as_slice()), behind);
        }
        let mut lines = Lines { first, rest, text: scan::text(rest) };
        if self.answer(&mut lines, &mut replies).await == Flow::Close {
            return Flow::Close;
        }
        // What is left of it, without what else `lines` borrows.
        let used = rest.len().saturating_sub(lines.rest.len());
        let rest = rest.get(used..).unwrap_or_default();
        if first.is_some() {
            head.clear();
        }
        if self.is_too_long(&head, rest) {
            return replies.refuse_length();
        }
        head.extend_from_slice(rest);
        session.partial = head;
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
            let mut lines = Lines { first: Some(&partial), rest: &[], text: "" };
            self.answer(&mut lines, &mut Replies { now, out, counts }).await;
        }
    }
}

/// The complete lines of one read, of which the first may have begun before it.
struct Lines<'a> {
    first: Option<&'a [u8]>,
    rest: &'a [u8],
    /// What of the rest is text, up to the first byte that is not.
    text: &'a str,
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
    TooLong,
}

impl<'a> Lines<'a> {
    #[inline]
    fn next(&mut self, bytes_max: usize) -> Option<Line<'a>> {
        if let Some(line) = self.first.take() {
            return Some(Line::of(line, bytes_max));
        }
        match codec::plain_get(self.text) {
            // With its end, so that no line is taken for short enough that is not.
            Some((name, used)) if used <= bytes_max => {
                self.skip(used);
                Some(Line::Get { name: Some(name), cost: 1 })
            }
            _ => self.next_of_any_kind(bytes_max),
        }
    }

    fn next_of_any_kind(&mut self, bytes_max: usize) -> Option<Line<'a>> {
        let (line, _) = codec::split(self.rest)?;
        self.skip(line.len().saturating_add(1));
        Some(Line::of(line, bytes_max))
    }

    #[inline]
    fn skip(&mut self, used: usize) {
        self.rest = self.rest.get(used..).unwrap_or_default();
        self.text = self.text.get(used..).unwrap_or_default();
    }
}

impl<'a> Line<'a> {
    fn of(line: &'a [u8], bytes_max: usize) -> Self {
        let content = codec::content(line);
        if content.len() > bytes_max {
            return Self::TooLong;
        }
        match codec::parse(content) {
            Command::Get { name, cost } => Self::Get { name: str::from_utf8(name).ok(), cost },
            Command::Quit => Self::Quit,
            Command::Invalid => Self::Invalid,
        }
    }
}

struct Replies<'a> {
    now: Moment,
    out: &'a mut Vec<u8>,
    counts: &'a mut Counts,
}

/// What becomes of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The limiter is asked.
    Ask,
    NotFound,
    Invalid,
    Quit,
    TooLong,
}

impl Step {
    /// Whether the connection is closed after it.
    fn is_last(self) -> bool {
        matches!(self, Self::Quit | Self::TooLong)
    }
}

impl Door {
    /// Whether a line in two pieces is longer than the bound, whatever follows it. The last byte
    /// may be the CR of its end.
    fn is_too_long(&self, head: &[u8], end: &[u8]) -> bool {
        let length = head.len().saturating_add(end.len());
        let last = end.last().or(head.last());
        length.saturating_sub(usize::from(last == Some(&b'\r'))) > self.line_bytes_max
    }

    async fn answer<'a>(&self, lines: &mut Lines<'a>, replies: &mut Replies<'_>) -> Flow {
        let mut asks: SmallVec<[Request<'a>; BATCH_LINES]> = SmallVec::new();
        let mut steps: SmallVec<[Step; BATCH_LINES]> = SmallVec::new();
        loop {
            self.gather(lines, &mut asks, &mut steps);
            let Some(last) = steps.last().copied() else { return Flow::Open };
            // Taken, not borrowed: while this one waits for its answers, others come.
            let mut batch = BATCH.take();
            let answers = self.limiter.wherever().batch(&mut batch, &asks, replies.now).await;
            replies.add(&steps, answers.iter());
            BATCH.set(batch);
            if last.is_last() {
                return Flow::Close;
            }
            asks.clear();
            steps.clear();
        }
    }

    /// Reads up to a batch of lines, and no further than one that closes the connection.
    fn gather<'a>(
        &self,
        lines: &mut Lines<'a>,
        asks: &mut SmallVec<[Request<'a>; BATCH_LINES]>,
        steps: &mut SmallVec<[Step; BATCH_LINES]>,
    ) {
        let mut finder = Finder::default();
        let most = if self.waits() { TRIP_LINES } else { BATCH_LINES };
        while steps.len() < most
            && let Some(line) = lines.next(self.line_bytes_max)
        {
            let step = match line {
                Line::Get { name, cost } => {
                    match name.and_then(|name| finder.find(&self.limiter, name)) {
                        Some((limit, id)) => {
                            asks.push(Request::new(limit, id, cost));
                            Step::Ask
                        }
                        None => Step::NotFound,
                    }
                }
                Line::Quit => Step::Quit,
                Line::Invalid => Step::Invalid,
                Line::TooLong => Step::TooLong,
            };
            steps.push(step);
            if step.is_last() {
                return;
            }
        }
    }
}

/// Finds out what a name stands for. Lines in a row often have the same name, or the same limit, and
/// the limiter is faster where it is the same text in memory.
#[derive(Default)]
struct Finder<'a> {
    names: Option<Names>,
    /// The last limit that was asked for with an id, and the same with the colon behind it; nothing
    /// if that could also begin the name of a bucket.
    limit: &'a str,
    prefix: &'a str,
    /// The last name that was looked up, and what it stands for.
    name: &'a str,
    found: Option<(&'a str, &'a str)>,
}

impl<'a> Finder<'a> {
    #[inline]
    fn find(&mut self, limiter: &Limiter, name: &'a str) -> Option<(&'a str, &'a str)> {
        if !self.prefix.is_empty()
            && let Some(id) = name.strip_prefix(self.prefix)
        {
            return Some((self.limit, id));
        }
        if self.name != name {
            (self.name, self.found) = (name, self.look_up(limiter, name));
        }
        self.found
    }

    /// The limit and the id that a name stands for: everybody's, or `LIMIT:ID`. A bucket has no ids.
    fn look_up(&mut self, limiter: &Limiter, name: &'a str) -> Option<(&'a str, &'a str)> {
        let names = self.names.get_or_insert_with(|| limiter.names());
        if names.contains(name) {
            return Some((name, EVERYBODY));
        }
        let (limit, id) = name.split_once(':')?;
        let is_limit = names.named(limit).is_some_and(|named| !named.is_bucket());
        if !is_limit {
            return None;
        }
        if self.limit != limit {
            self.limit = limit;
            self.prefix = if names.have_colons() { "" } else { name.strip_suffix(id)? };
        }
        Some((self.limit, id))
    }
}

impl Replies<'_> {
    fn add<'m>(
        &mut self,
        steps: &[Step],
        answers: impl Iterator<Item = Result<Decision, &'m Mistake>>,
    ) {
        let mut answers = answers;
        let mut counts = Counts::default();
        for step in steps {
            // Each in its own place: a copy of known length is no call.
            match step {
                Step::Ask => match answers.next() {
                    Some(Ok(Decision { allowed: true, .. })) => {
                        counts.allowed = counts.allowed.saturating_add(1);
                        self.out.extend_from_slice(ALLOWED);
                    }
                    Some(Ok(_) | Err(Mistake::CostAboveBurst { .. })) => {
                        counts.denied = counts.denied.saturating_add(1);
                        self.out.extend_from_slice(DENIED);
                    }
                    Some(Err(_)) | None => self.out.extend_from_slice(NOT_FOUND),
                },
                Step::NotFound => self.out.extend_from_slice(NOT_FOUND),
                Step::Quit => self.out.extend_from_slice(BYE),
                Step::Invalid | Step::TooLong => {
                    counts.malformed = counts.malformed.saturating_add(1);
                    self.out.extend_from_slice(INVALID);
                }
            }
        }
        let understood = (steps.len() as u64).saturating_sub(counts.malformed);
        self.counts.requests = self.counts.requests.saturating_add(understood);
        self.counts.allowed = self.counts.allowed.saturating_add(counts.allowed);
        self.counts.denied = self.counts.denied.saturating_add(counts.denied);
        self.counts.malformed = self.counts.malformed.saturating_add(counts.malformed);
    }

    fn refuse_length(&mut self) -> Flow {
        self.counts.malformed = self.counts.malformed.saturating_add(1);
        self.out.extend_from_slice(INVALID);
        Flow::Close
    }
}
