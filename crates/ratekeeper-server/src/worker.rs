//! A worker: a thread that serves its own socket of every door.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ratekeeper_protocol::{bucket, resp, throttr, udp};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use crate::http::Http;
use crate::polling::{Lookout, polling};
use crate::transport::{Datagrams, ServerContext, Streams};

/// What a worker serves besides HTTP.
#[derive(Default)]
pub(crate) struct Doors {
    pub(crate) udp: Option<(Datagrams<udp::Door>, UdpSocket)>,
    pub(crate) bucket: Option<(Streams<bucket::Door>, TcpListener)>,
    pub(crate) throttr: Option<(Streams<throttr::Door>, TcpListener)>,
    pub(crate) resp: Option<(Streams<resp::Door>, TcpListener)>,
}

/// Starts a worker, which serves HTTP at once and the other doors when they come, and says on `done`
/// when it has ended. With `poll`, it looks that long for more requests before it sleeps.
pub(crate) fn start(
    index: usize,
    poll: Option<Duration>,
    http: Option<(Http, TcpListener)>,
    doors: oneshot::Receiver<Doors>,
    server_context: ServerContext,
    done: Sender<()>,
) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(format!("worker {index}")).spawn(move || {
        let time = Arc::clone(&server_context.time);
        let lookout = poll.map(|length| Arc::new(Lookout::new(length.into())));
        let server_context = ServerContext { lookout: lookout.clone(), ..server_context };
        let tasks = LocalSet::new();
        let serving = tasks.run_until(serve(index, http, doors, server_context));
        let served = match &lookout {
            Some(lookout) => runtime.block_on(polling(serving, lookout, || time.now())),
            None => runtime.block_on(serving),
        };
        if let Err(error) = served {
            tracing::error!(worker = index, %error, "the worker cannot use its sockets");
        }
        // Who waits for it may be gone.
        let _ = done.send(());
    })?;
    Ok(())
}

async fn serve(
    index: usize,
    http: Option<(Http, TcpListener)>,
    doors: oneshot::Receiver<Doors>,
    server_context: ServerContext,
) -> io::Result<()> {
    let mut open = JoinSet::new();
    if let Some((http, listener)) = http {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        open.spawn_local(http.serve(listener, server_context.clone(), index));
    }
    // If they never come, the server could not start, and is going away.
    let doors = doors.await.unwrap_or_default();
    if let Some((datagrams, socket)) = doors.udp {
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        open.spawn_local(datagrams.serve(socket, server_context.clone(), index));
    }
    if let Some((streams, listener)) = doors.bucket {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        open.spawn_local(streams.serve(listener, server_context.clone(), index));
    }
    if let Some((streams, listener)) = doors.throttr {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        open.spawn_local(streams.serve(listener, server_context.clone(), index));
    }
    if let Some((streams, listener)) = doors.resp {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        open.spawn_local(streams.serve(listener, server_context.clone(), index));
    }
    while let Some(ended) = open.join_next().await {
        if !server_context.is_draining() {
            // A bug. The other doors go on; a supervisor should hear of it.
            tracing::error!(worker = index, ?ended, "a door has closed");
        }
    }
    Ok(())
}
