//! The rules of a door: which keys are counted, rewritten and limited, and how.

use ratekeeper::Limits;
use ratekeeper::algorithm::{Owner, average};
use ratekeeper::limits::{Faults, Source};

use super::codec::Verdict;
use super::owners::Owners;
use super::pattern::{Found, Pattern, Patterns, Searcher, Slots, Template};
use super::reader;

/// How many rules a list can have.
pub const RULES_MAX: usize = 1 << 10;
/// How long a key can become by being rewritten; a rewrite that would make it longer is left out.
pub const KEY_BYTES_MAX: usize = 8 << 10;

/// What a key gets that no rule fits, unless the file says otherwise.
pub(super) const DEFAULT_VERDICT: Verdict =
    Verdict { over: false, rate: 0.0, limit: 1.0, period_secs: 1 };

/// Rules for keys. There are none that cannot be applied: what is wrong with a file is told when
/// it is read.
#[derive(Debug)]
pub struct Rules {
    pub(super) counts: Vec<CountRule>,
    pub(super) rewrites: Vec<Rewrite>,
    pub(super) deciding: Vec<Rule>,
    pub(super) default: DefaultRule,
    /// Those of `counts`, of `rewrites`, and of `deciding`, in this order: one search finds which
    /// of them fit a key.
    pub(super) patterns: Patterns,
    /// The owners of averages.
    pub(super) owners: Owners,
}

/// Counts uses under a key of its own.
#[derive(Debug)]
pub(super) struct CountRule {
    pub(super) pattern: Pattern,
    /// `None` for the key itself.
    pub(super) key: Option<Template>,
    /// The average that the highest rate is told from. Nothing is refused by it, nor counted as over.
    pub(super) rule: average::Rule,
}

/// Replaces the part of a key that matches.
#[derive(Debug)]
pub(super) struct Rewrite {
    pub(super) pattern: Pattern,
    /// Keys that match this are left alone.
    pub(super) unless: Option<Pattern>,
    pub(super) to: Template,
}

/// Decides over the keys that match.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) pattern: Pattern,
    pub(super) action: Action,
    /// Whether uses are counted for statistics, under the key.
    pub(super) stats: bool,
}

/// Decides over the keys that no rule fits.
#[derive(Debug)]
pub(super) struct DefaultRule {
    pub(super) action: Action,
    /// Whether uses are counted for statistics, under `default`.
    pub(super) stats: bool,
}

/// How a key is decided over.
#[derive(Debug)]
pub(super) enum Action {
    /// By its average; kept under another key if there is a template.
    Average(average::Rule, Option<Template>),
    /// Always the same.
    Fixed(Verdict),
    /// By a named limit.
    Named {
        limit: Box<str>,
        /// Whom it counts for.
        id: Template,
    },
}

impl Rules {
    /// The rules that a file says. Refuses whatever it does not fully understand, and a limit that
    /// is not among `limits`; then tells everything that is wrong.
    ///
    /// ```
    /// use ratekeeper::Limits;
    /// use ratekeeper::limits::Source;
    /// use ratekeeper_protocol::udp::Rules;
    ///
    /// let text = "rules: [{match: '^ws global$', limit: 2500, period: 10}]";
    /// Rules::parse(&Source { name: "rules.yaml", text }, &Limits::new())?;
    ///
    /// let text = "rules: [{match: '^ws (global$', limit: 2500, period: 10}]";
    /// let faults = Rules::parse(&Source { name: "rules.yaml", text }, &Limits::new());
    /// let faults = faults.err().ok_or("the bracket is not closed")?;
    /// assert!(faults.to_string().starts_with("rules.yaml:1:22: unclosed group"), "{faults}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(source: &Source<'_>, limits: &Limits) -> Result<Self, Faults> {
        reader::read(source, limits)
    }

    /// What the owner of averages is called that a rule of this file stands for: its list, its place
    /// there, and its expression. The averages of `default` have [`Owner::NOBODY`].
    pub(super) fn owner_name(&self, owner: Owner) -> Option<&str> {
        self.owners.name(owner)
    }
}

/// What looking at a key needs, and keeps from one key to the next so as not to allocate.
#[derive(Debug)]
pub(super) struct RuleScratch {
    searcher: Searcher,
    slots: Slots,
    /// The key, if it was rewritten, and room for the next one.
    key: Vec<u8>,
    next: Vec<u8>,
    /// A key or id that a template made.
    made: Vec<u8>,
}

impl Rules {
    pub(super) fn scratch(&self) -> RuleScratch {
        RuleScratch {
            searcher: self.patterns.searcher(),
            slots: Slots::default(),
            key: Vec::new(),
            next: Vec::new(),
            made: Vec::new(),
        }
    }
}

impl RuleScratch {
    /// Counts a key and rewrites it: `count` gets every key that a use is to be counted under. True
    /// if it was rewritten, into [`Self::take_rewritten`].
    pub(super) fn rewrite(
        &mut self,
        rules: &Rules,
        key: &[u8],
        mut count: impl FnMut(average::Rule, &[u8]),
    ) -> bool {
        let Self { searcher, slots, made, .. } = self;
        rules.patterns.search(key, searcher);
        let mut first = None;
        for place in searcher.found_from(0) {
            let Some(rule) = rules.counts.get(place) else {
                first = Some(place.saturating_sub(rules.counts.len()));
                break;
            };
            match &rule.key {
                None => count(rule.rule, key),
                Some(template) => {
                    made.clear();
                    if let Some(found) = rule.pattern.find(key, slots) {
                        template.expand(&found, made);
                        count(rule.rule, made);
                    }
                }
            }
        }
        let Some(first) = first.filter(|first| *first < rules.rewrites.len()) else { return false };
        self.key.clear();
        self.key.extend_from_slice(key);
        // Those before it did not match the key; those behind it may match what it makes of it.
        for rewrite in rules.rewrites.iter().skip(first) {
            self.apply(rewrite);
        }
        rules.patterns.search(&self.key, &mut self.searcher);
        true
    }

    fn apply(&mut self, rewrite: &Rewrite) {
        let Self { key, next, slots, .. } = self;
        if rewrite.unless.as_ref().is_some_and(|unless| unless.is_match(key)) {
            return;
        }
        let Some(found) = rewrite.pattern.find(key, slots) else { return };
        let (before, after) = found.around();
        next.clear();
        next.extend_from_slice(before);
        rewrite.to.expand(&found, next);
        next.extend_from_slice(after);
        if next.len() <= KEY_BYTES_MAX {
            std::mem::swap(key, next);
        }
    }

    /// The key that the last one was rewritten to.
    pub(super) fn take_rewritten(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.key)
    }

    /// Gives the memory of a key back.
    pub(super) fn put_back(&mut self, key: Vec<u8>) {
        self.key = key;
    }

    /// The first rule that fits the key that [`Self::rewrite`] came to.
    pub(super) fn rule<'r>(&self, rules: &'r Rules) -> Option<&'r Rule> {
        let before = rules.counts.len().saturating_add(rules.rewrites.len());
        let first = self.searcher.found_from(before).next()?;
        rules.deciding.get(first.saturating_sub(before))
    }

    /// What a template makes of a key that matches; of a key without a pattern all of it does.
    pub(super) fn make(
        &mut self,
        template: &Template,
        pattern: Option<&Pattern>,
        key: &[u8],
    ) -> &[u8] {
        self.made.clear();
        let found = match pattern {
            Some(pattern) => pattern.find(key, &mut self.slots),
            None => Some(Found::whole(key)),
        };
        if let Some(found) = found {
            template.expand(&found, &mut self.made);
        }
        &self.made
    }
}
