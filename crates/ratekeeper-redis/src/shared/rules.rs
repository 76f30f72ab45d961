//! The rules in force, as Redis counts them.

use std::sync::Arc;

use hashbrown::HashMap;
use ratekeeper::Moment;
use ratekeeper::algorithm::book::{Book, RuleId};
use ratekeeper::algorithm::gcra;

use crate::rule::Rule;

/// A book of rules, and what Redis makes of them.
#[derive(Default)]
pub(super) struct Rules {
    book: Arc<Book>,
    known: HashMap<RuleId, Known>,
}

/// A rule in force.
pub(super) struct Known {
    pub(super) id: RuleId,
    pub(super) rule: gcra::Rule,
    /// None if Redis cannot count it.
    pub(super) in_redis: Option<Rule>,
    /// Since when it is in force, by the clock of this process.
    pub(super) since: Moment,
}

impl Rules {
    /// The rules of `book`. Those that were not in force before are since `at`.
    pub(super) fn next(&self, book: &Arc<Book>, at: Moment) -> Self {
        let known = book.all_in_force().map(|(id, rule)| {
            let since = self.known.get(&id).map_or(at, |known| known.since);
            (id, Known { id, rule: *rule, in_redis: Rule::new(rule).ok(), since })
        });
        Self { known: known.collect(), book: Arc::clone(book) }
    }

    /// The rule that asks by `id` are decided by.
    pub(super) fn in_force(&self, id: RuleId) -> Option<&Known> {
        self.known.get(&id).or_else(|| self.known.get(&self.book.in_force(id)?.0))
    }
}
