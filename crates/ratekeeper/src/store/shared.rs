//! Buckets that several processes share: decided elsewhere, and so not at once.

use std::fmt;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;

use super::{MemoryStore, Question};
use crate::algorithm::{Algorithm, gcra};
use crate::{Moment, Nanos};

/// What becomes of an ask that the shared store does not answer in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// This process's memory decides, with what it knows.
    #[default]
    Local,
    /// It passes.
    Allow,
    /// It does not pass.
    Deny,
}

/// How a limit wants its buckets to be shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// What becomes of asks while the shared store is away.
    pub on_failure: OnFailure,
    /// For how long of a bucket's refill a process may take tokens in advance; none if every ask
    /// is to be decided by the shared store.
    pub lease: Option<Nanos>,
}

impl Sharing {
    /// How many tokens a process takes of a bucket in advance at most, and holds: as many as come
    /// back in the time of the lease, and no more than there are. By so many it may pass the limit
    /// in any window, and so many may be lost in the time of a lease.
    pub fn leased(&self, rule: &gcra::Rule) -> u64 {
        let Some(lease) = self.lease else { return 0 };
        let (step, rate) = rule.emission_interval();
        let tokens = lease.get().saturating_mul(rate.into()) / u128::from(step);
        u64::try_from(tokens).unwrap_or(u64::MAX).min(rule.burst())
    }
}

/// `on_store_failure: local, lease: 50ms`
impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on_store_failure: {}", self.on_failure)?;
        match self.lease {
            Some(lease) => write!(f, ", lease: {lease}"),
            None => Ok(()),
        }
    }
}

/// As a limits file says it.
impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// What the buckets of questions are called, in the order of the questions.
#[derive(Clone, Debug, Default)]
pub struct BucketNames {
    bytes: Vec<u8>,
    ends: Vec<(usize, Sharing)>,
}

impl BucketNames {
    /// Forgets all names, and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the name that `write` appends. An empty one stands for a question that is not to be
    /// asked.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Sharing) {
        let sharing = write(&mut self.bytes);
        self.ends.push((self.bytes.len(), sharing));
    }

    /// Adds the name of a bucket under a key of one or more parts, none of which can be taken for
    /// another: all but the last stand behind their length, as in `3:ada:/`, and a key of one part
    /// that begins like a length stands behind a colon.
    pub fn push_parts(&mut self, parts: &[&[u8]]) {
        self.push_with(|to| {
            let [first @ .., last] = parts else { return Sharing::default() };
            for part in first {
                // Writing to memory does not fail.
                let _ = write!(to, "{}:", part.len());
                to.extend_from_slice(part);
                to.push(b':');
            }
            if first.is_empty() && matches!(last, [] | [b'0'..=b'9' | b':', ..]) {
                to.push(b':');
            }
            to.extend_from_slice(last);
            Sharing::default()
        });
    }

    /// The names, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Sharing)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, sharing))| (&self.bytes[start..*end], *sharing))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// What a shared store is asked.
pub struct Visit<'a, A: Algorithm> {
    /// What this process keeps itself, for what can be answered without the others, and for when
    /// they cannot be reached.
    pub local: &'a MemoryStore<A>,
    /// The questions, in order. Those that are joined are one transaction.
    pub questions: &'a [Question<A>],
    /// What their buckets are called; as many as there are questions.
    pub names: &'a BucketNames,
    /// Where the answers go; as many as there are questions.
    pub outcomes: &'a mut [A::Outcome],
    /// What time it is here. The shared store has a clock of its own.
    pub now: Moment,
}

/// A visit that is under way.
pub type Visiting<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A store that several processes share.
///
/// It always answers, and in bounded time: what it cannot ask the others it decides by the
/// [`Sharing`] of the bucket.
pub trait SharedStore<A: Algorithm>: Send + Sync {
    /// Answers every question, as [`Store::decide`](super::Store::decide) says.
    fn decide<'a>(&'a self, visit: Visit<'a, A>) -> Visiting<'a>;

    /// Replaces the rules that questions are asked by, as of `at`, with all that were there before
    /// among them.
    fn install(&self, book: &Arc<A::Book>, at: Moment);

    /// Carries over what was spent to the rules of these questions, as of `at`. All others are
    /// carried over when they are next asked, as of when their rule was installed.
    fn carry_over(&self, moved: &[Question<A>], names: &BucketNames, at: Moment);
}
