use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::routing::get;
use hyper::body::Frame;
use ratekeeper::Clock;
use tokio::sync::{oneshot, watch};

use super::super::activity::Busy;
use super::super::connection::Caller;
use super::*;
use crate::settings::Settings;
use crate::worker;

const PATIENCE: Duration = Duration::from_secs(20);

/// A door that was not opened yet, served by one worker.
struct Closed {
    drain: watch::Sender<bool>,
    done: Receiver<()>,
    client: TcpStream,
}

fn serve(change: impl FnOnce(&mut Http)) -> Closed {
    let mut settings = Settings::default();
    settings.http.listen = Some(([127, 0, 0, 1], 0).into());
    (settings.udp.listen, settings.bucket.stream.listen) = (None, None);
    settings.throttr.stream.listen = None;
    settings.resp.listen = None;
    settings.workers = std::num::NonZeroUsize::new(1);
    let keys = Arc::new(Keys::open(&settings.http).unwrap());
    let mut listeners = DoorListeners::sockets(&settings, &keys).unwrap();
    let (drain, draining) = watch::channel(false);
    let (time, patience) = (Arc::new(Clock::start()), Duration::ZERO);
    let server_context = ServerContext { time, drain: draining, patience, lookout: None };
    let mut http = Http::new(&settings.http, &keys, &listeners, &server_context);
    change(&mut http);
    let listener = listeners.http.remove(0);
    let client = TcpStream::connect(listeners.listening[0].address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let (done, is_done) = channel();
    // The other doors never come.
    let (_, doors) = oneshot::channel();
    worker::start(0, None, Some((http, listener)), doors, server_context, done).unwrap();
    Closed { drain, done: is_done, client }
}

#[test]
fn before_it_is_opened_it_says_that_the_server_is_starting() {
    let Closed { drain, done, mut client } = serve(|_| ());
    client
        .write_all(b"GET /v1/gate/LoginsPerUser/ada HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    drain.send(true).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 1") && answer.contains("/api#starting"), "{answer}");
    done.recv_timeout(PATIENCE).unwrap();
}

/// Says one thing and then nothing more, for ever.
struct Endless {
    first: Option<Bytes>,
    _busy: Busy,
}

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.first.take().map_or(Poll::Pending, |it| Poll::Ready(Some(Ok(Frame::data(it)))))
    }
}

#[test]
fn an_answer_without_end_does_not_hold_the_end_up() {
    let endless = |Extension(caller): Extension<Caller>| async move {
        let first = Some(Bytes::from_static(b"hello"));
        axum::body::Body::new(Endless { first, _busy: caller.activity.busy() })
    };
    let Closed { drain, done, mut client } =
        serve(|http| http.router = Router::new().route("/", get(endless)));
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let clock = Clock::start();
    let started = clock.now();
    drain.send(true).unwrap();
    client.read_to_end(&mut answer).unwrap();
    drop(client);
    done.recv_timeout(PATIENCE).unwrap();
    let elapsed: Duration = clock.now().since(started).into();
    assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
}
