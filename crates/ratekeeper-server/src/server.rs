//! A running server: its engine, its sockets, its workers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use parking_lot::Mutex;
use ratekeeper::limiter::AlreadyShared;
use ratekeeper::store::saved::SavedClocks;
use ratekeeper_redis::{Shared, SharedError, Tls};
use tokio::sync::{oneshot, watch};
use tracing_appender::non_blocking::WorkerGuard;

use crate::admin::{ServerAdmin, Started};
use crate::engine::{ReloadError, ServerEngine, Shares, Stores};
use crate::file_group::FileGroups;
use crate::files::{Files, LoadError, Loaded};
use crate::http::{Http, KeyFiles, Keys, KeysError};
use crate::listeners::DoorListeners;
use crate::observe::DecisionObserver;
use crate::overrides::ActiveOverrides;
use crate::reading::{Place, READ_TIME_MAX, Unread};
use crate::settings::{Settings, StoreSettings};
use crate::state::{StateDir, StateError};
use crate::stats::Stats;
use crate::store_files::read_tls;
use crate::transport::{ListenError, ServerContext, Time};
use crate::worker;

/// A server that answers until it is drained.
pub struct Server {
    admin: Arc<ServerAdmin>,
    drain: watch::Sender<bool>,
    /// Only the end looks at it.
    workers_done: Mutex<Receiver<()>>,
    workers: usize,
    /// Dropped last: it writes the lines that wait.
    request_log: Option<WorkerGuard>,
    /// Not a part of [`ServerAdmin`], which doors hold: it is ours until the server is gone, and no longer.
    state: Option<StateDir>,
    /// How many changes there had been at the last save, and one more.
    saved_changes: AtomicU64,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum StartError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("reading a certificate or key of the store from {}", path.display())]
    StoreFile { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("reserving {bytes} bytes of memory for buckets; set --memory")]
    Memory { bytes: usize, source: std::io::Error },
    #[error("starting a thread")]
    Thread(#[source] std::io::Error),
    #[error("opening the store")]
    Store(#[from] SharedError),
    #[error(transparent)]
    Shared(#[from] AlreadyShared),
    #[error(
        "a certificate for the store needs its key, and a key its certificate: set --store-cert and --store-key"
    )]
    StoreKey,
    #[error("every door is off: open one with --http, --udp, --bucket, --throttr or --resp")]
    NoDoor,
}

impl Server {
    /// Reads the files, opens the doors and starts to answer. Refuses settings that cannot work.
    ///
    /// The HTTP door opens first, and says that the server is not ready until what was spent is
    /// restored; the others are served then.
    pub fn start(settings: &Settings, time: Arc<dyn Time>) -> Result<Self, StartError> {
        allow_many_files();
        let file_groups = FileGroups::start(READ_TIME_MAX).map_err(StartError::Thread)?;
        let Read { files, loaded, keys, store } = read(settings, &file_groups)?;
        let state = settings.state.as_deref().map(StateDir::open).transpose()?;
        let time = match &state {
            Some(state) => state.resume(time)?,
            None => time,
        };
        let started = Started { at: time.now(), wall: time.wall() };
        let mut listeners = DoorListeners::sockets(settings, &keys)?;
        let (drain, draining) = watch::channel(false);
        let patience = ratekeeper_redis::patience(settings.store.timeout);
        let server_context = ServerContext { time, drain: draining, patience, lookout: None };
        let http = Http::new(&settings.http, &keys, &listeners, &server_context);
        let (done, workers_done) = channel();
        let mut waiting = Vec::new();
        let mut http_listeners = std::mem::take(&mut listeners.http).into_iter();
        for index in 0..listeners.workers {
            let http = http_listeners.next().map(|listener| (http.clone(), listener));
            let (doors, when_open) = oneshot::channel();
            worker::start(
                index,
                settings.poll,
                http,
                when_open,
                server_context.clone(),
                done.clone(),
            )
            .map_err(StartError::Thread)?;
            waiting.push(doors);
        }
        let observer = Arc::new(DecisionObserver::new(listeners.workers));
        let files = (files, loaded, store);
        let engine = furnish(settings, files, state.as_ref(), started, observer, &keys)?;
        engine.expire_overrides(started.wall, &*server_context.time);
        let engine = Arc::new(engine);
        let (doors, request_log) = listeners.doors(settings, &engine);
        let workers = listeners.workers;
        let folder = state.as_ref().map(|state| state.folder().to_owned());
        let admin = ServerAdmin::new(
            engine,
            server_context,
            started,
            listeners.listening,
            keys,
            folder,
            file_groups,
        );
        let admin = Arc::new(admin);
        http.open(&admin);
        for (waiting, doors) in waiting.into_iter().zip(doors) {
            // A worker that is gone has said why.
            let _ = waiting.send(doors);
        }
        let workers_done = Mutex::new(workers_done);
        let saved_changes = AtomicU64::new(0);
        Ok(Self { admin, drain, workers_done, workers, request_log, state, saved_changes })
    }

    /// The doors that are open, and where.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.admin.listening().iter().map(|it| (it.door, it.address))
    }

    /// Where a door listens, if it is open.
    pub fn address(&self, door: &str) -> Option<SocketAddr> {
        self.addresses().find(|(name, _)| *name == door).map(|(_, address)| address)
    }

    /// Reads the files again. Refuses bad ones, and then the old ones go on.
    pub fn reload(&self) -> Result<(), ReloadError> {
        self.admin.reload()
    }

    /// Saves what was spent, if there is a place for it.
    pub fn save(&self) -> Result<(), StateError> {
        let ServerAdmin { engine, time, saves, .. } = &*self.admin;
        let clocks = SavedClocks { buckets: time.now(), wall: time.wall() };
        match &self.state {
            Some(state) => saves.count(state.save(&engine.stores, clocks)),
            None => Ok(()),
        }
    }

    /// Saves, unless nothing has changed since the last time.
    pub(crate) fn save_if_changed(&self) -> Result<(), StateError> {
        let changes = self.admin.changes() + 1;
        if self.saved_changes.load(Ordering::Relaxed) == changes {
            return Ok(());
        }
        self.save()?;
        // As they were before it began: what came meanwhile may not be in it.
        self.saved_changes.store(changes, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn engine(&self) -> &ServerEngine {
        &self.admin.engine
    }

    pub(crate) fn time(&self) -> &dyn Time {
        &*self.admin.time
    }

    /// Whether a file looks different from when it was read.
    pub(crate) fn has_changed_files(&self) -> bool {
        self.admin.has_changed_files()
    }

    /// Lets everybody go who waits for a file to be read.
    pub(crate) fn stop_reading(&self) {
        self.admin.file_groups.stop();
    }

    /// What was counted so far.
    pub fn stats(&self) -> Stats {
        self.admin.stats()
    }

    /// The same for Prometheus, in the text format of `OpenMetrics`.
    pub fn metrics(&self) -> String {
        self.admin.metrics()
    }

    /// Looks at who holds what of memory, and logs what began to be short of it or is no more.
    pub(crate) fn look_at_memory(&self) {
        self.admin.look_at_memory();
    }

    #[cfg(test)]
    pub(crate) fn admin(&self) -> &ServerAdmin {
        &self.admin
    }

    /// Stops: nobody new is let in, what was received is answered, what was spent is saved. Takes
    /// no longer than about `bound`, and returns whether everybody was done by then.
    pub fn drain(mut self, bound: Duration) -> Result<bool, StateError> {
        let _ = self.drain.send(true);
        let time = &self.admin.time;
        let until = time.now().after(bound.into());
        let mut is_done = true;
        for _ in 0..self.workers {
            let left = until.since(time.now()).into();
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

/// What was read at the start.
struct Read {
    files: Files,
    loaded: Loaded,
    keys: Arc<Keys>,
    /// The store that is shared, if one is. Nothing is connected yet.
    store: Option<Shared>,
}

/// Reads all files, each on the thread of its group, and parses them here.
fn read(settings: &Settings, groups: &FileGroups) -> Result<Read, StartError> {
    let files = Files::new(settings);
    let (look, texts) = (files.clone(), files.clone());
    let look = move |place: &Place| look.stamp(place);
    let texts = groups.limits.read(look, move |place| texts.read(place))?;
    let loaded = files.parse(&texts.map_err(LoadError::from)?)?;

    let key_files = KeyFiles::new(&settings.http)?;
    let (look, read) = (key_files.clone(), key_files.clone());
    let look = move |place: &Place| look.tokens_stamp(place);
    let tokens = groups.tokens.read(look, move |place| read.read_tokens(place))?;
    let (look, read) = (key_files.clone(), key_files.clone());
    let look = move |place: &Place| look.tls_stamp(place);
    let tls = groups.certificates.read(look, move |place| read.read_tls(place))?;
    let (tokens, tls) = (tokens.map_err(KeysError::from)?, tls.map_err(KeysError::from)?);
    let keys = Arc::new(Keys::new(&settings.http, key_files, tokens.as_ref(), tls.as_ref())?);

    let store = settings.store.clone();
    let store_tls = groups.certificates.run(move |place| read_tls(&store, place))??;
    let store = shared(&settings.store, store_tls)?;
    Ok(Read { files, loaded, keys, store })
}

/// The engine, with what was spent before the server was last stopped.
fn furnish(
    settings: &Settings,
    (files, loaded, store): (Files, Loaded, Option<Shared>),
    state: Option<&StateDir>,
    started: Started,
    observer: Arc<DecisionObserver>,
    keys: &Arc<Keys>,
) -> Result<ServerEngine, StartError> {
    let Loaded { limits, rules } = loaded;
    let shares = Shares::new(settings.memory);
    let active_overrides =
        ActiveOverrides::open(limits, state.map(StateDir::folder), started.wall)?;
    let limits = Arc::clone(&active_overrides.load().limits);
    let restored = match state {
        Some(state) => state.restore(&limits, shares, started)?,
        None => None,
    };
    let mut stores = match restored {
        Some(stores) => stores,
        None => Stores::new((*limits).clone(), shares)
            .map_err(|source| StartError::Memory { bytes: settings.memory, source })?,
    };
    if let Some(shared) = store {
        stores.share(shared, started.at)?;
    }
    Ok(ServerEngine::new(settings, files, active_overrides, rules, stores, observer, keys))
}

/// The store that is shared, if one is.
fn shared(settings: &StoreSettings, tls: Tls) -> Result<Option<Shared>, StartError> {
    let Some(address) = settings.address.clone() else { return Ok(None) };
    Ok(Some(Shared::new(address, tls, settings.timeout)?))
}

/// Every connection is a file. As many as the system lets us have, we take.
fn allow_many_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        tracing::debug!(%error, "cannot raise the number of open files");
    }
}
