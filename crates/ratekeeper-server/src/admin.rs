//! What is known of a running server, and what can be done to it besides asking.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use ratekeeper::{Moment, Nanos};
use tokio::sync::watch;

use crate::counters::Counters;
use crate::engine::{ReloadError, ServerEngine};
use crate::file_group::FileGroups;
use crate::files::{LoadError, Stamp};
use crate::http::{Keys, KeysError};
use crate::metrics::Metrics;
use crate::pressure::{Memory, Pressure};
use crate::reading::Place;
use crate::stats::Tries;
use crate::transport::{ServerContext, Time};

/// A wall clock that is off by less than this has drifted by itself. By more, somebody has set it.
pub(crate) const WALL_STEP_MIN: Nanos = Nanos::from_secs(1);

/// The one place that reloads and counts, for whoever asks: a signal, a timer, a door.
pub(crate) struct ServerAdmin {
    pub(crate) engine: Arc<ServerEngine>,
    pub(crate) time: Arc<dyn Time>,
    /// How long answers may be waited for, where buckets are elsewhere.
    pub(crate) patience: Duration,
    pub(crate) started: Started,
    listening: Vec<Listening>,
    keys: Arc<Keys>,
    /// Where what was spent is saved.
    pub(crate) state: Option<PathBuf>,
    drain: watch::Receiver<bool>,
    pub(crate) file_groups: FileGroups,
    reloading: Mutex<()>,
    pub(crate) reloads: Counted,
    pub(crate) saves: Counted,
    pub(crate) metrics: Metrics,
    pub(crate) pressure: Pressure,
}

/// When a server was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    /// By the clock of the buckets.
    pub(crate) at: Moment,
    /// By the wall clock.
    pub(crate) wall: Moment,
}

/// A door that is open.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub(crate) door: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Debug, Default)]
pub(crate) struct Counted {
    done: AtomicU64,
    failed: AtomicU64,
}

impl ServerAdmin {
    pub(crate) fn new(
        engine: Arc<ServerEngine>,
        server_context: ServerContext,
        started: Started,
        listening: Vec<Listening>,
        keys: Arc<Keys>,
        state: Option<PathBuf>,
        file_groups: FileGroups,
    ) -> Self {
        let ServerContext { time, drain, patience, .. } = server_context;
        Self {
            engine,
            time,
            patience,
            started,
            listening,
            keys,
            state,
            drain,
            file_groups,
            reloading: Mutex::default(),
            reloads: Counted::default(),
            saves: Counted::default(),
            metrics: Metrics::default(),
            pressure: Pressure::default(),
        }
    }

    /// Whether requests are answered, and will go on to be: not from when the end begins.
    pub(crate) fn is_ready(&self) -> bool {
        !*self.drain.borrow()
    }

    pub(crate) fn listening(&self) -> &[Listening] {
        &self.listening
    }

    /// Looks at who holds what of memory, and logs what began to be short of it or is no more.
    pub(crate) fn look_at_memory(&self) -> Memory {
        self.pressure.look(&self.engine, &*self.time)
    }

    /// Reads the files again. Refuses bad ones, and then the old ones go on.
    pub(crate) fn reload(&self) -> Result<(), ReloadError> {
        // One after the other, so that what was read later is in force later.
        let _only_one = self.reloading.lock();
        self.reloads.count(self.read_and_apply())
    }

    /// Each group of files is waited for by a thread of its own, so that a disk that hangs keeps only the
    /// files on it from taking effect.
    fn read_and_apply(&self) -> Result<(), ReloadError> {
        thread::scope(|scope| {
            let tokens = scope.spawn(|| self.reload_tokens());
            let certificates = scope.spawn(|| self.reload_certificates());
            let limits = self.reload_limits();
            let [tokens, certificates] = [tokens, certificates]
                .map(|done| done.join().unwrap_or_else(|_| Err(ReloadError::Panic)));
            ReloadError::both(ReloadError::both(limits, tokens), certificates)
        })
    }

    fn reload_limits(&self) -> Result<(), ReloadError> {
        // Before anything is locked: whoever changes an override does not wait for a disk.
        let read = Arc::clone(&self.engine);
        let texts = self
            .file_groups
            .limits
            .read(self.look_at_limits(), move |place| read.files().read(place))?;
        let loaded = self.engine.files().parse(&texts.map_err(LoadError::from)?)?;
        self.engine.reload(loaded, &*self.time)
    }

    fn reload_tokens(&self) -> Result<(), ReloadError> {
        let (group, keys) = (&self.file_groups.tokens, Arc::clone(&self.keys));
        let text = group.read(self.look_at_tokens(), move |place| keys.files().read_tokens(place));
        let text = text.map_err(KeysError::from).and_then(|text| Ok(text?));
        let applied = text.and_then(|text| self.keys.apply_tokens(text.as_ref()));
        applied.map_err(ReloadError::Tokens)
    }

    fn reload_certificates(&self) -> Result<(), ReloadError> {
        let (group, keys) = (&self.file_groups.certificates, Arc::clone(&self.keys));
        let texts =
            group.read(self.look_at_certificates(), move |place| keys.files().read_tls(place));
        let texts = texts.map_err(KeysError::from).and_then(|texts| Ok(texts?));
        let applied = texts.and_then(|texts| self.keys.apply_tls(texts.as_ref()));
        applied.map_err(ReloadError::Certificates)
    }

    /// Whether any file looks different from when it was read.
    pub(crate) fn has_changed_files(&self) -> bool {
        let FileGroups { limits, tokens, certificates } = &self.file_groups;
        // The one whose disk hangs comes to no answer, and holds up the others once.
        tokens.has_changed(self.look_at_tokens())
            || certificates.has_changed(self.look_at_certificates())
            || limits.has_changed(self.look_at_limits())
    }

    fn look_at_limits(&self) -> impl FnOnce(&Place) -> Stamp + Send + 'static {
        let engine = Arc::clone(&self.engine);
        move |place| engine.files().stamp(place)
    }

    fn look_at_tokens(&self) -> impl FnOnce(&Place) -> Stamp + Send + 'static {
        let keys = Arc::clone(&self.keys);
        move |place| keys.files().tokens_stamp(place)
    }

    fn look_at_certificates(&self) -> impl FnOnce(&Place) -> Stamp + Send + 'static {
        let keys = Arc::clone(&self.keys);
        move |place| keys.files().tls_stamp(place)
    }

    /// How long the server has been running.
    pub(crate) fn uptime(&self) -> Nanos {
        self.time.now().since(self.started.at)
    }

    /// When the server was started, in the time of people. Where the wall clock has been put right
    /// since, this is right too.
    pub(crate) fn started_wall(&self) -> Moment {
        let (said, computed) = (self.started.wall, self.time.wall().before(self.uptime()));
        let is_same = computed.since(said).max(said.since(computed)) <= WALL_STEP_MIN;
        if is_same { said } else { computed }
    }

    /// Whatever changes with what was spent, and with the limits: what is worth saving.
    pub(crate) fn changes(&self) -> u64 {
        let asked: u64 = self.listening.iter().map(|it| it.counters.stats().requests).sum();
        asked + self.engine.active_overrides.load().version
    }
}

impl Counted {
    pub(crate) fn count<T, E>(&self, result: Result<T, E>) -> Result<T, E> {
        let counter = if result.is_ok() { &self.done } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        result
    }

    pub(crate) fn tries(&self) -> Tries {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tries { done: load(&self.done), failed: load(&self.failed) }
    }
}
