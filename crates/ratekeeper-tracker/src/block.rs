//! What refusals shut, and who goes first when that ends.
//!
//! All requests that were in flight when a refusal was heard, or that were sent although it said to
//! wait, are refused for the same reason; only a request that was sent after the wait says something
//! new. When the time is over, nobody knows yet
//! whether the server agrees. So one request goes first, and the rest follows when it was answered.
//! If its answer is late, one more goes after a while: a request that hangs must not keep all others
//! waiting.

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use crate::headers::{Scope, Wait};

/// The longest wait after refusals that do not say how long.
pub const UNSAID_MAX: Nanos = Nanos::from_secs(900);

/// So many waits in a row are believed that are shorter than what is waited without being told.
const SHORT_BELIEVED: u32 = 2;

/// Refusals of the same requests.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Refusals {
    block: Option<Block>,
    /// How many in a row did not say for how long, or for less than is waited without being told.
    strikes: u32,
}

/// Nobody may pass until then, and behind it only a few until one was answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Block {
    began: Moment,
    pub(crate) until: Moment,
    /// What the server said, in seconds, where that was longer than anybody waits.
    pub(crate) truly_secs: Option<f64>,
    pub(crate) scope: Scope,
    /// Whether one request goes first when it is over; if not, something else tells who may go.
    one_first: bool,
    /// How many went first, and when another does if the last is not answered until then.
    scouts: u64,
    another_at: Moment,
}

/// What a refusal says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusalTerms {
    pub(crate) wait: Option<Wait>,
    pub(crate) scope: Scope,
    /// Whether the response tells of the limit, so that its budget says who may go and when.
    pub(crate) is_told: bool,
}

/// What bounds the wait after a refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitBounds {
    /// How long it is where nothing says how long; doubled each time in a row.
    pub(crate) unsaid: Nanos,
    pub(crate) longest: Nanos,
}

impl Refusals {
    pub(crate) const fn block(&self) -> Option<&Block> {
        self.block.as_ref()
    }

    /// Until when nobody may pass, if that is after `now`.
    #[inline]
    pub(crate) fn shut_until(&self, now: Moment) -> Option<Moment> {
        self.block.as_ref().map(Block::opens_at).filter(|&at| at > now)
    }

    /// Whether nobody may pass, not even to find out.
    pub(crate) fn covers(&self, now: Moment) -> bool {
        self.block.is_some_and(|block| now < block.until)
    }

    /// A request is let pass, and its answer is waited for as long as `patience`.
    #[inline]
    pub(crate) fn let_pass(&mut self, now: Moment, patience: Nanos) {
        if let Some(block) = self.block.as_mut().filter(|block| now >= block.until) {
            block.scouts += 1;
            block.another_at = now.after(patience);
        }
    }

    /// A request that was sent then will not be answered, or never was sent.
    pub(crate) fn lose(&mut self, sent: Moment) {
        if let Some(block) = self.block.as_mut().filter(|block| sent >= block.until) {
            block.scouts = block.scouts.saturating_sub(1);
        }
    }

    /// A request that was sent then was not refused. Whether it was one that went first.
    #[inline]
    pub(crate) fn end(&mut self, sent: Moment) -> bool {
        let Some(block) = &self.block else { return false };
        let is_over = sent >= block.until;
        if is_over {
            *self = Self::default();
        } else if sent >= block.began {
            self.strikes = 0;
        }
        is_over
    }

    /// A request that was sent then was refused. `pause` is when it may be tried again where that
    /// is known although the server did not say it.
    pub(crate) fn refuse(
        &mut self,
        (sent, now): (Moment, Moment),
        RefusalTerms { wait, scope, is_told }: RefusalTerms,
        bounds: WaitBounds,
        pause: Option<Moment>,
    ) {
        // No time at all is no answer to the question how long.
        let said = wait.map(|wait| wait.length.min(bounds.longest)).filter(|it| *it > Nanos::ZERO);
        let truly_secs = wait.and_then(|wait| wait.truly_secs_beyond(bounds.longest));
        if let Some(known) = self.block.as_mut().filter(|block| sent < block.until) {
            if let Some(until) = said.map(|said| now.after(said)).filter(|at| *at > known.until) {
                *known = Block { truly_secs, until, another_at: until, scouts: 0, ..*known };
            }
            return;
        }
        let unsaid = || now.after(doubled(bounds.unsaid, self.strikes));
        let pause = pause.unwrap_or_else(unsaid).min(now.after(bounds.longest));
        let until = match said.map(|said| now.after(said)) {
            // It was not true twice before.
            Some(said) if self.strikes >= SHORT_BELIEVED => said.max(pause),
            Some(said) => said,
            None => pause,
        };
        let one_first = !is_told || truly_secs.is_some();
        self.block = Some(Block { truly_secs, scope, one_first, ..Block::new(now, until) });
        let is_believed = said.is_some_and(|said| said >= bounds.unsaid);
        self.strikes = if is_believed { 0 } else { self.strikes.saturating_add(1) };
    }

    /// Whatever was said, it is over by then.
    pub(crate) fn end_by(&mut self, latest: Moment) {
        if let Some(block) = &mut self.block {
            block.until = block.until.min(latest);
            block.another_at = block.another_at.min(latest);
        }
    }

    /// Nobody may pass until then, because the server said so without refusing anything.
    pub(crate) fn shut(&mut self, now: Moment, until: Moment, truly_secs: Option<f64>) {
        if self.shut_until(now).is_none_or(|known| known < until) {
            self.block = Some(Block { truly_secs, ..Block::new(now, until) });
        }
    }
}

impl Block {
    fn new(now: Moment, until: Moment) -> Self {
        let (truly_secs, scope) = (None, Scope::User);
        let (one_first, scouts) = (true, 0);
        Self { began: now, until, truly_secs, scope, one_first, scouts, another_at: until }
    }

    /// When the next request may pass.
    #[inline]
    pub(crate) fn opens_at(&self) -> Moment {
        if self.one_first && self.scouts > 0 { self.another_at } else { self.until }
    }
}

/// How long a refusal lasts that does not say.
fn doubled(unsaid: Nanos, strikes: u32) -> Nanos {
    Nanos::new(unsaid.get() << strikes.min(32)).min(UNSAID_MAX)
}
