//! What processes share, for people.

use std::sync::Arc;

use tollgate::Moment;

use super::super::till::Standing;
use super::Turnstile;
use crate::gate::State;
use crate::headers::{Scope, Unit};
use crate::{Snapshot, State as Shown};

/// The policy while the server is away: each process has a share of its own.
const ALONE: &str = "alone";

impl State {
    /// Adds what processes share to a snapshot. Who stands in line for a token has not been sent.
    pub(crate) fn with_share(&self, mut snapshot: Snapshot, now: Moment) -> Snapshot {
        let Some(turnstile) = &self.turnstile else { return snapshot };
        snapshot.in_flight = snapshot.in_flight.saturating_sub(turnstile.line.len());
        snapshot.waiting += turnstile.line.len();
        snapshot.states.insert(0, turnstile.shown(now));
        snapshot
    }
}

impl Turnstile {
    fn shown(&self, now: Moment) -> Shown {
        let Standing { is_away, share, left, in_flight, opens_at } = self.till.standing(now);
        Shown {
            scope: Scope::Global,
            bucket: Arc::clone(&self.name),
            policy: Arc::from(if is_away { ALONE } else { "" }),
            unit: Unit::Requests,
            limit: share.or(self.limit).map(u64::from),
            remaining: left,
            in_flight: in_flight.into(),
            waiting: self.line.len() as u64,
            reset_in: opens_at.filter(|&at| at > now).map(|at| at.since(now)),
            refused_for: None,
        }
    }
}
