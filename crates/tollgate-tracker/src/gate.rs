//! The tracker for tasks of tokio: ask for a pass, wait in line for it, hand it in with the answer.
//!
//! A [`Gate`] is a [`Tracker`] behind a lock that nobody holds while they wait, a clock, and one
//! task that calls whoever's turn has come. Clones share all of it; each has a [`Strategy`] of its
//! own for requests that may not be sent yet.

mod core;
mod driver;
#[cfg(any(feature = "tower", feature = "reqwest"))]
mod group;
mod pass;
mod refused;
mod state;
mod strategy;
mod time;
mod waiting;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tollgate::Moment;
use tracing::Instrument as _;

pub(crate) use self::core::Core;
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub use group::Group;
pub use pass::Pass;
pub use refused::Refused;
#[cfg(feature = "sharing")]
pub(crate) use state::{State, Stood};
pub use strategy::{DEADLINE_DEFAULT, Strategy};
pub(crate) use waiting::End;
#[cfg(feature = "sharing")]
pub(crate) use waiting::{Told, Waiter};

use self::core::Entered;
#[cfg(feature = "sharing")]
use crate::share::{Share, ShareError};
use crate::{Profile, Request, Snapshot, Tracker};

/// What all requests to one API pass through.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_tracker::Refused> {
/// use tollgate_tracker::{Gate, Profile, Request, Response};
///
/// let gate = Gate::new(Profile::discord());
/// let mut pass = gate.pass(&Request::new("POST", "/channels/123/messages")).await?;
/// pass.sent();
/// // The request is sent here. This is what came back:
/// let fields: [(&str, &[u8]); 3] = [
///     ("x-ratelimit-limit", b"5"),
///     ("x-ratelimit-remaining", b"4"),
///     ("x-ratelimit-reset-after", b"1.250"),
/// ];
/// pass.track(Response { status: 200, fields, body: None });
///
/// assert_eq!(gate.snapshot().states[1].remaining, Some(4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gate {
    house: Arc<House>,
    strategy: Strategy,
}

struct House {
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
        let core = Arc::new(Core::new(Tracker::new(profile)));
        let mut tasks = JoinSet::new();
        tasks.spawn_on(driver::drive(Arc::clone(&core)), runtime);
        Self::of(core, profile, tasks)
    }

    /// A gate whose limit on all requests is kept by a Tollgate server, so that many processes
    /// share it. Refused if the server's address is not one.
    ///
    /// The pace of the profile is left out: the share takes its place.
    #[cfg(feature = "sharing")]
    pub fn shared(profile: Profile, share: &Share) -> Result<Self, ShareError> {
        let runtime = Handle::current();
        let core = Arc::new(Core::with_share(profile, share));
        let desk = share.desk()?;
        let mut tasks = JoinSet::new();
        tasks.spawn_on(driver::drive(Arc::clone(&core)), &runtime);
        tasks.spawn_on(crate::share::keep(Arc::clone(&core), desk), &runtime);
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
        let house = Arc::new(House { core, profile, _tasks: tasks });
        Self { house, strategy: Strategy::default() }
    }

    /// The same gate, with another strategy.
    #[must_use]
    pub fn with(&self, strategy: Strategy) -> Self {
        Self { house: Arc::clone(&self.house), strategy }
    }

    /// A pass for a request, as the strategy says: at once, after a wait in line, or refused.
    ///
    /// It may be dropped at any time. Who waits then leaves the line, and a pass that had just
    /// been granted goes to the next.
    pub async fn pass(&self, request: &Request<'_>) -> Result<Pass, Refused> {
        match self.house.core.enter(request, self.strategy)? {
            Entered::Now(pass) => Ok(pass),
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

    /// Calls `callback` with a pass when it is the request's turn, so that nobody has to wait for
    /// it. Refused at once where [`pass`](Self::pass) would be, and then it is never called.
    ///
    /// The gate's own task calls it, one after the other: it should do no more than start
    /// something. When all gates are dropped, those not called yet never are.
    pub fn call<F>(&self, request: &Request<'_>, callback: F) -> Result<(), Refused>
    where
        F: FnOnce(Result<Pass, Refused>) + Send + 'static,
    {
        self.house.core.enter_to_call(request, self.strategy, End::Callback(Box::new(callback)))
    }

    /// How all budgets stand now.
    pub fn snapshot(&self) -> Snapshot {
        self.house.core.snapshot()
    }

    /// What was known of the API before it answered.
    pub fn profile(&self) -> &Profile {
        &self.house.profile
    }

    /// What time it is on the gate's clock, which [`Limited::retry_at`](crate::Limited) is on.
    pub fn now(&self) -> Moment {
        self.house.core.now()
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("strategy", &self.strategy).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
