//! The short way: from the bytes of a request to the bytes of its answer.
//!
//! hyper reads whatever HTTP/1 allows, and makes of it what any handler may want to know; a router
//! looks for the handler. For the few requests that come all the time this took several times as
//! long as all else together. They are answered here if they are whole and plain, those that one
//! read brought together. Whatever is not goes the long way; a test compares the two.

mod ask;
mod heads;
mod phrases;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::mem::MaybeUninit;

use axum::http::{Method, Request, Version};
use futures_util::FutureExt as _;
use httparse::{Header, Status};
use ratekeeper::algorithm::book::Action;
use ratekeeper::limits::IdBuffer;
use ratekeeper::{Batch, Limiter, Mode, Moment};
use ratekeeper_protocol::Counts;
use smallvec::SmallVec;

use super::app::App;
use super::connection::Peer;
use super::decide::{self, COST_DEFAULT, Done, Op};
use super::decision::Decided;
use super::route::{self, Asked};
use crate::admin::ServerAdmin;
use crate::settings::{HttpSettings, XRateLimit};
use heads::Heads;
use phrases::Phrases;

/// How much is read at once. All of it is answered before anything is written, and an answer is about
/// ten times as long as the shortest request.
pub(super) const READ_BYTES_MAX: usize = 16 << 10;
/// How many header fields a plain request has at most.
const FIELDS_MAX: usize = 32;

/// What is asked for all the time.
const ROUTES: [(&str, Op); 4] = [
    ("/v1/spend", Op::Spend),
    ("/v1/check", Op::Check),
    ("/v1/refund", Op::Refund),
    ("/v1/reset", Op::Reset),
];
/// How every request for them begins.
const BEGINS: &[u8] = b"POST /v1/";

/// What the connections of a worker share.
pub(super) struct HttpBuffers {
    pub(super) input: RefCell<Box<[u8]>>,
    pub(super) output: RefCell<Vec<u8>>,
    scratch: RefCell<Scratch>,
}

impl Default for HttpBuffers {
    fn default() -> Self {
        Self {
            input: RefCell::new(vec![0; READ_BYTES_MAX].into()),
            output: RefCell::default(),
            scratch: RefCell::default(),
        }
    }
}

#[derive(Default)]
struct Scratch {
    heads: Heads,
    batch: Batch,
    phrases: Phrases,
}

/// What was answered of some bytes.
pub(super) struct Answered {
    /// How many bytes the requests had.
    pub(super) bytes: usize,
    pub(super) counts: Counts,
    /// What stands behind them.
    pub(super) rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing, or the beginning of what may be a plain request.
    Begun,
    /// Something else.
    Other,
}

/// Appends the answers of all plain requests at the beginning of `bytes` to `out`, as of `now`, which is
/// `wall` for people.
pub(super) fn answer(
    app: &App,
    peer: &Peer,
    buffers: &HttpBuffers,
    bytes: &[u8],
    now: Moment,
    wall: Moment,
    out: &mut Vec<u8>,
) -> Answered {
    let mut answered = Answered { bytes: 0, counts: Counts::default(), rest: Rest::Other };
    // Answers may have to be waited for, or to say that they are the last.
    let admin = app.admin.get().filter(|admin| !admin.engine.http.wherever().waits());
    let Some(admin) = admin.filter(|_| !app.is_draining()) else { return answered };
    let Scratch { heads, batch, phrases } = &mut *buffers.scratch.borrow_mut();
    let (is_open, limiter) = (app.keys.is_open(), &admin.engine.http);
    let mut writer = Writer { phrases, dialect: app.settings.x_ratelimit, now, wall, out };
    let mut round = Round::default();
    loop {
        let front = bytes.get(answered.bytes..).unwrap_or_default();
        let plain = match heads.front(front, app, peer, is_open) {
            Front::Plain(plain) => plain,
            Front::Begun => {
                answered.rest = Rest::Begun;
                break;
            }
            Front::Other => break,
        };
        if !round.take(&plain) {
            round.answer(limiter, batch, &mut writer, &mut answered.counts);
            let Some(is_allowed) = plain.decide(admin, &mut writer) else { break };
            count(&mut answered.counts, is_allowed);
        }
        answered.bytes += plain.bytes;
    }
    round.answer(limiter, batch, &mut writer, &mut answered.counts);
    answered
}

fn count(counts: &mut Counts, is_allowed: bool) {
    counts.requests += 1;
    *(if is_allowed { &mut counts.allowed } else { &mut counts.denied }) += 1;
}

/// What is written, and where to.
struct Writer<'w> {
    phrases: &'w mut Phrases,
    dialect: XRateLimit,
    now: Moment,
    wall: Moment,
    out: &'w mut Vec<u8>,
}

/// Requests for one bucket each, which are decided together.
#[derive(Default)]
struct Round<'b> {
    asks: SmallVec<[ratekeeper::Request<'b>; ROUND_ASKS]>,
    ops: SmallVec<[Op; ROUND_ASKS]>,
}

/// As many as most clients have under way.
const ROUND_ASKS: usize = 16;

impl<'b> Round<'b> {
    /// Takes a request, and says whether it is such a one.
    fn take(&mut self, plain: &Plain<'b>) -> bool {
        let Some(ask) = ask::read(plain.body) else { return false };
        let cost = match (plain.op, ask.cost) {
            (Op::Reset, None) => 0,
            (Op::Reset, Some(_)) => return false,
            (_, cost) => cost.unwrap_or(COST_DEFAULT),
        };
        let mode = if plain.op == Op::Check { Mode::CheckOnly } else { Mode::CheckAndSpend };
        self.asks.push(ratekeeper::Request::new(ask.limit, ask.id, cost).with_mode(mode));
        self.ops.push(plain.op);
        true
    }

    /// Decides them, answers them in order, and forgets them.
    fn answer(
        &mut self,
        limiter: &Limiter,
        batch: &mut Batch,
        writer: &mut Writer<'_>,
        counts: &mut Counts,
    ) {
        if self.asks.is_empty() {
            return;
        }
        let Writer { phrases, dialect, now, wall, out } = writer;
        let asking = limiter.asking();
        let action = |place: usize| match self.ops[place] {
            Op::Spend => Action::CheckAndSpend,
            Op::Check => Action::CheckOnly,
            Op::Refund => Action::Refund,
            Op::Reset => Action::Reset,
        };
        let answers = asking.batch_with(batch, &self.asks, action, *now);
        for ((ask, op), answer) in self.asks.iter().zip(&self.ops).zip(answers.iter()) {
            let mut buffer = IdBuffer::new();
            let decided = answer.map_err(Clone::clone).and_then(|decision| {
                let of = asking.entitled(ask.limit, ask.id, &mut buffer)?;
                Ok(Decided { ask: *ask, of, decision })
            });
            match decided {
                Ok(decided) => {
                    phrases.decision(*op, &decided, *dialect, *wall, out);
                    count(counts, decided.decision.allowed);
                }
                Err(mistake) => {
                    phrases.mistake(&mistake, *wall, out);
                    counts.malformed += 1;
                }
            }
        }
        self.asks.clear();
        self.ops.clear();
    }
}

/// Whether this is what would have gone the short way, had it been whole.
pub(super) fn is_plain<B>(request: &Request<B>) -> bool {
    let fields = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    request.version() == Version::HTTP_11
        && request.method() == Method::POST
        && op_of(request.uri().path()).is_some()
        && request.uri().query().is_none()
        && Fields::sort(fields).is_some_and(|fields| fields.body_bytes.is_some())
}

fn op_of(path: &str) -> Option<(&'static str, Op)> {
    ROUTES.into_iter().find(|(route, _)| *route == path)
}

/// What some bytes begin with.
enum Front<'b> {
    Plain(Plain<'b>),
    Begun,
    Other,
}

/// A request that is whole, and says nothing that it has to be known how to go about.
struct Plain<'b> {
    path: &'static str,
    op: Op,
    fields: Fields<'b>,
    body: &'b [u8],
    /// How long all of it is.
    bytes: usize,
}

impl<'b> Front<'b> {
    fn read(bytes: &'b [u8], settings: &HttpSettings) -> Self {
        let begin = bytes.get(..BEGINS.len()).unwrap_or(bytes);
        if !BEGINS.starts_with(begin) {
            return Self::Other;
        }
        let mut fields = [MaybeUninit::uninit(); FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let head = match request.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(Status::Complete(head)) => head,
            Ok(Status::Partial) => return Self::Begun,
            Err(_) => return Self::Other,
        };
        Self::of(bytes, head, &request, settings).unwrap_or(Self::Other)
    }

    fn of(
        bytes: &'b [u8],
        head: usize,
        request: &httparse::Request<'_, 'b>,
        settings: &HttpSettings,
    ) -> Option<Self> {
        let (path, op) = op_of(request.path?)?;
        let fields = |field: &Header<'b>| (field.name, field.value);
        let fields = Fields::sort(request.headers.iter().map(fields))?;
        let body_bytes = fields.body_bytes?;
        let whole = head.checked_add(body_bytes)?;
        let is_plain = request.method? == "POST"
            && request.version? == 1
            && u32::try_from(head).is_ok_and(|head| head <= settings.header_bytes)
            && body_bytes <= settings.body_bytes
            && whole <= READ_BYTES_MAX;
        if !is_plain {
            return None;
        }
        let body = bytes.get(head..whole);
        Some(body.map_or(Self::Begun, |body| {
            Self::Plain(Plain { path, op, fields, body, bytes: whole })
        }))
    }
}

/// The header fields that matter.
#[derive(Default)]
struct Fields<'b> {
    host: Option<&'b [u8]>,
    authorization: Option<&'b [u8]>,
    body_bytes: Option<usize>,
    /// Whether there is another that only its client should know.
    has_secret: bool,
}

/// What cannot be answered without knowing more of HTTP, or of browsers.
const UNUSUAL: [&str; 5] = ["transfer-encoding", "expect", "upgrade", "origin", "sec-fetch-site"];

/// What is a secret, also where the door asks for none.
const SECRETS: [&str; 2] = ["cookie", "proxy-authorization"];

impl<'b> Fields<'b> {
    /// Nothing if there is one that is not for here, or one twice. Those that mean nothing to any
    /// route may be there.
    fn sort(fields: impl Iterator<Item = (&'b str, &'b [u8])>) -> Option<Self> {
        let mut sorted = Self::default();
        for (name, value) in fields {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let is_twice = if is("host") {
                sorted.host.replace(value).is_some()
            } else if is("content-length") {
                sorted.body_bytes.replace(number(value)?).is_some()
            } else if is("authorization") {
                sorted.authorization.replace(value).is_some()
            } else if SECRETS.into_iter().any(is) {
                sorted.has_secret = true;
                false
            } else {
                is("connection") && !value.eq_ignore_ascii_case(b"keep-alive")
                    || UNUSUAL.into_iter().any(is)
            };
            if is_twice {
                return None;
            }
        }
        Some(sorted)
    }

    fn named(&self, name: &str) -> Option<&'b [u8]> {
        match name {
            "host" => self.host,
            "authorization" => self.authorization,
            // Of all that are looked for, no other is in a plain request.
            _ => None,
        }
    }
}

/// Digits only: `parse` alone would also take a sign.
fn number(digits: &[u8]) -> Option<usize> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

impl Plain<'_> {
    fn is_admitted(&self, app: &App, peer: &Peer) -> bool {
        let asked = Asked {
            method: &Method::POST,
            path: self.path,
            authority: None,
            field: |name: &str| self.fields.named(name),
            certificate: peer.certificate.as_deref(),
            is_tls: peer.is_tls,
            source: peer.guest.source(),
        };
        route::admit(app, &asked, |_| ()).is_ok()
    }

    /// Decides it, appends the answer, and says whether it was allowed. Nothing if it is a mistake.
    fn decide(&self, admin: &ServerAdmin, writer: &mut Writer<'_>) -> Option<bool> {
        let Writer { phrases, dialect, now, wall, out } = writer;
        let answer = |done: &Done<'_>| {
            phrases.done(done, *dialect, *wall, out);
            done.is_allowed()
        };
        // Buckets are in memory, so it is decided at once.
        decide::decided(self.op, admin, self.body, *now, answer).now_or_never()?.ok()
    }
}
