//! What processes share, for people.

use std::sync::Arc;

use ratekeeper_time::Moment;

use super::super::token_state::Standing;
use super::TokenQueue;
use crate::gate::State;
use crate::headers::{Scope, Unit};
use crate::{Snapshot, State as Shown};

/// The policy while the server is away: each process has a share of its own.
const ALONE: &str = "alone";

impl State {
    /// Adds what processes share to a snapshot. Who stands in line for a token has not been sent.
    pub(crate) fn with_share(&self, mut snapshot: Snapshot, now: Moment) -> Snapshot {
        let Some(token_queue) = &self.token_queue else { return snapshot };
        snapshot.in_flight = snapshot.in_flight.saturating_sub(token_queue.line.len());
        snapshot.waiting += token_queue.line.len();
        snapshot.states.insert(0, token_queue.shown(now));
        snapshot
    }
}

impl TokenQueue {
    fn shown(&self, now: Moment) -> Shown {
        let Standing { is_away, share, left, in_flight, opens_at } = self.state.standing(now);
        Shown {
            scope: Scope::Global,
            origin: Arc::from(""),
            bucket: Arc::clone(&self.name),
            policy: Arc::from(if is_away { ALONE } else { "" }),
            unit: Unit::Requests,
            limit: Some(share.unwrap_or(self.limit).into()),
            remaining: left,
            in_flight: in_flight.into(),
            waiting: self.line.len() as u64,
            reset_in: opens_at.filter(|&at| at > now).map(|at| at.since(now)),
            refused_for: None,
        }
    }
}
