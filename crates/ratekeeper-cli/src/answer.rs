//! A decision as programs read it: in the words of the HTTP door.

use ratekeeper::Decision;
use ratekeeper::limiter::Account;
use ratekeeper_server::json::{LimitBody, StateBody};
use serde::Serialize;

/// One line of JSON; the order of the fields is the order of the keys.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    #[serde(flatten)]
    state: StateBody,
    limit: LimitBody,
    /// The id in its one spelling.
    id: String,
    bucket: String,
}

impl Answer {
    /// What was decided, of a limit and for whom.
    pub(crate) fn new(decision: &Decision, limit: &str, of: Account) -> Self {
        let Account { terms, shadow, id, prefix } = of;
        let bucket = format!("{prefix}:{id}");
        let limit = LimitBody::new(limit, &terms, shadow);
        Self { state: StateBody::new(decision), limit, id, bucket }
    }
}
