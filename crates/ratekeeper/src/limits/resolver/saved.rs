//! Limits as they were when they were saved: enough to tell what new ones change.

use std::collections::HashMap as StdHashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use hashbrown::HashMap;

use super::{Entry, NO_EDITION, Registry, Resolver, Scope};
use crate::Nanos;
use crate::algorithm::book::RuleId;
use crate::algorithm::gcra::Rule;
use crate::limits::{BUCKET_NAME_BYTES_MAX, IdFormat, Limits, NAMES_MAX, OVERRIDES_MAX};
use crate::store::saved::{Reader, RestoreError, Writer};
use crate::store::shared::Sharing;
use crate::store::{Fingerprint, Seal};

const NO_RULE: u32 = u32::MAX;
/// What stands for a rule that has left the book.
const GONE: [u64; 3] = [0; 3];

impl Registry {
    pub(crate) fn save<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        to.count(self.book.len())?;
        for entry in self.book.iter() {
            let (numbers, successor) = entry.map_or((GONE, NO_RULE), |(rule, successor)| {
                let (step, rate) = rule.emission_interval();
                ([rule.burst(), step, rate], successor.number())
            });
            for number in numbers {
                to.u64(number)?;
            }
            to.u32(successor)?;
        }
        to.count(self.ids.len())?;
        for ((name, scope, _), rule) in &self.ids {
            to.text(name)?;
            to.u8(match scope {
                Scope::Default => 0,
                Scope::Override => 1,
            })?;
            to.u32(rule.number())?;
        }
        to.count(self.defaults.len())?;
        for (name, rule) in &self.defaults {
            to.text(name)?;
            to.u32(rule.number())?;
        }
        Ok(())
    }

    /// The registry that was saved, and its rules by number.
    pub(crate) fn restore<R: Read>(from: &mut Reader<R>) -> Result<(Self, Rules), RestoreError> {
        let mut registry = <Self as Default>::default();
        let rules = registry.restore_rules(from)?;
        for _ in 0..from.u32()? {
            let name = name(from)?;
            let scope = match from.u8()? {
                0 => Scope::Default,
                1 => Scope::Override,
                _ => return Err(from.damage("a rule is for neither all nor some")),
            };
            let id = rules.read(from)?;
            if let Some(rule) = registry.book.rule(id) {
                let owner = registry.owner(&name);
                registry.book.set_owner(id, owner);
                registry.ids.insert((name, scope, rule), id);
            }
        }
        for _ in 0..from.u32()? {
            let name = name(from)?;
            registry.defaults.insert(name, rules.read(from)?);
        }
        Ok((registry, rules))
    }

    fn restore_rules<R: Read>(&mut self, from: &mut Reader<R>) -> Result<Rules, RestoreError> {
        let mut rules = Rules(Vec::new());
        let mut successors = Vec::new();
        for _ in 0..from.u32()? {
            let numbers @ [burst, step, rate] = [from.u64()?, from.u64()?, from.u64()?];
            let successor = from.u32()?;
            if numbers == GONE {
                let id = self.book.add(Rule::SMALLEST)?;
                self.is_free(id);
                rules.0.push(None);
                continue;
            }
            let rule = Rule::new(burst, rate, Nanos::new(step.into()));
            let rule = rule.map_err(|_| from.damage("a rule is beyond the bounds of all rules"))?;
            let id = self.book.add(rule)?;
            rules.0.push(Some(id));
            successors.push((id, successor));
        }
        let mut replaced = StdHashMap::new();
        for (old, new) in successors {
            let new = rules.find(new).ok_or_else(|| from.damage(UNKNOWN_RULE))?;
            if old != new {
                replaced.insert(old, new);
            }
        }
        self.book.replace(&replaced);
        Ok(rules)
    }
}

/// Rules by the numbers that they were saved under.
pub(crate) struct Rules(Vec<Option<RuleId>>);

impl Rules {
    fn find(&self, number: u32) -> Option<RuleId> {
        self.0.get(usize::try_from(number).ok()?).copied().flatten()
    }

    fn read<R: Read>(&self, from: &mut Reader<R>) -> Result<RuleId, RestoreError> {
        let number = from.u32()?;
        self.find(number).ok_or_else(|| from.damage(UNKNOWN_RULE))
    }
}

impl Resolver {
    pub(crate) fn save<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        to.count(self.entries.len().saturating_add(self.retired.len()))?;
        for (name, entry) in self.all() {
            to.text(name)?;
            entry.save(to)?;
        }
        Ok(())
    }

    /// What was saved, to be replaced: it knows what buckets were last decided by, and can answer
    /// nothing.
    pub(crate) fn restore<R: Read>(
        from: &mut Reader<R>,
        rules: &Rules,
        seal: &Seal,
    ) -> Result<Self, RestoreError> {
        let mut retired = HashMap::new();
        // Those that were in force, and as many again that were gone.
        for _ in 0..count(from, 2 * NAMES_MAX)? {
            retired.insert(name(from)?, Entry::restore(from, rules, seal)?);
        }
        let (limits, entries, places) = (Limits::new(), Vec::new(), HashMap::new());
        let (edition, has_colons) = (NO_EDITION, false);
        Ok(Self { limits, edition, entries, places, retired, has_colons })
    }
}

impl Entry {
    fn save<W: Write>(&self, to: &mut Writer<W>) -> io::Result<()> {
        to.u128(self.seal.start())?;
        to.u32(self.default.map_or(NO_RULE, RuleId::number))?;
        save_own(to, self.overrides.iter().map(|(bucket, (rule, _))| (bucket, rule)))?;
        save_own(to, self.lapsed.iter())
    }

    fn restore<R: Read>(
        from: &mut Reader<R>,
        rules: &Rules,
        seal: &Seal,
    ) -> Result<Self, RestoreError> {
        let seal = seal.starting(from.u128()?);
        let default = match from.u32()? {
            NO_RULE => None,
            number => Some(rules.find(number).ok_or_else(|| from.damage(UNKNOWN_RULE))?),
        };
        let overrides = restore_own(from, rules, |rule| (rule, 0))?;
        let lapsed = restore_own(from, rules, |rule| rule)?;
        Ok(Self {
            place: 0,
            seal,
            prefix: Box::default(),
            id_format: IdFormat::Any,
            is_shadow: false,
            sharing: Sharing::default(),
            default,
            overrides: Arc::new(overrides),
            lapsed,
        })
    }
}

fn save_own<'a, W: Write>(
    to: &mut Writer<W>,
    own: impl ExactSizeIterator<Item = (&'a Fingerprint, &'a RuleId)>,
) -> io::Result<()> {
    to.count(own.len())?;
    for (bucket, rule) in own {
        to.u128(bucket.get())?;
        to.u32(rule.number())?;
    }
    Ok(())
}

fn restore_own<R: Read, T>(
    from: &mut Reader<R>,
    rules: &Rules,
    value: impl Fn(RuleId) -> T,
) -> Result<HashMap<Fingerprint, T>, RestoreError> {
    let mut own = HashMap::new();
    for _ in 0..count(from, OVERRIDES_MAX)? {
        own.insert(from.fingerprint()?, value(rules.read(from)?));
    }
    Ok(own)
}

fn count<R: Read>(from: &mut Reader<R>, max: usize) -> Result<u32, RestoreError> {
    let count = from.u32()?;
    let is_allowed = usize::try_from(count).is_ok_and(|count| count <= max);
    if is_allowed { Ok(count) } else { Err(from.damage("more names than there can be")) }
}

fn name<R: Read>(from: &mut Reader<R>) -> Result<Box<str>, RestoreError> {
    let name = from.text()?;
    let name = (name.len() <= BUCKET_NAME_BYTES_MAX).then(|| name.into());
    name.ok_or_else(|| from.damage("a name is too long"))
}

const UNKNOWN_RULE: &str = "a rule is named that is not there";
