//! What keeps budgets apart, as it travels with a request.

use std::sync::Arc;

/// What keeps budgets apart besides the route, as an extension of a request: the model where an
/// API limits each, or the account where several are used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group(Arc<str>);

impl Group {
    /// A group of this name.
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
