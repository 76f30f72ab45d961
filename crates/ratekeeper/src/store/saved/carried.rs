//! Rules that came with asks, saved before the first cells that are under them.
//!
//! More may come while cells are saved, and asks do not wait for that. Those that no cell is under
//! are not saved, so that a restart makes room for others.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use super::{Reader, RestoreError, Writer};
use crate::Nanos;
use crate::algorithm::book::{Book, BucketCell, RuleId};
use crate::algorithm::gcra::Rule;

/// The rules that were saved so far.
#[derive(Debug, Default)]
pub struct SavedRules(HashSet<RuleId>);

/// Saves the rules of `cells` that came with asks and were not saved before.
pub(super) fn save<W: Write>(
    to: &mut Writer<W>,
    book: &Book,
    cells: &[(u128, BucketCell)],
    saved: &mut SavedRules,
) -> io::Result<()> {
    let ids = cells.iter().map(|(_, cell)| cell.rule()).filter(|id| id.carried().is_some());
    let new: Vec<_> = ids.filter(|id| saved.0.insert(*id)).collect();
    let rules = || new.iter().filter_map(|id| Some((id, book.rule(*id)?)));
    to.count(rules().count())?;
    for (id, rule) in rules() {
        let (step, rate) = rule.emission_interval();
        to.u32(id.number())?;
        for number in [rule.burst(), step, rate] {
            to.u64(number)?;
        }
    }
    Ok(())
}

/// Puts rules back under the numbers they had.
pub(super) fn restore<R: Read>(from: &mut Reader<R>, book: &Book) -> Result<(), RestoreError> {
    for _ in 0..from.u32()? {
        let id = RuleId::new(from.u32()?);
        let (burst, step, rate) = (from.u64()?, from.u64()?, from.u64()?);
        let rule = Rule::new(burst, rate, Nanos::new(step.into()));
        let rule = rule.map_err(|_| from.damage("a rule is beyond the bounds of all rules"))?;
        if !book.carried().put_back(id, &rule) {
            return Err(from.damage("a rule is there twice, or has a number that no rule has"));
        }
    }
    Ok(())
}
