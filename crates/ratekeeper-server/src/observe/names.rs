//! The names that were ever counted, each with a number that stays.

use std::sync::Arc;

use hashbrown::HashMap;
use ratekeeper::limits::NAMES_MAX;

/// Names in the order in which they came. None is ever forgotten, because a counter that was read
/// once must not go away; so there is a bound, which only many reloads can reach.
#[derive(Debug, Default)]
pub(super) struct Names {
    order: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, usize>,
}

impl Names {
    /// The number of a name, which it has from now on; none if there are too many names.
    pub(super) fn number(&mut self, name: &str) -> Option<(usize, Arc<str>)> {
        if let Some(found) = self.find(name) {
            return Some(found);
        }
        let number = self.order.len();
        if number >= NAMES_MAX {
            return None;
        }
        let name: Arc<str> = name.into();
        self.order.push(Arc::clone(&name));
        self.numbers.insert(Arc::clone(&name), number);
        Some((number, name))
    }

    /// The number that a name has.
    pub(super) fn find(&self, name: &str) -> Option<(usize, Arc<str>)> {
        self.numbers.get_key_value(name).map(|(name, number)| (*number, Arc::clone(name)))
    }

    /// All of them, by number.
    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.order.clone()
    }
}
