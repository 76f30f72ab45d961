//! The rules in force, as Redis counts them.

use std::sync::Arc;

use hashbrown::HashMap;
use ratekeeper::Moment;
use ratekeeper::algorithm::book::{Book, RuleId};
use ratekeeper::algorithm::gcra;
use ratekeeper::algorithm::shelf::Shelf;

use crate::rule::Rule;

/// A book of rules, and what Redis makes of them.
#[derive(Default)]
pub(super) struct Rules {
    book: Arc<Book>,
    known: HashMap<RuleId, Known>,
    /// Those that came with asks, once they were asked by.
    carried: Arc<Shelf<Known>>,
}

/// A rule in force.
#[derive(Clone)]
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
        let (book, carried) = (Arc::clone(book), Arc::clone(&self.carried));
        Self { known: known.collect(), book, carried }
    }

    /// The same, without what came with asks: it is made anew once it is asked by.
    pub(super) fn without_carried(&self) -> Self {
        let carried = Arc::default();
        Self { book: Arc::clone(&self.book), known: self.known.clone(), carried }
    }

    /// The rule that asks by `id` are decided by.
    pub(super) fn in_force(&self, id: RuleId) -> Option<&Known> {
        self.known.get(&id).or_else(|| {
            if id.carried().is_some() {
                return self.carried(id);
            }
            let (id, _) = self.book.in_force(id)?;
            self.known.get(&id)
        })
    }

    fn carried(&self, id: RuleId) -> Option<&Known> {
        let (place, rule) = (id.carried()?, self.book.rule(id)?);
        self.carried.find_or_put(place, || {
            // Only now, whenever that is: what was spent by another is carried over as it is asked.
            let since = Moment::MAX;
            Known { id, rule, in_redis: Rule::new(&rule).ok(), since }
        })
    }
}
