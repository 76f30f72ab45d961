//! The short way: from the bytes of a request to the bytes of its answer.
//!
//! hyper reads whatever HTTP/1 allows, and makes of it what any handler may want to know; a router
//! looks for the handler. For the few requests that come all the time this took several times as
//! long as all else together. They are answered here if they are whole and plain. Whatever is not,
//! and whatever is not answered with a decision, goes the long way, so that there is one piece of
//! code to say what is wrong; a test compares the two.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::time::{Duration, UNIX_EPOCH};

use axum::http::{HeaderName, Method, Request, Version};
use futures_util::FutureExt as _;
use httparse::{Header, Status};
use tollgate::Moment;
use tollgate_protocol::Counts;

use super::app::App;
use super::connection::Peer;
use super::decide::{self, Done, Op};
use super::fields::Head;
use super::route::{self, Asked};
use crate::office::Office;
use crate::settings::{HttpSettings, XRateLimit};

/// How much is read at once. All of it is answered before anything is written, and an answer is up to
/// eight times as long as its request.
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
pub(super) struct Desk {
    pub(super) input: RefCell<Box<[u8]>>,
    pub(super) output: RefCell<Vec<u8>>,
    scratch: RefCell<Scratch>,
}

impl Default for Desk {
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
    body: Vec<u8>,
    /// The date of a second, as text, which most answers share with the one before.
    date: String,
    date_secs: u64,
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

/// Appends the answers of all plain requests at the beginning of `bytes` to `out`, as of `now`.
pub(super) fn answer(
    app: &App,
    peer: &Peer,
    desk: &Desk,
    bytes: &[u8],
    now: Moment,
    out: &mut Vec<u8>,
) -> Answered {
    let mut answered = Answered { bytes: 0, counts: Counts::default(), rest: Rest::Other };
    // Answers may have to be waited for, or to say that they are the last.
    let office = app.office.get().filter(|office| !office.house.http.wherever().waits());
    let Some(office) = office.filter(|_| !app.is_draining()) else { return answered };
    let mut scratch = desk.scratch.borrow_mut();
    loop {
        let front = bytes.get(answered.bytes..).unwrap_or_default();
        let plain = match Front::read(front, &app.settings) {
            Front::Plain(plain) if plain.is_admitted(app, peer) => plain,
            Front::Begun => {
                answered.rest = Rest::Begun;
                return answered;
            }
            _ => return answered,
        };
        let Some(is_allowed) = plain.decide(app, office, now, &mut scratch, out) else {
            return answered;
        };
        answered.bytes += plain.bytes;
        answered.counts.requests += 1;
        *(if is_allowed { &mut answered.counts.allowed } else { &mut answered.counts.denied }) += 1;
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
}

/// What cannot be answered without knowing more of HTTP, or of browsers.
const UNUSUAL: [&str; 5] = ["transfer-encoding", "expect", "upgrade", "origin", "sec-fetch-site"];

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
        };
        route::admit(app, &asked, |_| ()).is_ok()
    }

    /// Decides it, appends the answer, and says whether it was allowed. Nothing if it is a mistake.
    fn decide(
        &self,
        app: &App,
        office: &Office,
        now: Moment,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        let answer = |done: &Done<'_>| {
            scratch.write(done, app.settings.x_ratelimit, now, out);
            done.is_allowed()
        };
        // Buckets are in memory, so it is decided at once.
        decide::decided(self.op, office, self.body, now, answer).now_or_never()?.ok()
    }
}

impl Scratch {
    /// Appends an answer as hyper writes it.
    fn write(&mut self, done: &Done<'_>, dialect: XRateLimit, now: Moment, out: &mut Vec<u8>) {
        self.body.clear();
        done.write(&mut self.body);
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n");
        done.write_fields(&mut Lines(out), dialect, now);
        out.extend_from_slice(b"content-length: ");
        digits(self.body.len() as u64, out);
        out.extend_from_slice(b"\r\ncache-control: no-store\r\ndate: ");
        out.extend_from_slice(self.date(now).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(&self.body);
    }

    fn date(&mut self, now: Moment) -> &str {
        let secs = now.as_nanos() / 1_000_000_000;
        if self.date.is_empty() || self.date_secs != secs {
            self.date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs));
            self.date_secs = secs;
        }
        &self.date
    }
}

/// Header fields as HTTP/1 has them.
struct Lines<'o>(&'o mut Vec<u8>);

impl Head for Lines<'_> {
    fn text(&mut self, name: HeaderName, text: String) {
        let Self(out) = self;
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, name: HeaderName, number: u64) {
        let Self(out) = self;
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        digits(number, out);
        out.extend_from_slice(b"\r\n");
    }
}

fn digits(number: u64, out: &mut Vec<u8>) {
    // Writing a number into memory cannot fail.
    let _ = serde_json::to_writer(out, &number);
}
