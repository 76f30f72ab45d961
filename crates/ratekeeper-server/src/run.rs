//! The life of the process: signals, changed files, saving, and the end.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ratekeeper::{Clock, Moment};
use ratekeeper_redis::Shared;
use sd_notify::NotifyState;
use tokio::net::UnixStream;
use tokio::runtime::{self, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet, LocalSet, spawn_blocking, spawn_local};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::control::{self, Control};
use crate::server::{Server, StartError};
use crate::settings::Settings;
use crate::state::StateError;

/// How long the look at a shared store may take.
const STORE_CHECK_MAX: Duration = Duration::from_secs(5);
/// How late an override may end, and how often the server looks at who holds what of memory.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(1);
/// How long the last save may take, when the server stops.
const SAVE_TIME_MAX: Duration = Duration::from_mins(1);

/// Why a server ended, other than because it was asked to.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum RunError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("listening for signals")]
    Signals(#[source] io::Error),
    #[error("saving what was spent")]
    Save(#[source] StateError),
    #[error(
        "a disk does not answer, so what was spent last is not saved: see whether its device does"
    )]
    Stuck,
    #[error("something still uses the server, so it cannot be drained: this is a bug")]
    Held,
}

/// Runs a server until it is told to stop. `announce` is told what is open, once all of it is.
pub fn run(settings: &Settings, announce: impl FnOnce(&Server)) -> Result<(), RunError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(RunError::Signals)?;
    let result = run_inside(&runtime, settings, announce);
    // A thread that hangs on a disk is not waited for.
    runtime.shutdown_background();
    result
}

fn run_inside(
    runtime: &Runtime,
    settings: &Settings,
    announce: impl FnOnce(&Server),
) -> Result<(), RunError> {
    // From here on a signal is not lost, however early it comes.
    let mut signals = {
        let _inside = runtime.enter();
        Signals::new().map_err(RunError::Signals)?
    };
    let Some(server) = runtime.block_on(start(settings, &mut signals))? else { return Ok(()) };
    let server = Arc::new(server);
    announce(&server);
    tell_supervisor(&[NotifyState::Ready]);
    let is_over = LocalSet::new().block_on(runtime, live(settings, Arc::clone(&server), signals));

    tell_supervisor(&[NotifyState::Stopping]);
    tracing::info!("stopping: answering what was received");
    if !is_over {
        return Err(RunError::Stuck);
    }
    // All that used it has ended. Were it not so, the state would end unsaved, and that is a bug.
    let Some(server) = Arc::into_inner(server) else { return Err(RunError::Held) };
    if runtime.block_on(drain(settings.drain, server))? {
        tracing::info!("stopped");
    } else {
        tracing::warn!(bound = ?settings.drain, "stopped, although some clients still waited");
    }
    Ok(())
}

/// Starts a server, on a thread of its own: what it reads may be on a disk that hangs, and the process
/// can be stopped meanwhile. None if it was.
async fn start(settings: &Settings, signals: &mut Signals) -> Result<Option<Server>, RunError> {
    let patience = settings.drain;
    let settings = settings.clone();
    let starting = move || Server::start(&settings, Arc::new(Clock::start()));
    start_unless_stopped(starting, patience, signals).await
}

/// Does what starts a server, and drains it again if the process is to end meanwhile. It is not waited
/// for longer than `patience` then.
async fn start_unless_stopped(
    starting: impl FnOnce() -> Result<Server, StartError> + Send + 'static,
    patience: Duration,
    signals: &mut Signals,
) -> Result<Option<Server>, RunError> {
    let mut starting = on_a_thread("start", starting)?;
    tokio::select! {
        started = &mut starting => {
            return Ok(Some(started.map_err(|_| RunError::Held)??));
        }
        () = signals.end() => {}
    }
    tracing::info!("stopping, although the server has not started yet");
    // It may have let somebody in already. One that still hangs has not, and nothing is lost with it.
    if let Ok(Ok(Ok(server))) = timeout(patience, starting).await {
        drain(patience, server).await?;
    }
    Ok(None)
}

/// Stops a server. Fails also where its disk does not answer.
async fn drain(bound: Duration, server: Server) -> Result<bool, RunError> {
    let drained = on_a_thread("drain", move || server.drain(bound))?;
    match timeout(bound.saturating_add(SAVE_TIME_MAX), drained).await {
        Ok(Ok(is_done)) => is_done.map_err(RunError::Save),
        Ok(Err(_)) => Err(RunError::Held),
        Err(_) => Err(RunError::Stuck),
    }
}

/// Does something on a thread that nobody has to wait for.
fn on_a_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>, RunError> {
    let (done, when_done) = oneshot::channel();
    let work = move || {
        // Perhaps nobody waits for it any more.
        let _ = done.send(work());
    };
    thread::Builder::new().name(name.into()).spawn(work).map_err(StartError::Thread)?;
    Ok(when_done)
}

struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    user: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits until the process is to end.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Does what is to be done besides answering, until the server is to stop. Says whether all of it has
/// ended then: what hangs on a disk has not.
async fn live(settings: &Settings, server: Arc<Server>, mut signals: Signals) -> bool {
    let control = settings.control.path().and_then(|path| open_control(&path));
    let mut looking = settings.watch.map(every);
    let mut reloads = Reloads::default();
    let (stop, stopped) = watch::channel(());
    let saving = settings
        .state
        .as_ref()
        .map(|_| spawn_local(keep_saving(settings.state_every, Arc::clone(&server), stopped)));
    if let Some(shared) = server.engine().stores.shared.clone() {
        spawn_local(check_store(shared));
    }
    let mut housekeeping = keep_house(&server, &stop);
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
            _ = signals.hangup.recv() => reloads.reload(&server),
            _ = signals.user.recv() => log_stats(&server),
            () = tick(looking.as_mut()) => reloads.look(&server),
            () = reloads.done(&server) => {}
            stream = accept(control.as_ref()) => {
                let stats = server.stats();
                spawn_local(async move { control::tell(stream, &stats).await });
            }
        }
    }
    drop(stop);
    server.stop_reading();
    let ended = async {
        reloads.end().await;
        while housekeeping.join_next().await.is_some() {}
        if let Some(saving) = saving {
            let _ = saving.await;
        }
    };
    timeout(settings.drain.max(SAVE_TIME_MAX), ended).await.is_ok()
}

/// Reading the files again, while everything else goes on.
#[derive(Default)]
struct Reloads {
    /// What is being done, and why it failed, if it did.
    task: Option<JoinHandle<Option<String>>>,
    /// Whether somebody asked for it meanwhile.
    is_wanted: bool,
    /// Why the last one failed, if it did.
    failure: Option<String>,
}

impl Reloads {
    /// Reads the files again, as soon as they are not being read.
    fn reload(&mut self, server: &Arc<Server>) {
        if self.task.is_some() {
            self.is_wanted = true;
            return;
        }
        self.is_wanted = false;
        let server = Arc::clone(server);
        self.task = Some(spawn_blocking(move || reload(&server, None)));
    }

    /// Reads them if they have changed, unless they are being read. Files that could not be read are tried
    /// again and again; as long as they fail in the same way, that is told once.
    fn look(&mut self, server: &Arc<Server>) {
        if self.task.is_some() {
            return;
        }
        let (server, told) = (Arc::clone(server), self.failure.clone());
        self.task = Some(spawn_blocking(move || {
            if server.has_changed_files() { reload(&server, told.as_deref()) } else { told }
        }));
    }

    /// Waits until they were read; for ever, if nobody reads them.
    async fn done(&mut self, server: &Arc<Server>) {
        let Some(task) = &mut self.task else { return std::future::pending().await };
        let done = task.await;
        self.task = None;
        match done {
            Ok(failure) => self.failure = failure,
            Err(error) => tracing::error!(%error, "reading the files again failed"),
        }
        if self.is_wanted {
            self.reload(server);
        }
    }

    async fn end(self) {
        if let Some(task) = self.task {
            let _ = task.await;
        }
    }
}

/// Tells the operator how the store looks that is shared: whether it answers, and what of it puts at
/// risk what was spent.
async fn check_store(shared: Shared) {
    let address = shared.address();
    match shared.check(STORE_CHECK_MAX).await {
        Ok(warnings) => {
            tracing::info!(store = %address, "buckets are shared");
            for warning in warnings {
                tracing::warn!(store = %address, "{warning}");
            }
        }
        Err(failure) => {
            tracing::warn!(store = %address, why = %failure, "the store could not be checked");
        }
    }
}

/// Saves twice as often as is promised, because what a crash forgets is what came after the last
/// whole save began; and if a save takes longer than that, one after the other.
async fn keep_saving(promised: Duration, server: Arc<Server>, mut stopped: watch::Receiver<()>) {
    let mut turns = every(promised / 2);
    loop {
        tokio::select! {
            _ = turns.tick() => {}
            _ = stopped.changed() => return,
        }
        let server = Arc::clone(&server);
        let _ = spawn_blocking(move || save_now(&server)).await;
    }
}

/// Starts what is to be done about once a second, until `stop` is dropped: to look who holds what of memory,
/// to put overrides out of force when they have ended, and to record that on the disk. Each goes on by
/// itself, so that a disk that hangs holds up only what needs it.
fn keep_house(server: &Arc<Server>, stop: &watch::Sender<()>) -> JoinSet<()> {
    let jobs: [fn(&Server) -> Option<Moment>; 3] = [
        |server| {
            server.look_at_memory();
            None
        },
        |server| server.end_overrides(server.time().wall()),
        |server| server.expire_overrides(server.time().wall()),
    ];
    let mut housekeeping = JoinSet::new();
    for job in jobs {
        housekeeping.spawn_local(regularly(Arc::clone(server), job, stop.subscribe()));
    }
    housekeeping
}

/// Does a job when it said that it is to be done next, and often enough that nothing is done late that was
/// made meanwhile, also where the wall clock is set.
async fn regularly(
    server: Arc<Server>,
    job: fn(&Server) -> Option<Moment>,
    mut stopped: watch::Receiver<()>,
) {
    loop {
        let task_server = Arc::clone(&server);
        let next = spawn_blocking(move || job(&task_server)).await.ok().flatten();
        let wait = next.map_or(HOUSEKEEPING_PERIOD, |next| next.since(server.time().wall()).into());
        tokio::select! {
            () = tokio::time::sleep(wait.min(HOUSEKEEPING_PERIOD)) => {}
            _ = stopped.changed() => return,
        }
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval
}

/// The next tick; never, if there are none.
async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// The next who wants to read the counters; never, if nobody can.
async fn accept(control: Option<&Control>) -> UnixStream {
    let Some(control) = control else { return std::future::pending().await };
    loop {
        match control.accept().await {
            Ok(stream) => return stream,
            // Out of files, most likely. The doors need them more, so it is tried again later.
            Err(error) => {
                tracing::warn!(%error, "the control socket cannot accept");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn open_control(path: &Path) -> Option<Control> {
    match Control::open(path) {
        Ok(control) => Some(control),
        Err(error) => {
            // The doors are what matters; they go on without it.
            tracing::warn!(
                path = %path.display(), %error,
                "no control socket, so `ratekeeper stats` will not work: set --control"
            );
            None
        }
    }
}

/// Reads the files again, and returns why that failed, if it did. What was `told` already is not told again.
fn reload(server: &Server, told: Option<&str>) -> Option<String> {
    let reloading = NotifyState::monotonic_usec_now().ok();
    tell_supervisor(
        &[Some(NotifyState::Reloading), reloading].into_iter().flatten().collect::<Vec<_>>(),
    );
    let failure = match server.reload() {
        Ok(()) => {
            tracing::info!("the files were read again and are in force");
            None
        }
        // Nobody needs them any more.
        Err(error) if error.is_stopped() => None,
        Err(error) => Some(crate::with_causes(&error)),
    };
    if let Some(failure) = failure.as_ref().filter(|failure| told != Some(failure.as_str())) {
        tracing::error!("files were refused, and the old ones stay in force:\n{failure}");
    }
    tell_supervisor(&[NotifyState::Ready]);
    failure
}

fn save_now(server: &Server) {
    if let Err(error) = server.save_if_changed() {
        let error = crate::with_causes(&error);
        tracing::error!(%error, "what was spent could not be saved");
    }
}

fn log_stats(server: &Server) {
    match serde_json::to_string(&server.stats()) {
        Ok(stats) => tracing::info!(%stats, "counters"),
        Err(error) => tracing::error!(%error, "counters"),
    }
}

/// Tells systemd, if it is there.
fn tell_supervisor(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}
