//! The tracker for tasks of tokio: ask for a permit, wait in line for it, hand it in with the answer.
//!
//! A [`Gate`] is a [`Tracker`] behind a lock that nobody holds while they wait, a clock, and one
//! task that calls whoever's turn has come. Clones share all of it; each has a [`Strategy`] of its
//! own for requests that may not be sent yet.

#[cfg(any(feature = "tower", feature = "reqwest"))]
mod attempts;
mod core;
mod driver;
#[cfg(any(feature = "tower", feature = "reqwest"))]
mod group;
mod refused;
mod retry;
mod send_permit;
mod state;
mod strategy;
mod time;
mod waiting;

use std::sync::Arc;

use ratekeeper_time::Moment;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tracing::Instrument as _;

pub(crate) use self::core::Core;
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub(crate) use attempts::Attempts;
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub use attempts::Waited;
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub use group::Group;
pub use refused::Refused;
pub use retry::{RETRIES_DEFAULT, Retry, RetryMethods};
pub use send_permit::SendPermit;
#[cfg(feature = "sharing")]
pub(crate) use state::{State, Stood};
pub use strategy::{DEADLINE_DEFAULT, Strategy};
pub(crate) use waiting::End;
#[cfg(feature = "sharing")]
pub(crate) use waiting::{Told, Waiter};

use self::core::Entered;
use self::time::Time;
#[cfg(feature = "reqwest")]
use crate::redirect::Redirects;
#[cfg(feature = "sharing")]
use crate::share::{Share, ShareError};
use crate::{LoadError, Profile, Request, Snapshot, Tracker};

/// What all requests to one API pass through.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ratekeeper_tracker::Refused> {
/// use ratekeeper_tracker::{Gate, Profile, Request, Response};
///
/// let gate = Gate::new(Profile::discord());
/// let mut permit = gate.acquire(&Request::new("POST", "/channels/123/messages")).await?;
/// permit.sent();
/// // The request is sent here. This is what came back:
/// let fields: [(&str, &[u8]); 3] = [
///     ("x-ratelimit-limit", b"5"),
///     ("x-ratelimit-remaining", b"4"),
///     ("x-ratelimit-reset-after", b"1.250"),
/// ];
/// permit.track(Response { status: 200, fields, body: None });
///
/// assert_eq!(gate.snapshot().states[1].remaining, Some(4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gate {
    inner: Arc<GateInner>,
    strategy: Strategy,
    retry: Retry,
    #[cfg(feature = "reqwest")]
    pub(crate) redirects: Redirects,
}

struct GateInner {
    core: Arc<Core>,
    profile: Profile,
    /// Ends the tasks when the last gate is dropped.
    _tasks: JoinSet<()>,
}

impl Gate {
    /// A gate for an API, with its task on the runtime that it is called on. It panics where there is
    /// none.
    pub fn new(profile: Profile) -> Self {
        Self::on(&Handle::current(), profile)
    }

    /// A gate for an API, with its task on a runtime that has a timer.
    pub fn on(runtime: &Handle, profile: Profile) -> Self {
        let _entered = runtime.enter();
        Self::driven(Core::new(Tracker::new(profile)), profile)
    }

    /// A gate whose clock begins at that moment and goes on as tokio's does, for tests: where tokio's
    /// clock is paused, each run is the same as the last.
    pub fn starting_at(profile: Profile, now: Moment) -> Self {
        Self::driven(Core::at(Tracker::new(profile), Time::starting_at(now)), profile)
    }

    fn driven(core: Core, profile: Profile) -> Self {
        let core = Arc::new(core);
        let mut tasks = JoinSet::new();
        tasks.spawn(driver::drive(Arc::clone(&core)));
        Self::of(core, profile, tasks)
    }

    /// A gate whose limit on all requests is kept by a Ratekeeper server, so that many processes
    /// share it. The server is asked once: what is wrong with its address, its limit or the token is
    /// an error here, and [`Share::if_absent`] says what to do if there is no server.
    ///
    /// The first pace of the profile that counts each request for one is left out: the share takes its
    /// place. The others each process keeps for itself. [Close](Self::close) the gate at the end.
    #[cfg(feature = "sharing")]
    pub async fn shared(profile: Profile, share: &Share) -> Result<Self, ShareError> {
        let core = Arc::new(Core::with_share(profile, share));
        let keep = crate::share::begin(Arc::clone(&core), share).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(driver::drive(Arc::clone(&core)));
        tasks.spawn(keep);
        Ok(Self::of(core, profile, tasks))
    }

    /// A shared gate without the task that asks the server.
    #[cfg(all(test, feature = "sharing"))]
    pub(crate) fn shared_by_hand(profile: Profile, share: &Share) -> (Self, Arc<Core>) {
        let core = Arc::new(Core::with_share(profile, share));
        let mut tasks = JoinSet::new();
        tasks.spawn(driver::drive(Arc::clone(&core)));
        (Self::of(Arc::clone(&core), profile, tasks), core)
    }

    fn of(core: Arc<Core>, profile: Profile, tasks: JoinSet<()>) -> Self {
        let inner = Arc::new(GateInner { core, profile, _tasks: tasks });
        Self {
            inner,
            strategy: Strategy::default(),
            retry: Retry::default(),
            #[cfg(feature = "reqwest")]
            redirects: Redirects::Leave,
        }
    }

    /// The same gate, with another strategy.
    #[must_use]
    pub fn with(&self, strategy: Strategy) -> Self {
        Self { strategy, ..self.clone() }
    }

    /// The same gate, whose adapters send refused requests again as often as this says.
    #[must_use]
    pub fn with_retry(&self, retry: Retry) -> Self {
        Self { retry, ..self.clone() }
    }

    /// A permit for a request, as the strategy says: at once, after a wait in line, or refused.
    ///
    /// It may be dropped at any time. Who waits then leaves the line, and a permit that had just
    /// been granted goes to the next.
    pub async fn acquire(&self, request: &Request<'_>) -> Result<SendPermit, Refused> {
        match self.inner.core.enter(request, self.strategy)? {
            Entered::Now(permit) => Ok(permit),
            Entered::Later(waiting, limited) => {
                let span = tracing::debug_span!(
                    "wait",
                    scope = ?limited.scope,
                    bucket = %limited.bucket,
                    reason = ?limited.reason,
                    retry_in = %limited.retry_in,
                );
                waiting.instrument(span).await
            }
        }
    }

    /// Lets nothing go any more, and gives back what this process holds of what processes share, so
    /// that all of it is there for those that come after it.
    ///
    /// Those who wait are refused, here and in all clones; callbacks are not called any more. Permits
    /// are waited for until they are settled; a token goes back a window after that. A gate that is dropped without it leaves its
    /// tokens in the way of other processes for a few seconds, which [`share`](crate::share) tells of;
    /// so does one whose closing is given up, as with a timeout.
    #[cfg(feature = "sharing")]
    pub async fn close(&self) {
        let core = &self.inner.core;
        core.close();
        core.close_share().await;
    }

    /// Calls `callback` with a permit when it is the request's turn, so that nobody has to wait for
    /// it. Refused at once where [`acquire`](Self::acquire) would be, and then it is never called.
    ///
    /// The gate's own task calls it, one after the other: it should do no more than start
    /// something. When all gates are dropped, those not called yet never are.
    pub fn call<F>(&self, request: &Request<'_>, callback: F) -> Result<(), Refused>
    where
        F: FnOnce(Result<SendPermit, Refused>) + Send + 'static,
    {
        self.inner.core.enter_to_call(request, self.strategy, End::Callback(Box::new(callback)))
    }

    /// The same gate, whose middleware does so with redirects.
    #[cfg(feature = "reqwest")]
    pub(crate) fn with_redirects(&self, redirects: Redirects) -> Self {
        Self { redirects, ..self.clone() }
    }

    /// A permit for a request that somebody sent then without asking.
    #[cfg(feature = "reqwest")]
    pub(crate) fn permit_sent(&self, request: &Request<'_>, sent: Moment) -> SendPermit {
        self.inner.core.permit_sent(request, sent)
    }

    /// Forgets what the API said of the limits of a request's bucket, as
    /// [`Tracker::forget`] does. Who waits for it goes as soon as one of them has found out.
    pub fn forget(&self, request: &Request<'_>) {
        self.inner.core.forget(Some(request));
    }

    /// Forgets what the API said of all limits, as [`Tracker::forget_all`] does.
    pub fn forget_all(&self) {
        self.inner.core.forget(None);
    }

    /// How all budgets stand now.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.core.snapshot()
    }

    /// What is known, as a text that [`load`](Self::load) reads in the process that comes after this
    /// one. Requests in flight count as spent.
    pub fn save(&self) -> String {
        self.inner.core.save()
    }

    /// Takes over what another process has [saved](Self::save), before the first request. What passed
    /// since then has passed for each wait.
    ///
    /// # Errors
    ///
    /// If it is not what was saved for this profile, or if requests are in flight or wait. Nothing is
    /// changed then, and the gate can be used without it.
    pub fn load(&self, saved: &str) -> Result<(), LoadError> {
        self.inner.core.load(saved)
    }

    /// What was known of the API before it answered.
    pub fn profile(&self) -> &Profile {
        &self.inner.profile
    }

    /// What time it is on the gate's clock, which [`Limited::retry_at`](crate::Limited) is on.
    pub fn now(&self) -> Moment {
        self.inner.core.now()
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = f.debug_struct("Gate");
        all.field("strategy", &self.strategy).field("retry", &self.retry).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
