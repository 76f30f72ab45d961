//! An API that counts what arrives, and refuses the fifty-first in any second.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ratekeeper::{Clock, Moment, Nanos};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const LIMIT: usize = 50;
const WINDOW: Nanos = Nanos::from_secs(1);

/// The API, which lives on a thread of its own until this is dropped.
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    book: Arc<Book>,
    _stop: oneshot::Sender<()>,
}

struct Book {
    clock: Clock,
    began: Moment,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    accepted: Vec<Moment>,
    refused: usize,
}

impl Api {
    pub(crate) fn start() -> Self {
        let clock = Clock::start();
        let book = Book { clock, began: clock.now(), seen: Mutex::default() };
        let book = Arc::new(book);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let server = Arc::clone(&book);
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! { () = serve(listener, server) => {}, _ = stopped => {} }
            });
        });
        Self { address, book, _stop: stop }
    }

    /// How long it has been there.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        let elapsed = self.book.clock.now().since(self.book.began);
        u64::try_from(elapsed.get() / 1_000_000).unwrap()
    }

    /// How many it accepted in a stretch of time.
    pub(crate) fn accepted(&self, from_ms: u64, to_ms: u64) -> usize {
        let at = |ms: u64| self.book.began.after(Nanos::new(u128::from(ms) * 1_000_000));
        let seen = self.book.seen.lock().unwrap();
        seen.accepted.iter().filter(|&&it| it >= at(from_ms) && it < at(to_ms)).count()
    }

    /// How much of what it allows was used in a stretch of whole seconds. They may come all at once
    /// each second; so it is the mean of stretches that begin everywhere in the second before, and
    /// it does not matter where in it they come.
    pub(crate) fn used_percent(&self, from_ms: u64, to_ms: u64) -> f64 {
        const BEGINS: u64 = 20;
        let earlier = (0..BEGINS).map(|begin| begin * 1_000 / BEGINS);
        let used: usize = earlier.map(|ms| self.accepted(from_ms - ms, to_ms - ms)).sum();
        let allowed = u64::try_from(LIMIT).unwrap() * (to_ms - from_ms) / 1_000 * BEGINS;
        100.0 * f64::from(u32::try_from(used).unwrap()) / f64::from(u32::try_from(allowed).unwrap())
    }

    pub(crate) fn refused(&self) -> usize {
        self.book.seen.lock().unwrap().refused
    }
}

impl Book {
    fn count(&self) -> u16 {
        let mut seen = self.seen.lock().unwrap();
        let now = self.clock.now();
        let fiftieth = seen.accepted.len().checked_sub(LIMIT).map(|index| seen.accepted[index]);
        if fiftieth.is_some_and(|at| now.since(at) < WINDOW) {
            seen.refused += 1;
            return 429;
        }
        seen.accepted.push(now);
        200
    }
}

async fn serve(listener: TcpListener, book: Arc<Book>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let book = Arc::clone(&book);
        stream.set_nodelay(true).unwrap();
        connections.spawn(async move {
            let service = service_fn(|_| {
                let response = hyper::Response::builder().status(book.count());
                let response = response.body(Full::<Bytes>::default()).unwrap();
                async { Ok::<_, Infallible>(response) }
            });
            // A client that goes away in the middle is none of this one's business.
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
