//! A running server: its house, its sockets, its workers.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing_appender::non_blocking::WorkerGuard;

use crate::counters::Counters;
use crate::files::{Files, LoadError, Stamp};
use crate::house::{House, ReloadError, Shares, Stores};
use crate::metrics::Metrics;
use crate::readings::{Attempts, Listening, Readings};
use crate::seen::{Door, Observatory};
use crate::settings::{Settings, StreamSettings};
use crate::state::{StateDir, StateError};
use crate::stats::Stats;
use crate::transport::{
    self, Admission, Datagrams, ListenError, RequestLog, Streams, Street, Time,
};
use crate::worker::{self, Doors};

/// A server that answers until it is drained.
pub struct Server {
    house: Arc<House>,
    /// What the files looked like when they were read at the start.
    loaded_stamp: Stamp,
    time: Arc<dyn Time>,
    readings: Arc<Readings>,
    drain: watch::Sender<bool>,
    /// Only the end looks at it.
    workers_done: Mutex<Receiver<()>>,
    workers: usize,
    /// Dropped last: it writes the lines that wait.
    request_log: Option<WorkerGuard>,
    state: Option<StateDir>,
    /// How many requests and reloads there had been at the last save, and one more.
    saved_changes: AtomicU64,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum StartError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("reserving {bytes} bytes of memory for buckets; set --memory")]
    Memory { bytes: usize, source: std::io::Error },
    #[error("starting a thread")]
    Thread(#[source] std::io::Error),
    #[error("every door is off: open one with --udp, --bucket or --throttr")]
    NoDoor,
}

impl Server {
    /// Reads the files, opens the doors and starts to answer. Refuses settings that cannot work.
    pub fn start(settings: &Settings, time: Arc<dyn Time>) -> Result<Self, StartError> {
        allow_many_files();
        let files = Files::new(settings);
        // Before they are read: what changes from here on is seen to have changed.
        let loaded_stamp = files.stamp();
        let loaded = files.load()?;
        let limits = &loaded.limits;
        let (shares, started) = (Shares::new(settings.memory), time.now());
        let state = settings.state.as_deref().map(StateDir::open).transpose()?;
        let restored = match &state {
            Some(state) => state.restore(limits, shares, started)?,
            None => None,
        };
        let stores = match restored {
            Some(stores) => stores,
            None => Stores::new(limits.clone(), shares)
                .map_err(|source| StartError::Memory { bytes: settings.memory, source })?,
        };
        let mut opening = Opening::new(settings);
        let observatory = Arc::new(Observatory::new(opening.workers));
        let house = House::new(settings, files, loaded, stores, observatory, started);
        let house = Arc::new(house);
        let (drain, draining) = watch::channel(false);
        let street = Street { time: Arc::clone(&time), drain: draining.clone() };
        let (doors, request_log) = opening.open(settings, &house)?;
        let readings = Arc::new(Readings {
            house: Arc::clone(&house),
            time: Arc::clone(&time),
            started,
            listening: opening.listening,
            state: state.as_ref().map(|state| state.folder().to_owned()),
            draining,
            reloads: Attempts::default(),
            saves: Attempts::default(),
            metrics: Metrics::default(),
        });
        let workers = doors.len();
        let (done, workers_done) = channel();
        for (index, doors) in doors.into_iter().enumerate() {
            worker::start(index, doors, street.clone(), done.clone())
                .map_err(StartError::Thread)?;
        }
        Ok(Self {
            house,
            loaded_stamp,
            time,
            readings,
            drain,
            workers_done: Mutex::new(workers_done),
            workers,
            request_log,
            state,
            saved_changes: AtomicU64::new(0),
        })
    }

    /// The doors that are open, and where.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.readings.listening.iter().map(|it| (it.door.name(), it.address))
    }

    /// Where a door listens, if it is open.
    pub fn address(&self, door: &str) -> Option<SocketAddr> {
        self.addresses().find(|(name, _)| *name == door).map(|(_, address)| address)
    }

    /// Reads the files again. Refuses bad ones, and then the old ones go on.
    pub fn reload(&self) -> Result<(), ReloadError> {
        self.readings.reloads.count(self.house.reload(|| self.time.now()))
    }

    /// Saves what was spent, if there is a place for it.
    pub fn save(&self) -> Result<(), StateError> {
        match &self.state {
            Some(state) => {
                let saved = state.save(&self.house.stores, self.time.now());
                self.readings.saves.count(saved)
            }
            None => Ok(()),
        }
    }

    /// Saves, unless nobody has asked anything since the last time.
    pub(crate) fn save_if_changed(&self) -> Result<(), StateError> {
        let changes = self.readings.requests() + self.readings.reloads.tries().done + 1;
        if self.saved_changes.load(Ordering::Relaxed) == changes {
            return Ok(());
        }
        self.save()?;
        // As they were before it began: what came meanwhile may not be in it.
        self.saved_changes.store(changes, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn loaded_stamp(&self) -> &Stamp {
        &self.loaded_stamp
    }

    pub(crate) fn files(&self) -> &Files {
        self.house.files()
    }

    /// What was counted so far.
    pub fn stats(&self) -> Stats {
        self.readings.stats()
    }

    /// The same for Prometheus, in the text format of `OpenMetrics`.
    pub fn metrics(&self) -> String {
        self.readings.metrics()
    }

    #[cfg(test)]
    pub(crate) fn readings(&self) -> &Readings {
        &self.readings
    }

    /// Stops: nobody new is let in, what was received is answered, what was spent is saved. Takes
    /// no longer than about `bound`, and returns whether everybody was done by then.
    pub fn drain(mut self, bound: Duration) -> Result<bool, StateError> {
        let _ = self.drain.send(true);
        let until = self.time.now().after(bound.into());
        let mut is_done = true;
        for _ in 0..self.workers {
            let left = until.since(self.time.now()).into();
            match self.workers_done.get_mut().recv_timeout(left) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => is_done = false,
            }
        }
        self.save()?;
        drop(self.request_log.take());
        Ok(is_done)
    }
}

/// The doors while they are being opened.
struct Opening {
    workers: usize,
    listening: Vec<Listening>,
}

impl Opening {
    fn new(settings: &Settings) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let workers = settings.workers.map_or_else(cores, usize::from);
        Self { workers, listening: Vec::new() }
    }

    /// Opens every door that is not off; returns what each worker serves.
    fn open(
        &mut self,
        settings: &Settings,
        house: &House,
    ) -> Result<(Vec<Doors>, Option<WorkerGuard>), StartError> {
        let mut workers: Vec<Doors> = (0..self.workers).map(|_| Doors::default()).collect();
        let mut request_log = None;
        if let Some(address) = settings.udp.listen {
            let allow = &settings.udp.allow;
            let opened = transport::udp(Door::Udp.name(), address, allow, self.workers)?;
            let counters = self.listens(Door::Udp, opened.address);
            if address.ip().is_unspecified() {
                tracing::warn!(
                    %address,
                    "answers leave from the address that the system prefers: on a machine with \
                     several, listen on the one that clients ask"
                );
            }
            let (log, guard) = settings.udp.log_requests.then(RequestLog::start).unzip();
            request_log = guard;
            let (door, allow) = (Arc::clone(&house.udp), allow.clone());
            let datagrams = Datagrams { name: Door::Udp.name(), door, allow, counters, log };
            for (worker, socket) in workers.iter_mut().zip(opened.sockets) {
                worker.udp = Some((datagrams.clone(), socket));
            }
        }
        let bucket = self.open_stream(Door::Bucket, &house.bucket, &settings.bucket.stream)?;
        for (worker, open) in workers.iter_mut().zip(bucket) {
            worker.bucket = Some(open);
        }
        let throttr = self.open_stream(Door::Throttr, &house.throttr, &settings.throttr.stream)?;
        for (worker, open) in workers.iter_mut().zip(throttr) {
            worker.throttr = Some(open);
        }
        if self.listening.is_empty() { Err(StartError::NoDoor) } else { Ok((workers, request_log)) }
    }

    fn open_stream<D>(
        &mut self,
        name: Door,
        door: &Arc<D>,
        settings: &StreamSettings,
    ) -> Result<Vec<(Streams<D>, TcpListener)>, StartError> {
        let Some(address) = settings.listen else { return Ok(Vec::new()) };
        let opened = transport::tcp(name.name(), address, &settings.allow, self.workers)?;
        let streams = Streams {
            name: name.name(),
            door: Arc::clone(door),
            admission: Arc::new(Admission::new(settings)),
            counters: self.listens(name, opened.address),
            settings: settings.clone(),
        };
        Ok(opened.sockets.into_iter().map(|socket| (streams.clone(), socket)).collect())
    }

    fn listens(&mut self, door: Door, address: SocketAddr) -> Arc<Counters> {
        let counters = Arc::new(Counters::new(self.workers));
        self.listening.push(Listening { door, address, counters: Arc::clone(&counters) });
        counters
    }
}

/// Every connection is a file. As many as the system lets us have, we take.
fn allow_many_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        tracing::debug!(%error, "cannot raise the number of open files");
    }
}
