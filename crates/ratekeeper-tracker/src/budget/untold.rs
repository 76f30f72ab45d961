//! What was counted and no response told of.
//!
//! It counts for as long as a window lasts from when it was known: nobody knows when the window
//! began in which the server counted it. So that what is older is forgotten in time, it is kept by
//! the part of a window in which it was known.

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use crate::length::Length;

/// How many parts a window has. What is forgotten is forgotten so much of a window too late.
const PARTS: usize = 8;

/// Seldom there is any.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Untold(Option<Box<Parts>>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Parts {
    /// The oldest first.
    parts: Vec<Part>,
    /// How long a window lasts.
    length: Length,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Part {
    from: Moment,
    /// When the last of it was known.
    at: Moment,
    cost: u64,
}

impl Untold {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Adds what is known now to have been counted, or perhaps; `length` is that of a window.
    pub(super) fn add(&mut self, cost: u64, length: Length, now: Moment) {
        self.forget(now.before(length.into()));
        let Parts { parts, length: known } =
            &mut **self.0.get_or_insert_with(|| Box::new(Parts { parts: Vec::new(), length }));
        *known = length;
        let is_full = parts.len() > PARTS;
        let part = Nanos::new(Nanos::from(length).get() / PARTS as u128);
        match parts.last_mut() {
            Some(last) if is_full || now < last.from.after(part) => {
                last.at = now;
                last.cost = last.cost.saturating_add(cost);
            }
            _ => parts.push(Part { from: now, at: now, cost }),
        }
    }

    /// Forgets what was known at a moment.
    #[inline]
    pub(super) fn forget(&mut self, known: Moment) {
        if let Some(Parts { parts, .. }) = self.0.as_deref_mut() {
            parts.retain(|part| part.at > known);
            if parts.is_empty() {
                self.0 = None;
            }
        }
    }

    /// Forgets what is counted no more in a window that lasts at `now`.
    pub(super) fn forget_old(&mut self, now: Moment) {
        if let Some(length) = self.0.as_ref().map(|parts| parts.length) {
            self.forget(now.before(length.into()));
        }
    }

    #[inline]
    pub(super) fn cost(&self) -> u64 {
        let parts = self.0.iter().flat_map(|it| &it.parts);
        parts.fold(0, |sum, part| sum.saturating_add(part.cost))
    }

    /// When the first of it is counted no more; nothing if there is none.
    pub(super) fn until(&self) -> Option<Moment> {
        let Parts { parts, length } = self.0.as_deref()?;
        parts.first().map(|part| part.at.after((*length).into()))
    }
}
