//! Which rule decides over a key, for whoever judges a server from outside.

use ratekeeper::algorithm::average;

use super::pattern::Pattern;
use super::rules::{Action, RuleScratch, Rules};

/// What decides over a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Governed {
    /// An average.
    Average {
        /// Its rule.
        rule: average::Rule,
        /// What it is kept under.
        key: Vec<u8>,
    },
    /// A named limit.
    Named {
        /// Its name.
        limit: String,
        /// Whom it counts for.
        id: String,
    },
    /// The answer is always the same.
    Fixed {
        /// Whether it is over the limit.
        over: bool,
    },
}

/// Looks keys up in rules. It is used again, because what a search needs takes time to make.
pub struct Guide<'r> {
    rules: &'r Rules,
    scratch: RuleScratch,
}

impl Rules {
    /// One that looks up keys in these rules.
    pub fn guide(&self) -> Guide<'_> {
        Guide { rules: self, scratch: self.scratch() }
    }
}

impl Guide<'_> {
    /// What decides over a key, as it comes in a datagram. `has_place` says whether a named limit
    /// has a place for an id: if not, the key is as good as one that no rule fits.
    pub fn governed(&mut self, key: &[u8], has_place: impl Fn(&str, &str) -> bool) -> Governed {
        let mut key = key.to_vec();
        if self.scratch.rewrite(self.rules, &key, |_, _| {}) {
            key = self.scratch.take_rewritten();
        }
        let fitting = self.scratch.rule(self.rules);
        let found = fitting
            .and_then(|rule| self.apply(&rule.action, Some(&rule.pattern), &key, &has_place));
        let found =
            found.or_else(|| self.apply(&self.rules.default.action, None, &key, &has_place));
        found.unwrap_or(Governed::Fixed { over: super::rules::DEFAULT_VERDICT.over })
    }

    fn apply(
        &mut self,
        action: &Action,
        pattern: Option<&Pattern>,
        key: &[u8],
        has_place: &impl Fn(&str, &str) -> bool,
    ) -> Option<Governed> {
        match action {
            Action::Fixed(verdict) => Some(Governed::Fixed { over: verdict.over }),
            Action::Average(rule, None) => {
                Some(Governed::Average { rule: *rule, key: key.to_vec() })
            }
            Action::Average(rule, Some(template)) => {
                let key = self.scratch.make(template, pattern, key).to_vec();
                Some(Governed::Average { rule: *rule, key })
            }
            Action::Named { limit, id } => {
                let id = std::str::from_utf8(self.scratch.make(id, pattern, key)).ok()?;
                let named = Governed::Named { limit: limit.to_string(), id: id.to_owned() };
                has_place(limit, id).then_some(named)
            }
        }
    }
}

#[cfg(test)]
mod tests;
