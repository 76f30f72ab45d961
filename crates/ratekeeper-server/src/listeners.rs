//! Opening the doors: first their sockets, then, once there is an engine, what serves them.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use tracing_appender::non_blocking::WorkerGuard;

use crate::admin::Listening;
use crate::counters::Counters;
use crate::engine::ServerEngine;
use crate::http::{self, Keys};
use crate::server::StartError;
use crate::settings::{Settings, StreamSettings};
use crate::transport::{self, Admission, Datagrams, Entrance, RequestLog, Streams};
use crate::worker::Doors;

/// The sockets of all doors that are not off, one per worker and door.
pub(crate) struct DoorListeners {
    pub(crate) workers: usize,
    pub(crate) listening: Vec<Listening>,
    udp: Vec<UdpSocket>,
    bucket: Vec<TcpListener>,
    throttr: Vec<TcpListener>,
    resp: Vec<TcpListener>,
    pub(crate) http: Vec<TcpListener>,
}

impl DoorListeners {
    /// Opens the sockets. Refuses addresses that are taken, or that anybody could reach.
    pub(crate) fn sockets(settings: &Settings, keys: &Keys) -> Result<Self, StartError> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = settings.workers.map_or_else(cores, usize::from);
        let listening = Vec::new();
        let (udp, http) = (Vec::new(), Vec::new());
        let (bucket, throttr, resp) = (Vec::new(), Vec::new(), Vec::new());
        let mut listeners = Self { workers, listening, udp, bucket, throttr, resp, http };
        if let Some(address) = settings.http.listen {
            http::check_exposure(address, keys.has_tokens(), settings.http.client_ca.is_some())?;
            let opened = transport::guarded_tcp("http", address, workers)?;
            listeners.listens("http", opened.address);
            listeners.http = opened.sockets;
        }
        if let Some(address) = settings.udp.listen {
            let opened = transport::udp("udp", address, &settings.udp.allow, workers)?;
            listeners.listens("udp", opened.address);
            listeners.udp = opened.sockets;
            if address.ip().is_unspecified() {
                tracing::warn!(
                    %address,
                    "answers leave from the address that the system prefers: on a machine with \
                     several, listen on the one that clients ask"
                );
            }
        }
        listeners.bucket = listeners.streams("bucket", &settings.bucket.stream, false)?;
        listeners.throttr = listeners.streams("throttr", &settings.throttr.stream, false)?;
        listeners.resp = listeners.streams("resp", &settings.resp, keys.has_tokens())?;
        if listeners.listening.is_empty() { Err(StartError::NoDoor) } else { Ok(listeners) }
    }

    fn streams(
        &mut self,
        name: &'static str,
        settings: &StreamSettings,
        is_guarded: bool,
    ) -> Result<Vec<TcpListener>, StartError> {
        let Some(address) = settings.listen else { return Ok(Vec::new()) };
        let opened = if is_guarded {
            transport::guarded_tcp(name, address, self.workers)?
        } else {
            transport::tcp(name, address, &settings.allow, self.workers)?
        };
        self.listens(name, opened.address);
        Ok(opened.sockets)
    }

    fn listens(&mut self, door: &'static str, address: SocketAddr) {
        let counters = Arc::new(Counters::new(self.workers));
        self.listening.push(Listening { door, address, counters });
    }

    /// What counts for a door; one of its own for a door that is off.
    pub(crate) fn counters(&self, door: &str) -> Arc<Counters> {
        let found = self.listening.iter().find(|it| it.door == door);
        found.map_or_else(|| Arc::new(Counters::new(1)), |it| Arc::clone(&it.counters))
    }

    /// What each worker serves besides HTTP, now that there is an engine.
    pub(crate) fn doors(
        &mut self,
        settings: &Settings,
        engine: &ServerEngine,
    ) -> (Vec<Doors>, Option<WorkerGuard>) {
        let mut workers: Vec<Doors> = (0..self.workers).map(|_| Doors::default()).collect();
        let is_logged = settings.udp.log_requests && !self.udp.is_empty();
        let (log, guard) = is_logged.then(|| RequestLog::start(settings.log.json)).unzip();
        let datagrams = Datagrams {
            name: "udp",
            door: Arc::clone(&engine.udp),
            allow: settings.udp.allow.clone(),
            counters: self.counters("udp"),
            log,
        };
        for (worker, socket) in workers.iter_mut().zip(std::mem::take(&mut self.udp)) {
            worker.udp = Some((datagrams.clone(), socket));
        }
        let streams = self.entrance("bucket", &engine.bucket, &settings.bucket.stream);
        for (worker, socket) in workers.iter_mut().zip(std::mem::take(&mut self.bucket)) {
            worker.bucket = Some((streams.clone(), socket));
        }
        let streams = self.entrance("throttr", &engine.throttr, &settings.throttr.stream);
        for (worker, socket) in workers.iter_mut().zip(std::mem::take(&mut self.throttr)) {
            worker.throttr = Some((streams.clone(), socket));
        }
        let streams = self.entrance("resp", &engine.resp, &settings.resp);
        for (worker, socket) in workers.iter_mut().zip(std::mem::take(&mut self.resp)) {
            worker.resp = Some((streams.clone(), socket));
        }
        (workers, guard)
    }

    fn entrance<D>(
        &self,
        name: &'static str,
        door: &Arc<D>,
        settings: &StreamSettings,
    ) -> Streams<D> {
        let StreamSettings { allow, connections, connections_per_source, .. } = settings;
        let admission = Arc::new(Admission::new(allow, *connections, *connections_per_source));
        let entrance = Entrance { name, admission, counters: self.counters(name) };
        Streams { door: Arc::clone(door), entrance, settings: settings.clone() }
    }
}
