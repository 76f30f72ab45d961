//! One connection, from its first byte to its last, and what is counted of its requests.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONNECTION, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{Request, Response, StatusCode, Version};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ratekeeper::Moment;
use ratekeeper_protocol::Counts;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::activity::{Activity, Hearing};
use super::app::App;
use super::frames::CountedFrames;
use super::framing;
use super::http1::{Heads, Http1, Turn};
use super::route::{self, Asked};
use super::short::{self, HttpBuffers};
use super::tls;
use super::wire::{Discard, End, Failed, Spare, Wire};
use crate::transport::{Guest, LINGER, QUIET, ServerContext, UNDERWAY_BYTES_MAX};

/// What an HTTP/2 client sends first. No method of HTTP/1 begins so.
const HTTP2_BEGINS: &[u8] = b"PRI";
/// How many header fields a request may have.
const HEADER_FIELDS_MAX: usize = 100;
/// How much of HTTP/1 is read at once, so that what one read causes is bounded.
const READ_BYTES_MAX: usize = 64 << 10;
/// How many streams a client may reset before the server has looked at them, and how many the
/// server may have to reset itself, until the connection is ended.
const RESET_STREAMS_MAX: usize = 64;
/// How often a connection is looked at within the time that it may be without a request.
const LOOKS: u32 = 4;
/// How often it is looked at whether more comes, after the server is to stop, from one who sends
/// on and on.
const QUIET_LOOKS_MAX: usize = 4;

/// Serves the connections of one worker.
pub(super) struct Connections {
    pub(super) app: Arc<App>,
    pub(super) router: Router,
    pub(super) server_context: ServerContext,
    pub(super) buffers: HttpBuffers,
    spare: Spare,
    discard: Discard,
}

/// Who is at the other end.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) source: IpAddr,
    /// Of the token or the certificate.
    pub(super) name: Arc<str>,
    /// Kept by whoever answers for longer than it takes to return.
    pub(super) activity: Arc<Activity>,
    /// Told by whoever reads the body.
    pub(super) hearing: Arc<Hearing>,
}

/// What a handler says about the decisions in its answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    allowed: u64,
    denied: u64,
}

impl Counted {
    pub(super) fn decided(&mut self, allowed: bool) {
        *(if allowed { &mut self.allowed } else { &mut self.denied }) += 1;
    }

    pub(super) fn attach(self, mut response: Response<Body>) -> Response<Body> {
        response.extensions_mut().insert(self);
        response
    }
}

/// A task of HTTP/2 stays with its connection's thread.
#[derive(Clone, Copy)]
struct Here;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Here {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// What both versions of HTTP can do: end when what was begun is answered.
pub(super) trait Ending: Future<Output = Result<(), Broken>> {
    fn end(self: Pin<&mut Self>);
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The head of a request took too long.
    Slow,
    /// The client is gone, or says what cannot be understood.
    Io,
}

impl From<hyper::Error> for Broken {
    fn from(error: hyper::Error) -> Self {
        if error.is_timeout() { Self::Slow } else { Self::Io }
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ended {
    /// One side had enough, or the client is gone.
    #[default]
    Done,
    /// The client did not say in time what it wants.
    Slow,
    /// It does not read its answers.
    Stalled,
    /// It does not speak HTTP.
    Malformed,
}

impl From<Failed> for Ended {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Gone => Self::Done,
            Failed::Stalled => Self::Stalled,
        }
    }
}

impl Connections {
    pub(super) fn new(app: Arc<App>, router: Router, server_context: ServerContext) -> Self {
        let (buffers, spare, discard) =
            (HttpBuffers::default(), Spare::default(), Discard::default());
        Self { app, router, server_context, buffers, spare, discard }
    }

    pub(super) async fn converse(self: Rc<Self>, stream: TcpStream, guest: Guest) {
        let Ok(wire) = Wire::new(stream, self.app.settings.stall, &self.spare) else { return };
        let guest = Rc::new(guest);
        let ended = self.talk(&wire, &guest).await;
        let counters = guest.counters();
        match ended {
            Ended::Done => {}
            Ended::Slow | Ended::Stalled => counters.dropped(1),
            Ended::Malformed => counters.add(&Counts { malformed: 1, ..Counts::default() }),
        }
        if ended != Ended::Done {
            tracing::debug!(door = "http", source = %guest.source(), ?ended, "connection ended");
        }
        wire.close(&self.discard).await;
    }

    async fn talk(self: &Rc<Self>, wire: &Rc<Wire>, guest: &Rc<Guest>) -> Ended {
        // Of the first request, whatever has to come before it.
        let mut bound = pin!(sleep(self.app.settings.header_time));
        let begun = {
            let end = End::new(wire);
            let mut first = pin!(async {
                match self.app.keys.tls() {
                    Some(tls) => shake_hands(end, tls).await,
                    None => begin(end).await,
                }
            });
            tokio::select! {
                biased;
                begun = wire.drive(first.as_mut()) => begun,
                () = bound.as_mut() => return Ended::Slow,
                () = self.left_alone(wire) => return Ended::Done,
            }
        };
        match begun {
            Ok(Ok(begun)) => self.speak(begun, wire, guest, bound).await,
            // Whoever connects and goes has asked nothing; so has who cannot agree on how to.
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => Ended::Malformed,
            Ok(Err(_)) => Ended::Done,
            Err(failed) => failed.into(),
        }
    }

    /// Answers requests until one side has enough.
    async fn speak(
        self: &Rc<Self>,
        begun: Begun,
        wire: &Rc<Wire>,
        guest: &Rc<Guest>,
        bound: Pin<&mut Sleep>,
    ) -> Ended {
        let Begun { io, is_http2, is_tls, certificate } = begun;
        let activity = Arc::new(Activity::default());
        let peer = Rc::new(Peer {
            wire: Rc::clone(wire),
            guest: Rc::clone(guest),
            activity: Arc::clone(&activity),
            certificate,
            is_tls,
            turn: Cell::default(),
            heads: Cell::default(),
        });
        let (this, who) = (Rc::clone(self), Rc::clone(&peer));
        let service = service_fn(move |request: Request<Incoming>| {
            let (this, peer) = (Rc::clone(&this), Rc::clone(&who));
            async move { Ok::<_, Infallible>(this.answer(request, &peer).await) }
        });
        if is_http2 {
            let io = TokioIo::new(CountedFrames::new(io, Arc::clone(&self.server_context.time)));
            let connection = Http2(self.http2().serve_connection(io, service));
            self.see_through(connection, wire, &activity, bound).await
        } else {
            let connection = Http1::new(Rc::clone(self), peer, io, service);
            self.see_through(connection, wire, &activity, bound).await
        }
    }

    pub(super) fn http1(&self) -> http1::Builder {
        let settings = &self.app.settings;
        let header_bytes = usize::try_from(settings.header_bytes).unwrap_or(usize::MAX);
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_time)
            .max_headers(HEADER_FIELDS_MAX)
            .max_header_size(header_bytes)
            .max_buf_size(header_bytes.max(READ_BYTES_MAX));
        http1
    }

    fn http2(&self) -> http2::Builder<Here> {
        let settings = &self.app.settings;
        let mut http2 = http2::Builder::new(Here);
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(settings.streams)
            .max_header_list_size(settings.header_bytes)
            .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
            .max_local_error_reset_streams(RESET_STREAMS_MAX)
            .keep_alive_interval(settings.header_time)
            .keep_alive_timeout(settings.stall);
        http2
    }

    /// Runs a connection until it ends, the server is to stop, or nobody has used it for a while.
    async fn see_through(
        &self,
        connection: impl Ending,
        wire: &Wire,
        activity: &Activity,
        mut bound: Pin<&mut Sleep>,
    ) -> Ended {
        let mut connection = pin!(connection);
        let mut left_alone = pin!(self.left_alone(wire));
        let mut unused = pin!(self.unused(activity));
        let mut is_begun = false;
        loop {
            tokio::select! {
                biased;
                ended = wire.drive(connection.as_mut()) => return why(ended, wire),
                () = bound.as_mut(), if !is_begun => {
                    if activity.requests() == 0 {
                        return Ended::Slow;
                    }
                    is_begun = true;
                }
                () = left_alone.as_mut() => break,
                () = unused.as_mut() => break,
            }
        }
        connection.as_mut().end();
        // What was begun is finished, but not waited for, unless its answer is being taken, or is
        // still being made: an override may have to wait for its disk.
        loop {
            match timeout(LINGER, wire.drive(connection.as_mut())).await {
                // It was to end anyway, so nobody is too slow.
                Ok(ended) => {
                    return Some(why(ended, wire))
                        .filter(|it| *it != Ended::Slow)
                        .unwrap_or_default();
                }
                Err(_) if wire.is_blocked() || activity.is_awaited() => {}
                Err(_) => return Ended::Done,
            }
        }
    }

    /// Waits until the server is to stop and nothing more is on its way.
    async fn left_alone(&self, wire: &Wire) {
        self.server_context.draining().await;
        let heard_before = wire.heard_bytes();
        let mut looks = 0;
        loop {
            let heard = wire.heard_bytes();
            sleep(QUIET).await;
            looks += 1;
            let is_long = looks >= QUIET_LOOKS_MAX;
            // Who sends on and on is not listened to for ever, but what both systems may have held
            // when the end began is heard.
            let is_enough = if wire.has_more() {
                is_long && wire.heard_bytes() - heard_before >= UNDERWAY_BYTES_MAX
            } else {
                is_long || wire.heard_bytes() == heard
            };
            if is_enough {
                return;
            }
        }
    }

    /// Waits until there was no request for as long as the next one may take.
    async fn unused(&self, activity: &Activity) {
        let (mut requests, mut looks) = (activity.requests(), 0);
        while looks < LOOKS {
            sleep(self.app.settings.header_time / LOOKS).await;
            let is_unused = activity.is_idle() && activity.requests() == requests;
            requests = activity.requests();
            looks = if is_unused { looks + 1 } else { 0 };
        }
    }

    async fn answer(&self, mut request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let _in_hand = peer.activity.begin();
        let hearing = Hearing::begin(&peer.activity, &self.server_context.time);
        let is_http1 = request.version() <= Version::HTTP_11;
        let is_plain = is_http1 && short::is_plain(&request);
        peer.turn.set(Turn::Long);
        let asked = Asked {
            method: request.method(),
            path: request.uri().path(),
            authority: request.uri().authority().map(Authority::as_str),
            field: |name: &str| request.headers().get(name).map(HeaderValue::as_bytes),
            certificate: peer.certificate.as_deref(),
            is_tls: peer.is_tls,
            source: peer.guest.source(),
        };
        peer.heads.set(peer.heads.get().next());
        let has_two_ends = is_http1 && peer.heads.get().has_two_ends();
        let head = framing::check_head(request.headers(), has_two_ends);
        let is_clear = head.is_ok();
        let admitted = head
            .and_then(|()| route::admit(&self.app, &asked, |name| Arc::<str>::from(name)))
            .and_then(|name| framing::check_announced(&request, &self.app.settings).map(|()| name));
        let mut response = match admitted {
            Ok(name) => {
                let (source, activity) = (peer.guest.source(), Arc::clone(&peer.activity));
                let hearing = Arc::clone(&hearing);
                request.extensions_mut().insert(Caller { source, name, activity, hearing });
                let Ok(response) = self.router.clone().call(request).await;
                response
            }
            Err(problem) => problem.into_response(),
        };
        self.count(&response, &peer.guest, hearing.whole_at());
        peer.wire.answered();
        // Only what says otherwise may be kept by whoever passes it on: a decision never.
        response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        // Nobody knows where a request ends whose head is not clear.
        if is_http1 && (!is_clear || self.is_last(&response, peer)) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if is_plain && response.status() == StatusCode::OK && !self.app.is_draining() {
            peer.turn.set(Turn::Between);
        }
        response
    }

    /// Whether a connection ends with this answer. It does not while the server is to stop and
    /// more requests have come behind this one, which are answered too.
    fn is_last(&self, response: &Response<Body>, peer: &Peer) -> bool {
        let is_cut = matches!(
            response.status(),
            StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE
        );
        is_cut || (self.app.is_draining() && peer.wire.is_exhausted())
    }

    fn count(&self, response: &Response<Body>, guest: &Guest, whole_at: Moment) {
        let Counted { allowed, denied } = response.extensions().get().copied().unwrap_or_default();
        let is_refused = matches!(
            response.status(),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST
        );
        let is_mistake = response.status().is_client_error() && denied == 0;
        let ignored = u64::from(is_mistake && is_refused);
        let malformed = u64::from(is_mistake && !is_refused);
        let requests = 1 - ignored - malformed;
        guest.counters().add(&Counts { requests, allowed, denied, ignored, malformed });
        guest.counters().took(self.server_context.time.now().since(whole_at), 1);
    }
}

/// What the end of a connection means.
fn why(ended: Result<Result<(), Broken>, Failed>, wire: &Wire) -> Ended {
    match (ended, wire.failed()) {
        (Err(failed), _) | (Ok(Err(_)), Some(failed)) => failed.into(),
        (Ok(Err(Broken::Slow)), None) if wire.has_begun_more() => Ended::Slow,
        (Ok(Ok(()) | Err(Broken::Slow)), _) => Ended::Done,
        // The client left in the middle of something.
        (Ok(Err(Broken::Io)), None) if wire.has_ended() => Ended::Done,
        (Ok(Err(Broken::Io)), None) => Ended::Malformed,
    }
}

/// What is known of a connection, for each of its requests.
pub(super) struct Peer {
    pub(super) wire: Rc<Wire>,
    pub(super) guest: Rc<Guest>,
    pub(super) activity: Arc<Activity>,
    pub(super) certificate: Option<Arc<str>>,
    pub(super) is_tls: bool,
    /// Of a connection of HTTP/1.
    pub(super) turn: Cell<Turn>,
    pub(super) heads: Cell<Heads>,
}

/// A connection of which it is clear how it is spoken on.
struct Begun {
    io: Box<dyn Io>,
    is_http2: bool,
    is_tls: bool,
    /// The name in the client's certificate.
    certificate: Option<Arc<str>>,
}

pub(super) trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// Reads until it is clear which version of HTTP it is.
async fn begin(mut end: End) -> io::Result<Begun> {
    let is_http2 = end.begins_with(HTTP2_BEGINS).await?;
    Ok(Begun { io: Box::new(end), is_http2, is_tls: false, certificate: None })
}

async fn shake_hands(end: End, tls: Arc<ServerConfig>) -> io::Result<Begun> {
    let stream = TlsAcceptor::from(tls).accept(end).await?;
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.map(|it| tls::client_name(it).into());
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    Ok(Begun { io: Box::new(stream), is_http2, is_tls: true, certificate })
}

/// A connection of HTTP/2.
struct Http2<C>(C);

impl<C: Future<Output = hyper::Result<()>> + Unpin> Future for Http2<C> {
    type Output = Result<(), Broken>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(Broken::from)
    }
}

impl<I, S, E> Ending for Http2<http2::Connection<I, S, E>>
where
    http2::Connection<I, S, E>: Future<Output = hyper::Result<()>> + Unpin,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: hyper::service::HttpService<Incoming>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::ResBody: hyper::body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, S::ResBody>,
{
    fn end(mut self: Pin<&mut Self>) {
        Pin::new(&mut self.0).graceful_shutdown();
    }
}
