//! Letting clients in, for doors whose clients keep a connection.

use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ServerContext;
use super::admission::{Admission, Admitted};
use crate::counters::{Counters, WorkerCounters};

/// How long the server waits before it accepts again when it has run out of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where the connections of a door come in.
#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) name: &'static str,
    pub(crate) admission: Arc<Admission>,
    pub(crate) counters: Arc<Counters>,
}

/// A client that was let in. It counts as connected as long as this lives.
pub(crate) struct Guest {
    admitted: Admitted,
    counters: Arc<Counters>,
    worker: usize,
}

impl Guest {
    pub(crate) fn source(&self) -> IpAddr {
        self.admitted.source()
    }

    pub(crate) fn counters(&self) -> &WorkerCounters {
        self.counters.worker(self.worker)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.counters().closed();
    }
}

impl Entrance {
    /// Accepts connections, each to be served by `converse`, until the server is to stop; then
    /// waits for all of them to end. To be run in a `LocalSet`.
    pub(crate) async fn serve<F: Future<Output = ()> + 'static>(
        &self,
        listener: TcpListener,
        server_context: &ServerContext,
        worker: usize,
        converse: impl Fn(TcpStream, Guest) -> F,
    ) {
        let mut connections = JoinSet::new();
        let mut draining = pin!(server_context.draining());
        let admit = |stream: TcpStream, source, connections: &mut JoinSet<()>| {
            if let Some(guest) = self.admit(source, worker) {
                connections.spawn_local(converse(stream, guest));
            }
        };
        loop {
            tokio::select! {
                biased;
                () = &mut draining => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => admit(stream, peer.ip(), &mut connections),
                    Err(error) => self.cannot_accept(&error).await,
                },
            }
        }
        // Clients that are connected but not yet accepted may have sent their requests too. The
        // system is asked itself: the runtime may not have heard of them yet.
        if let Ok(listener) = listener.into_std() {
            while let Ok((stream, peer)) = listener.accept() {
                let stream =
                    stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                if let Ok(stream) = stream {
                    admit(stream, peer.ip(), &mut connections);
                }
            }
        }
        while connections.join_next().await.is_some() {}
    }

    fn admit(&self, source: IpAddr, worker: usize) -> Option<Guest> {
        let counters = self.counters.worker(worker);
        let Some(admitted) = self.admission.admit(source) else {
            counters.refused();
            tracing::debug!(door = self.name, %source, "connection refused");
            return None;
        };
        counters.accepted();
        Some(Guest { admitted, counters: Arc::clone(&self.counters), worker })
    }

    async fn cannot_accept(&self, error: &io::Error) {
        tracing::warn!(door = self.name, %error, "cannot accept a connection");
        sleep(ACCEPT_PAUSE).await;
    }
}
