//! In paused time: whenever all tasks wait, the clock jumps to the next timer.

mod cancelling;
mod lines;
mod strategies;

use std::time::Duration;

use ratekeeper_time::Nanos;

use super::{Gate, SendPermit, Strategy};
use crate::profile::{Pace, Paces, Refill};
use crate::{Profile, Request, Response};

/// An API that allows so many a second in all and says nothing about it.
pub(crate) fn paced(count: u32) -> Profile {
    let paces = Paces::new(Box::leak(Box::new([Pace::new(count, Nanos::from_secs(1))])));
    Profile { name: "paced", paces, ..Profile::generic() }
}

/// An API with one budget that is full again at one moment.
pub(super) const FIXED: Profile = Profile {
    name: "fixed",
    refill: Refill::Fixed { precision: Nanos::new(1_000_000) },
    ..Profile::generic()
};

pub(super) fn request() -> Request<'static> {
    Request::new("GET", "/things")
}

pub(super) fn wait(queue: usize, secs: u64) -> Strategy {
    Strategy::Wait { queue, deadline: Duration::from_secs(secs) }
}

/// The answer says what is left of how much, and for how long.
pub(crate) fn answer(mut permit: SendPermit, status: u16, limit: u64, left: u64, reset: &str) {
    permit.sent();
    let (limit, left) = (limit.to_string(), left.to_string());
    let fields: [(&str, &[u8]); 3] = [
        ("x-ratelimit-limit", limit.as_bytes()),
        ("x-ratelimit-remaining", left.as_bytes()),
        ("x-ratelimit-reset-after", reset.as_bytes()),
    ];
    permit.track(Response { status, fields, body: None });
}

/// The answer says nothing.
pub(crate) fn answer_nothing(mut permit: SendPermit) {
    permit.sent();
    let none: [(&str, &[u8]); 0] = [];
    permit.track(Response { status: 200, fields: none, body: None });
}

/// A gate of whose one budget nothing is left for so long.
pub(super) async fn spent(reset: &str) -> Gate {
    let gate = Gate::new(FIXED);
    let permit = gate.acquire(&request()).await.unwrap();
    answer(permit, 200, 5, 0, reset);
    gate
}
