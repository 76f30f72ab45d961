//! An allowance that many processes share, kept by a Tollgate server.
//!
//! Some limits are on a whole account, such as Discord's fifty requests a second, and an account
//! may have many processes. None of them sees what the others send, so a server has to count: each
//! request that the limit counts needs a token of the server's before it is sent. What is sent
//! anyway takes the next one.
//!
//! The two doors keep it in two ways, and the limit on the server is written for one of them. Say
//! the API allows `N` in any window `W`, as fifty in a second.
//!
//! **[`Door::Http`] holds tokens**: one is taken before a request is sent, and given back a window
//! after its answer came. So the API never counts more requests in a window than there are tokens,
//! and all of them can be used: `burst: 50, count: 1, period: 365d`. Nothing comes back by itself;
//! but a process that ends gives nothing back, as it would have to stay for a window to do so. So
//! each minute, or twenty windows if that is more, is a term with a bucket of its own, by the
//! server's clock. Around its end requests are counted in both, as no process knows that clock
//! exactly, and as some are on their way. That is enough for all that reach the API within two
//! seconds of their pass. Within a term they may be as late as they like; but what was sent in one
//! and arrives later than that in the next may be counted besides all tokens of that one.
//! What a process holds is also written down in a ledger of its own, a bucket of the same limit: so
//! it can be told after a failure what is to be given back.
//!
//! **[`Door::Udp`] spends tokens**, as nothing can be given back on that wire. A request is counted
//! there when it is allowed, and by the API when it arrives. A limit of burst `b` and count `c` in
//! each `W` lets at most `b + c` pass in a window; where requests arrive up to `late` later than
//! usual, at most `b + c * (1 + late / W)` arrive in one. A burst of two is enough for who comes
//! a moment later than it could. So for fifty a second:
//!
//! | limit on the server | how uneven the way to the API may be | what is used of the fifty |
//! |---|---|---|
//! | `burst: 2, count: 48, period: 1s` | 20 ms | 96 % |
//! | `burst: 2, count: 47, period: 1s` | 40 ms | 94 % |
//! | `burst: 2, count: 45, period: 1s` | 85 ms | 90 % |
//!
//! A token that comes too late to be used is thrown away, as what is sent with it might be refused.
//! Where somebody was denied just before, one is too late when as much time has passed since then
//! as a token takes to come, 20 ms here; otherwise, when its answer took 8 ms longer than they do.
//! So on a machine whose cores are all busy nearly every token is used. Where several times as many
//! threads want to run as there are cores, processes wait for longer than that before they read an
//! answer: tokens are lost then, one in twenty or more, and the way to the API may be more uneven
//! than the limit on the server allows for. There is no telling from an answer when it was given,
//! so this is not to be had otherwise on that wire. Over HTTP nothing is lost.
//!
//! While the server is away each process has a share of its own: [`Share::alone`]. No request
//! waits for the server longer than [`ANSWER_MAX`]; it is tried in the background, and when it
//! is back, it is used again. Before each change nothing is sent for a window and up to a second,
//! so that what was sent under one rule and what is sent under the other never meet.

mod clock;
mod fresh;
mod held;
mod http;
mod past;
mod till;
mod turnstile;
mod udp;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Moment, Nanos};

use crate::Profile;
use crate::gate::Core;
use crate::pace::Pace;
use http::HttpDesk;
pub(crate) use till::Token;
use till::{Answer, Ask, Kind, Step, Till};
pub(crate) use turnstile::{Served, Turnstile};
use udp::UdpDesk;

/// How long the server may take to answer before it counts as away.
pub const ANSWER_MAX: Duration = Duration::from_millis(500);

/// What a process shares with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Who keeps it.
    pub door: Door,
    /// The window that the API counts in.
    pub window: Nanos,
    /// How many requests this process may send in a window while the server is away. With zero
    /// nothing is sent then that the limit counts.
    pub alone: u32,
}

/// How the server is asked.
#[derive(Clone, PartialEq, Eq)]
pub enum Door {
    /// Over HTTP: tokens are held, and given back.
    Http {
        /// Where the server is, as in `http://127.0.0.1:8080`.
        url: String,
        /// The name of the limit.
        limit: String,
        /// Whose allowance it is: the account, say.
        id: String,
        /// What the server wants to see from whoever asks, if anything.
        token: Option<String>,
    },
    /// Over UDP: tokens are spent.
    Udp {
        /// Where the server is.
        server: SocketAddr,
        /// A key for which a rule of the server uses a named limit. A key that no rule fits is
        /// always let through.
        key: String,
    },
}

/// Why there is no such share.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The address of the server is not one.
    #[error("`{0}` is not the address of a server, as http://127.0.0.1:8080 is")]
    Address(String),
    /// The token has characters that no header field has.
    #[error("the token for the server has characters that cannot be sent")]
    Token,
}

impl Share {
    /// The limit on all requests of a profile, shared by as many processes as this. None if the
    /// profile has no such limit.
    pub fn of(profile: &Profile, door: Door, processes: u32) -> Option<Self> {
        let pace = profile.pace?;
        Some(Self { door, window: pace.window, alone: pace.count / processes.max(1) })
    }

    /// The till, for an API that allows so many requests in all, if that is known.
    pub(crate) fn till(&self, pace: Option<Pace>) -> Till {
        let kind = match self.door {
            Door::Http { .. } => Kind::Held,
            Door::Udp { .. } => Kind::Spent,
        };
        let spacing = |pace: Pace| Nanos::new(pace.window.get() / u128::from(pace.count.max(1)));
        Till::new(kind, self.window, self.alone, pace.map_or(Nanos::ZERO, spacing))
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        match &self.door {
            Door::Http { limit, .. } => limit,
            Door::Udp { key, .. } => key,
        }
    }

    pub(crate) fn desk(&self) -> Result<Desk, ShareError> {
        Ok(match &self.door {
            Door::Http { url, limit, id, token } => {
                Desk::Http(Box::new(HttpDesk::new(url, limit, id, token.as_deref())?))
            }
            Door::Udp { server, key } => Desk::Udp(UdpDesk::new(*server, key)),
        })
    }
}

/// Nobody needs to read the token.
impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Http { url, limit, id, .. } => {
                let mut all = f.debug_struct("Http");
                all.field("url", url).field("limit", limit).field("id", id).finish_non_exhaustive()
            }
            Self::Udp { server, key } => {
                f.debug_struct("Udp").field("server", server).field("key", key).finish()
            }
        }
    }
}

/// Whoever the server is asked by.
pub(crate) enum Desk {
    Http(Box<HttpDesk>),
    Udp(UdpDesk),
}

/// Why a server gave no answer that is of use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeskError {
    #[error("no answer within {ANSWER_MAX:?}")]
    Late,
    #[error("it could not be asked")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("it answered {0}")]
    Nonsense(String),
}

impl Desk {
    async fn ask(&mut self, ask: &Ask) -> Result<Answer, DeskError> {
        let answer = async {
            match self {
                Self::Http(desk) => desk.ask(ask).await,
                Self::Udp(desk) => desk.ask(ask).await,
            }
        };
        tokio::time::timeout(ANSWER_MAX, answer).await.unwrap_or(Err(DeskError::Late))
    }
}

/// Keeps the line at the turnstile moving, until it is dropped.
pub(crate) async fn keep(core: Arc<Core>, mut desk: Desk) {
    loop {
        let (step, is_away) = serve(&core);
        match step {
            Step::Idle(until) => idle(&core, until).await,
            Step::Ask(ask) => {
                let asked = core.now();
                let answer = tokio::select! {
                    answer = desk.ask(&ask) => answer,
                    never = serve_alone(&core), if is_away => match never {},
                };
                core.heard(&ask, answer, asked);
            }
        }
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
