//! The owners of averages: each rule that makes some has a share of memory of its own.
//!
//! An average keeps the number of its owner, also across a reload and a restart. So the number follows from the
//! expression of the rule, and not from its place in the file: a rule that is put in front of others changes
//! nobody's share.

use std::collections::HashMap;

use ratekeeper::algorithm::Owner;
use ratekeeper::store::Secret;

/// Numbers have so many bits: there are several times as many as a file can have rules.
const MASK: u32 = (1 << 14) - 1;
/// Any will do, as long as it stays the same: files are not written by strangers.
const SECRET: Secret = Secret::new(0x7564_7020_7275_6c65, 0x206f_776e_6572_7321);
/// So much of an expression is in the name of an owner.
const TEXT_CHARS_MAX: usize = 64;

/// The owners of a file, each with what people call it.
#[derive(Debug, Default)]
pub(super) struct Owners {
    names: HashMap<Owner, Box<str>>,
}

impl Owners {
    /// The owner for a rule of this list, with this place there and this expression. Where another rule of
    /// the file came to the same number, it gets the next one that is free.
    pub(super) fn add(&mut self, list: &str, place: usize, expression: &str) -> Owner {
        let key = [list.as_bytes(), expression.as_bytes()];
        let bits = SECRET.seal().fingerprint_of_parts(&key).get();
        let first = u32::try_from(bits & u128::from(MASK)).unwrap_or_default();
        // The number 0 is that of averages of `default`, which are no rule's.
        let nth = |step: u32| Owner::new((first.wrapping_add(step) & MASK).wrapping_add(1));
        let free = (0..=MASK).map(nth).find(|owner| !self.names.contains_key(owner));
        let owner = free.unwrap_or(Owner::NOBODY);
        self.names.insert(owner, name(list, place, expression));
        owner
    }

    /// What an owner is called; none if no rule of the file has this number.
    pub(super) fn name(&self, owner: Owner) -> Option<&str> {
        if owner == Owner::NOBODY {
            return Some("default");
        }
        self.names.get(&owner).map(|name| &**name)
    }
}

/// `rule 3, ^ws ip=`: the number tells rules with the same expression apart.
fn name(list: &str, place: usize, expression: &str) -> Box<str> {
    let mut name = format!("{list} {place}, ");
    let mut chars = expression.chars();
    name.extend(chars.by_ref().take(TEXT_CHARS_MAX));
    if chars.next().is_some() {
        name.push('…');
    }
    name.into()
}
