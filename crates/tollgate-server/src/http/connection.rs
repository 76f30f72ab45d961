//! One connection, from its first byte to its last, and what is counted of its requests.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Request, Response, Version};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tollgate::Moment;
use tollgate_protocol::Counts;
use tower::Service;

use super::app::App;
use super::{route, tls};
use crate::transport::{Guest, Street};

/// What an HTTP/2 client sends first. No method of HTTP/1 begins so.
const HTTP2_BEGINS: &[u8] = b"PRI";
/// How many header fields a request may have.
const HEADER_FIELDS_MAX: usize = 100;
/// How many streams a client may reset before the server has looked at them, and how many the
/// server may have to reset itself, until the connection is ended.
const RESET_STREAMS_MAX: usize = 64;
/// A connection on which nothing comes for this long has nothing on its way.
const QUIET: Duration = Duration::from_millis(100);

/// Serves the connections of one worker.
pub(super) struct Connections {
    pub(super) app: Arc<App>,
    pub(super) router: Router,
    pub(super) street: Street,
}

/// Who is at the other end.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) source: IpAddr,
    /// Of the token or the certificate.
    pub(super) name: Arc<str>,
    /// Kept by whoever answers for longer than it takes to return.
    pub(super) activity: Arc<Activity>,
}

/// Whether a connection is being used, and since when it is not.
#[derive(Default)]
pub(super) struct Activity {
    in_hand: AtomicUsize,
    /// How many requests there have been.
    requests: AtomicU64,
}

/// A request that is being answered, as long as this lives.
pub(super) struct Busy(Arc<Activity>);

impl Activity {
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.in_hand.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    fn is_idle(&self) -> bool {
        self.in_hand.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.in_hand.fetch_sub(1, Ordering::Relaxed);
    }
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
trait Ending: Future {
    fn end(self: Pin<&mut Self>);
}

impl Connections {
    pub(super) async fn converse(self: Rc<Self>, stream: TcpStream, guest: Guest) {
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.app.settings.stall));
        let stream = Box::pin(stream);
        // Whoever says nothing in time, or nothing that is understood, has asked nothing.
        let begun = match self.app.keys.tls() {
            Some(tls) => timeout(self.app.settings.header_time, shake_hands(stream, tls)).await,
            None => timeout(self.app.settings.header_time, begin(stream)).await,
        };
        match begun {
            Ok(Ok(begun)) => self.speak(begun, Rc::new(guest)).await,
            Ok(Err(error)) => {
                tracing::debug!(source = %guest.source(), %error, "no HTTP was begun");
            }
            Err(_) => guest.counters().dropped(1),
        }
    }

    /// Answers requests until one side has enough.
    async fn speak(self: &Rc<Self>, begun: Begun, guest: Rc<Guest>) {
        let Begun { io, is_http2, is_tls, certificate } = begun;
        let activity = Arc::new(Activity::default());
        let peer = Rc::new(Peer { guest, activity: Arc::clone(&activity), certificate, is_tls });
        let this = Rc::clone(self);
        let service = service_fn(move |request: Request<Incoming>| {
            let (this, peer) = (Rc::clone(&this), Rc::clone(&peer));
            async move { Ok::<_, Infallible>(this.answer(request, &peer).await) }
        });
        let io = TokioIo::new(io);
        let settings = &self.app.settings;
        if is_http2 {
            let mut http2 = http2::Builder::new(Here);
            http2
                .timer(TokioTimer::new())
                .max_concurrent_streams(settings.streams)
                .max_header_list_size(settings.header_bytes)
                .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
                .max_local_error_reset_streams(RESET_STREAMS_MAX)
                .keep_alive_interval(settings.header_time)
                .keep_alive_timeout(settings.stall);
            self.see_through(http2.serve_connection(io, service), &activity).await;
        } else {
            let mut http1 = http1::Builder::new();
            http1
                .timer(TokioTimer::new())
                .header_read_timeout(settings.header_time)
                .max_headers(HEADER_FIELDS_MAX)
                .max_header_size(usize::try_from(settings.header_bytes).unwrap_or(usize::MAX))
                .pipeline_flush(true);
            self.see_through(http1.serve_connection(io, service), &activity).await;
        }
    }

    /// Runs a connection until it ends, the server is to stop, or nobody has used it for a while.
    async fn see_through(&self, connection: impl Ending, activity: &Activity) {
        let mut connection = std::pin::pin!(connection);
        let mut draining = std::pin::pin!(self.street.draining());
        let patience = self.app.settings.header_time;
        let mut used = activity.requests.load(Ordering::Relaxed);
        loop {
            tokio::select! {
                biased;
                _ = &mut connection => return,
                () = &mut draining => break,
                () = sleep(patience) => {
                    let now_used = activity.requests.load(Ordering::Relaxed);
                    if activity.is_idle() && now_used == used {
                        break;
                    }
                    used = now_used;
                }
            }
        }
        // What is on its way is heard before the end is told.
        loop {
            let used = activity.requests.load(Ordering::Relaxed);
            if timeout(QUIET, &mut connection).await.is_ok() {
                return;
            }
            if activity.requests.load(Ordering::Relaxed) == used {
                break;
            }
        }
        connection.as_mut().end();
        // A client that does not take its answers is not waited for.
        let _ = timeout(self.app.settings.stall, connection).await;
    }

    async fn answer(&self, mut request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let started = self.street.time.now();
        let _busy = peer.activity.busy();
        let is_http1 = request.version() <= Version::HTTP_11;
        let certificate = peer.certificate.as_deref();
        let mut response = match route::admit(&self.app, &request, certificate, peer.is_tls) {
            Ok(name) => {
                let (source, activity) = (peer.guest.source(), Arc::clone(&peer.activity));
                request.extensions_mut().insert(Caller { source, name, activity });
                let Ok(response) = self.router.clone().call(request).await;
                response
            }
            Err(problem) => problem.into_response(),
        };
        self.count(&response, &peer.guest, started);
        if is_http1 && self.app.is_draining() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn count(&self, response: &Response<Body>, guest: &Guest, started: Moment) {
        let Counted { allowed, denied } = response.extensions().get().copied().unwrap_or_default();
        let malformed = u64::from(response.status().is_client_error() && denied == 0);
        let counts = Counts { requests: 1, allowed, denied, malformed, ..Counts::default() };
        guest.counters().add(&counts);
        guest.counters().took(self.street.time.now().since(started), 1);
    }
}

/// What is known of a connection, for each of its requests.
struct Peer {
    guest: Rc<Guest>,
    activity: Arc<Activity>,
    certificate: Option<Arc<str>>,
    is_tls: bool,
}

/// A connection of which it is clear how it is spoken on.
struct Begun {
    io: Box<dyn Io>,
    is_http2: bool,
    is_tls: bool,
    /// The name in the client's certificate.
    certificate: Option<Arc<str>>,
}

trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

type Stream = Pin<Box<TimeoutStream<TcpStream>>>;

/// Reads until it is clear which version of HTTP it is.
async fn begin(mut stream: Stream) -> io::Result<Begun> {
    let mut bytes = Vec::with_capacity(HTTP2_BEGINS.len());
    while bytes != HTTP2_BEGINS && HTTP2_BEGINS.starts_with(&bytes) {
        bytes.push(stream.read_u8().await?);
    }
    let is_http2 = bytes == HTTP2_BEGINS;
    let (reader, writer) = tokio::io::split(stream);
    let io = tokio::io::join(io::Cursor::new(bytes).chain(reader), writer);
    Ok(Begun { io: Box::new(io), is_http2, is_tls: false, certificate: None })
}

async fn shake_hands(stream: Stream, tls: Arc<ServerConfig>) -> io::Result<Begun> {
    let stream = TlsAcceptor::from(tls).accept(stream).await?;
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.map(|it| tls::client_name(it).into());
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    Ok(Begun { io: Box::new(stream), is_http2, is_tls: true, certificate })
}

impl<I, S, E> Ending for http2::Connection<I, S, E>
where
    Self: Future,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: hyper::service::HttpService<Incoming>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::ResBody: hyper::body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, S::ResBody>,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S> Ending for http1::Connection<I, S>
where
    Self: Future,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: hyper::service::HttpService<Incoming>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::ResBody: hyper::body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
