//! A request of an adapter, which may be sent several times: again after a refusal, and on to where
//! a redirect leads.

use std::time::Duration;

use ratekeeper_time::Nanos;

use super::{Gate, Refused, SendPermit, Strategy};
use crate::Request;

/// How a request came to its response, as an extension of that response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// For how long it waited for its turn, all times together.
    pub time: Nanos,
    /// How often it was sent again because the API had refused it.
    pub retries: u32,
    /// How many redirects were followed for it.
    pub redirects: u32,
}

pub(crate) struct Attempts {
    gate: Gate,
    pub(crate) waited: Waited,
}

impl Attempts {
    pub(crate) fn new(gate: &Gate) -> Self {
        Self { gate: gate.clone(), waited: Waited::default() }
    }

    /// A permit for the next time it is sent. All its waits are bounded by one deadline.
    pub(crate) async fn acquire(&mut self, request: &Request<'_>) -> Result<SendPermit, Refused> {
        let strategy = match self.gate.strategy {
            Strategy::Wait { queue, deadline } => {
                let deadline = deadline.saturating_sub(Duration::from(self.waited.time));
                Strategy::Wait { queue, deadline }
            }
            other => other,
        };
        let permit = self.gate.with(strategy).acquire(request).await?;
        let time = self.waited.time.get().saturating_add(permit.waited().get());
        self.waited.time = Nanos::new(time);
        Ok(permit)
    }

    /// Whether it is sent again if it is refused now.
    pub(crate) fn may_retry(&self, method: &str) -> bool {
        self.gate.strategy != Strategy::SendAnyway
            && self.gate.retry.allows(method, self.waited.retries)
    }
}
