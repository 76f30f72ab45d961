//! What went wrong.

use std::fmt;

use super::Seen;

/// What certainly went wrong in one bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// How many were allowed that cannot have been: so many at least have to be left out for the
    /// rest to be possible.
    pub over_admissions: u64,
    /// How many were denied although there was room.
    pub wrong_denials: u64,
    /// The first of those that were allowed.
    pub over: Vec<Finding>,
    /// The first of those that were denied.
    pub wrong: Vec<Finding>,
    told_max: usize,
}

/// An answer that cannot be right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding {
    /// When it was sent.
    pub sent: u64,
    /// When it was received.
    pub received: u64,
    /// Why it cannot be right.
    pub why: Why,
}

/// What was found, and what was expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// More were allowed in a window of time than fit in it.
    Window {
        /// When the first of them was sent.
        from: u64,
        /// When the last of them was received.
        until: u64,
        /// How many there were.
        allowed: u64,
        /// How many fit.
        most: u64,
    },
    /// There was room.
    Room {
        /// The whole tokens that were there at least.
        least: u64,
        /// Those that were asked for.
        cost: u64,
    },
    /// The average had reached the limit.
    Over {
        /// What it was at least.
        least: f64,
        /// The limit.
        limit: f64,
    },
    /// The average was below the limit.
    Under {
        /// What it was at most.
        most: f64,
        /// The limit.
        limit: f64,
    },
    /// The quota was not used up.
    Unused {
        /// How many asks may have used it at most.
        most: u64,
        /// How many it has room for.
        room: u64,
    },
    /// Nothing is ever allowed.
    Never,
    /// Everything is always allowed.
    Always,
}

impl Findings {
    pub(super) fn new(told_max: usize) -> Self {
        Self { over_admissions: 0, wrong_denials: 0, over: vec![], wrong: vec![], told_max }
    }

    pub(super) fn over(&mut self, ask: &Seen, why: Why) {
        self.over_admissions += 1;
        if self.over.len() < self.told_max {
            self.over.push(Finding { sent: ask.sent, received: ask.received, why });
        }
    }

    pub(super) fn wrong(&mut self, ask: &Seen, why: Why) {
        self.wrong_denials += 1;
        if self.wrong.len() < self.told_max {
            self.wrong.push(Finding { sent: ask.sent, received: ask.received, why });
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Window { from, until, allowed, most } => {
                let length = Seconds(until.saturating_sub(from));
                write!(f, "{allowed} were allowed within {length} s, where {most} fit")
            }
            Self::Room { least, cost } => {
                write!(f, "at least {least} tokens were there, of which it asked for {cost}")
            }
            Self::Over { least, limit } => {
                write!(f, "the rate was at least {least:.2}, the limit is {limit}")
            }
            Self::Under { most, limit } => {
                write!(f, "the rate was at most {most:.2}, the limit is {limit}")
            }
            Self::Unused { most, room } => {
                write!(f, "at most {most} asks used the quota, which has room for {room}")
            }
            Self::Never => f.write_str("the rule allows nothing"),
            Self::Always => f.write_str("the rule allows everything"),
        }
    }
}

/// Nanoseconds, to be written as seconds.
pub(super) struct Seconds(pub(super) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0 / 1_000;
        write!(f, "{}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}
