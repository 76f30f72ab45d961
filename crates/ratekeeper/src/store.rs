//! Where buckets are kept, and decided over.
//!
//! A store is asked many questions at once: a slice of [`Question`]s, some of which belong
//! together as one transaction. It sees fingerprints, never names.

mod cipher;
mod fingerprint;
mod hints;
mod memory;
mod prefetch;
pub mod saved;
mod shard_memory;
pub mod shared;
mod shares;
mod shelf;
mod sync;
mod table;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

pub use fingerprint::{Fingerprint, Seal, Secret};
pub use memory::{Held, MEMORY_MIN, MemoryStore};
pub use shares::Holding;
pub use table::Tally;

use std::sync::Arc;

use crate::Moment;
use crate::algorithm::Algorithm;
use crate::algorithm::book::{Action, Ask, Gcra, RuleId};

/// One ask of one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Question<A: Algorithm> {
    /// The bucket.
    pub bucket: Fingerprint,
    /// What is asked of it.
    pub ask: A::Ask,
    /// Whether this belongs to the same transaction as the question before it.
    pub joined: bool,
}

impl Question<Gcra> {
    /// A question that asks for nothing, by no rule.
    pub(crate) fn idle() -> Self {
        let (rule, action) = (RuleId::NONE, Action::CheckOnly);
        let ask = Ask { rule, action, is_shadow: false, cost: 0 };
        Self { bucket: Fingerprint::NONE, ask, joined: false }
    }
}

/// Something that decides over buckets.
pub trait Store<A: Algorithm> {
    /// Answers every question, in order. Questions that are joined are one transaction: if one of
    /// them is denied, none of them changes anything, and no other caller sees them half done. No
    /// bucket may occur twice in one transaction.
    ///
    /// `outcomes` is as long as `questions`; what it held before is lost.
    fn decide(&self, questions: &[Question<A>], outcomes: &mut [A::Outcome], now: Moment);

    /// Replaces the rules that cells are read by, with all that were there before among them.
    fn install(&self, book: &Arc<A::Book>);

    /// Carries over what was spent, as of `at`: for the buckets in `moved` to the rules of their
    /// questions, for all others to the successors of their rules.
    fn carry_over(&self, moved: &[Question<A>], at: Moment);
}
