//! The life of the process: signals, changed files, saving, and the end.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::net::UnixStream;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tollgate::Clock;
use tollgate_redis::Shared;

use crate::control::{self, Control};
use crate::files::Stamp;
use crate::server::{Server, StartError};
use crate::settings::Settings;
use crate::state::StateError;

/// How long the look at a shared store may take.
const STORE_CHECK_MAX: Duration = Duration::from_secs(5);
/// How late an override may end, and how often the server looks at who holds what of memory.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(1);

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
    #[error("something still uses the server, so it cannot be drained: this is a bug")]
    Held,
}

/// Runs a server until it is told to stop. `announce` is told what is open, once all of it is.
pub fn run(settings: &Settings, announce: impl FnOnce(&Server)) -> Result<(), RunError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(RunError::Signals)?;
    // From here on a signal is not lost, however early it comes.
    let signals = {
        let _inside = runtime.enter();
        Signals::new().map_err(RunError::Signals)?
    };
    let server = Arc::new(Server::start(settings, Arc::new(Clock::start()))?);
    announce(&server);
    tell_supervisor(&[NotifyState::Ready]);
    LocalSet::new().block_on(&runtime, live(settings, Arc::clone(&server), signals));

    tell_supervisor(&[NotifyState::Stopping]);
    tracing::info!("stopping: answering what was received");
    // All that used it has ended. Were it not so, the state would end unsaved, and that is a bug.
    let Some(server) = Arc::into_inner(server) else { return Err(RunError::Held) };
    let is_done = server.drain(settings.drain).map_err(RunError::Save)?;
    if is_done {
        tracing::info!("stopped");
    } else {
        tracing::warn!(bound = ?settings.drain, "stopped, although some clients still waited");
    }
    Ok(())
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
}

/// Does what is to be done besides answering, until the server is to stop.
async fn live(settings: &Settings, server: Arc<Server>, mut signals: Signals) {
    let control = settings.control.path().and_then(|path| open_control(&path));
    let mut looking = settings.watch.map(every);
    let mut seen = server.loaded_stamp().clone();
    let (stop, stopped) = watch::channel(());
    let saving = settings
        .state
        .as_ref()
        .map(|_| spawn_local(keep_saving(settings.state_every, Arc::clone(&server), stopped)));
    if let Some(shared) = server.house().stores.shared.clone() {
        spawn_local(check_store(shared));
    }
    let housekeeping = spawn_local(keep_house(Arc::clone(&server), stop.subscribe()));
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
            _ = signals.hangup.recv() => {
                seen = server.stamp();
                reload(&server).await;
            }
            _ = signals.user.recv() => log_stats(&server),
            () = tick(looking.as_mut()) => {
                if let Some(changed) = changed_files(&server, &seen) {
                    seen = changed;
                    reload(&server).await;
                }
            }
            stream = accept(control.as_ref()) => {
                let stats = server.stats();
                spawn_local(async move { control::tell(stream, &stats).await });
            }
        }
    }
    drop(stop);
    let _ = housekeeping.await;
    if let Some(saving) = saving {
        let _ = saving.await;
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
        let _ = tokio::task::spawn_blocking(move || save_now(&server)).await;
    }
}

/// Ends overrides when their time has come, and tells of limits that are short of memory. Overrides
/// that were made meanwhile are looked for often enough that none ends late.
async fn keep_house(server: Arc<Server>, mut stopped: watch::Receiver<()>) {
    loop {
        let task_server = Arc::clone(&server);
        let done = tokio::task::spawn_blocking(move || {
            task_server.look_at_memory();
            task_server.expire_overrides(task_server.now())
        });
        let next = done.await.ok().flatten();
        let wait = next.map_or(HOUSEKEEPING_PERIOD, |next| next.since(server.now()).into());
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
                "no control socket, so `tollgate stats` will not work: set --control"
            );
            None
        }
    }
}

fn changed_files(server: &Server, seen: &Stamp) -> Option<Stamp> {
    let stamp = server.stamp();
    (stamp != *seen).then_some(stamp)
}

async fn reload(server: &Arc<Server>) {
    let reloading = NotifyState::monotonic_usec_now().ok();
    tell_supervisor(
        &[Some(NotifyState::Reloading), reloading].into_iter().flatten().collect::<Vec<_>>(),
    );
    let task_server = Arc::clone(server);
    let reloaded = tokio::task::spawn_blocking(move || task_server.reload()).await;
    match reloaded {
        Ok(Ok(())) => tracing::info!("the files were read again and are in force"),
        Ok(Err(error)) => {
            let error = crate::with_causes(&error);
            tracing::error!("files were refused, and the old ones stay in force:\n{error}");
        }
        Err(error) => tracing::error!(%error, "reading the files again failed"),
    }
    tell_supervisor(&[NotifyState::Ready]);
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

#[cfg(test)]
mod tests {
    use tollgate::Nanos;

    use super::*;
    use crate::overrides::{NewOverride, Who};

    #[test]
    fn an_override_ends_without_being_asked() {
        let mut settings = Settings::default();
        settings.udp.listen = Some("127.0.0.1:0".parse().unwrap());
        settings.http.listen = None;
        settings.bucket.stream.listen = None;
        settings.throttr.stream.listen = None;
        settings.resp.listen = None;
        settings.memory = 16 << 20;
        let server = Arc::new(Server::start(&settings, Arc::new(Clock::start())).unwrap());
        let until = server.now().after(Nanos::from_secs(1));
        let new = NewOverride {
            limit: "LoginsPerUser".into(),
            id: "ada".into(),
            burst: 100,
            count: 100,
            period: Nanos::from_secs(1),
            why: "a test".into(),
            until: Some(until),
            may_lower: true,
        };
        server.put_override(new, Who { by: "ops", from: None }, false).unwrap();
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = LocalSet::new().block_on(&runtime, async {
            let (stop, stopped) = watch::channel(());
            let housekeeping = spawn_local(keep_house(Arc::clone(&server), stopped));
            while server.override_of("LoginsPerUser", "ada").is_some() {
                tokio::task::yield_now().await;
            }
            let ended = server.now();
            drop(stop);
            housekeeping.await.unwrap();
            ended
        });
        assert!(ended >= until, "not before its time");
        let record = server.audit(1).unwrap().pop().unwrap();
        assert!(record.at.0 >= until, "{record:?}");
    }
}
