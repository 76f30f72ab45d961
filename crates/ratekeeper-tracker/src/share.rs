//! An allowance that many processes share, kept by a Ratekeeper server.
//!
//! Some limits are on a whole account, such as Discord's fifty requests a second, and an account
//! may have many processes. None of them sees what the others send, so a server has to count: each
//! request that the limit counts needs a token of the server's before it is sent, and gives it back
//! a window after its answer came. So the API never counts more requests in a window than there are
//! tokens, however long they are on their way, and all of them can be used. Say the API allows fifty
//! in a second: then the limit on the server has a `burst` of 50, and brings no token back by itself
//! while a bucket is in use: `{ burst: 50, count: 1, period: 1m }`.
//!
//! [`Gate::close`](crate::Gate::close) gives back all that a process holds. One that dies gives
//! nothing back. So time is cut into terms, by the server's clock, each with a bucket of its own, and
//! who holds tokens takes them of each new term as well. Tokens of a process that died are in the way
//! of others for as long as its last requests may still be counted, a window and two seconds, and for
//! half as long again at most: 3 to 4.5 s for a window of a second.
//!
//! While the server is away each process has a share of its own: [`Share::alone`]. No request
//! waits for the server longer than [`ANSWER_MAX`]; it is tried in the background, and when it
//! is back, it is used again. Before each change nothing is sent for a window and up to a second,
//! so that what was sent under one rule and what is sent under the other never meet. A server says
//! with each answer when it was started, so also one that was away between two asks and has
//! forgotten everything is found out: its tokens are used when it is a window and two seconds old.

mod clock;
mod error;
mod server_client;
mod terms;
mod token_queue;
mod token_state;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper_time::Moment;

use crate::Profile;
use crate::gate::Core;
use crate::pace::Pace;
pub use error::ShareError;
use server_client::ServerClient;
pub(crate) use token_queue::{Served, TokenQueue};
pub(crate) use token_state::SharedToken;
use token_state::{PROBE, Step, TokenAsk, TokenState};

/// How long the server may take to answer before it counts as away.
pub const ANSWER_MAX: Duration = Duration::from_millis(500);

/// What a process shares with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Who keeps it.
    pub server: ShareServer,
    /// What the API allows to all processes together; its count is the burst of the limit on the
    /// server.
    pub pace: Pace,
    /// How many requests this process may send in a window while the server is away. With zero
    /// nothing is sent then that the limit counts.
    pub alone: u32,
    /// What to do if the server does not answer when the gate is made.
    pub if_absent: IfAbsent,
}

/// Where the server is, and which of its limits counts.
#[derive(Clone, PartialEq, Eq)]
pub struct ShareServer {
    /// Where it is, as in `http://127.0.0.1:8080`.
    pub url: String,
    /// The name of the limit.
    pub limit: String,
    /// Whose allowance it is: the account, say.
    pub id: String,
    /// What the server wants to see from whoever asks, if anything.
    pub token: Option<String>,
}

/// What to do if the server does not answer when a gate is made. Whatever else is wrong, such as the
/// name of the limit, is an error in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfAbsent {
    /// There is no gate: [`ShareError::Absent`].
    #[default]
    Refuse,
    /// The gate is made when the server answers.
    Wait,
    /// The gate is made, and sends the own share until the server answers.
    BeginAlone,
}

impl Share {
    /// The limit on all requests of a profile, shared by as many processes as this: its first pace
    /// that counts each request for one. None if it has no such pace.
    pub fn of(profile: &Profile, server: ShareServer, processes: u32) -> Option<Self> {
        let pace = profile.paces.of_all()?;
        let alone = pace.count / processes.max(1);
        Some(Self { server, pace, alone, if_absent: IfAbsent::default() })
    }

    pub(crate) fn token_state(&self) -> TokenState {
        TokenState::new(self.pace, self.alone)
    }
}

/// Nobody needs to read the token.
impl std::fmt::Debug for ShareServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = f.debug_struct("ShareServer");
        let all = all.field("url", &self.url).field("limit", &self.limit).field("id", &self.id);
        all.finish_non_exhaustive()
    }
}

/// Asks the server for the first time, so that what is wrong is known before anything is sent.
/// Whoever keeps the share from here on.
pub(crate) async fn begin(
    core: Arc<Core>,
    share: &Share,
) -> Result<impl Future<Output = ()> + Send + use<>, ShareError> {
    let client = ServerClient::new(share)?;
    loop {
        let asked = core.now();
        let answer = client.ask(&TokenAsk::Look).await;
        let is_absent = matches!(answer, Err(ShareError::Absent { .. }));
        match answer {
            Err(_) if is_absent && share.if_absent == IfAbsent::Wait => {
                // Others have sent without it as well.
                core.heard(&TokenAsk::Look, answer, asked);
                core.until(Some(core.now().after(PROBE))).await;
            }
            Err(error) if !is_absent || share.if_absent == IfAbsent::Refuse => return Err(error),
            answer => {
                core.heard(&TokenAsk::Look, answer, asked);
                return Ok(keep(core, client));
            }
        }
    }
}

/// Keeps the line for tokens moving, until it is dropped, or the gate is closed and all tokens are
/// given back.
fn keep(core: Arc<Core>, client: ServerClient) -> impl Future<Output = ()> + Send {
    // Made here: a task that is ended before it ever ran has to tell who closes the gate as well.
    let done = Done(core);
    async move {
        let core = &done.0;
        loop {
            let (step, is_away) = serve(core);
            if core.is_share_closed() {
                return;
            }
            match step {
                Step::Idle(until) => idle(core, until).await,
                Step::Ask(ask) => {
                    let asked = core.now();
                    let answer = tokio::select! {
                        answer = client.ask(&ask) => answer,
                        never = serve_alone(core), if is_away => match never {},
                    };
                    core.heard(&ask, answer, asked);
                }
            }
        }
    }
}

/// Tells who closes the gate that nothing is kept any more.
struct Done(Arc<Core>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.share_kept.close();
    }
}

/// Serves those in line from the own share while the server is asked whether it is back.
async fn serve_alone(core: &Arc<Core>) -> Infallible {
    loop {
        let until = match serve(core).0 {
            Step::Idle(until) => until,
            // It is being asked.
            Step::Ask(_) => None,
        };
        idle(core, until).await;
    }
}

/// Tells whoever is to be told something. What to do then, and whether the server is away.
fn serve(core: &Arc<Core>) -> (Step, bool) {
    let Served { told, step, is_away, .. } = core.serve();
    for told in told {
        told.end.tell(told.answer);
    }
    (step, is_away)
}

async fn idle(core: &Core, until: Option<Moment>) {
    tokio::select! {
        () = core.line_changed() => {}
        () = core.until(until) => {}
    }
}

#[cfg(test)]
mod tests;
