//! What a new set of limits changes, in the words of those it applies to.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::field::shown_char;
use super::{IdFormat, Limit, Limits, NamedLimit};
use crate::algorithm::Share;
use crate::store::shared::Sharing;

/// One difference that somebody could notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name of the limit.
    pub name: Box<str>,
    /// The id, if it is about an override.
    pub id: Option<Box<str>>,
    /// What differs.
    pub effect: Effect,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The name was not limited before.
    New(Limit),
    /// The name is not limited any more.
    Removed(Limit),
    /// The default differs, or only one of the two has one, though both have overrides.
    Default {
        /// What it was.
        before: Option<Limit>,
        /// What it becomes.
        after: Option<Limit>,
    },
    /// The number in the bucket keys differs, so that every bucket begins anew.
    Number {
        /// What it was.
        before: Option<u32>,
        /// What it becomes.
        after: Option<u32>,
    },
    /// A limit becomes a bucket or a bucket a limit, so that what was spent is forgotten.
    Kind {
        /// Whether it becomes a bucket.
        is_bucket: bool,
    },
    /// The limit denies nobody any more, or denies again.
    Shadow {
        /// Whether it is in shadow from now on.
        is_shadow: bool,
    },
    /// The limit's buckets are shared differently, where they are shared.
    Sharing {
        /// How they are from now on.
        after: Sharing,
    },
    /// The limit has another share of memory, or does something else where that is full.
    Share {
        /// What it is from now on.
        after: Share,
    },
    /// Ids are spelled differently in bucket keys, so that buckets begin anew.
    IdFormat {
        /// What it was.
        before: IdFormat,
        /// What it becomes.
        after: IdFormat,
    },
    /// An id gets an override.
    OverrideAdded {
        /// What applied to it before.
        before: Option<Limit>,
        /// What applies now.
        after: Limit,
    },
    /// The override of an id differs.
    OverrideChanged {
        /// What applied to it before.
        before: Limit,
        /// What applies now.
        after: Limit,
    },
    /// An id loses its override.
    OverrideRemoved {
        /// What applied to it before.
        before: Limit,
        /// What applies now.
        after: Option<Limit>,
    },
}

/// What becomes different for anybody when `new` takes the place of `old`. What is only written
/// differently is not listed.
pub fn changes(old: &Limits, new: &Limits) -> Vec<Change> {
    let mut changes = Vec::new();
    for after in new {
        compare(old.named(after.name()), Some(after), &mut changes);
    }
    for before in old.iter().filter(|before| new.named(before.name()).is_none()) {
        compare(Some(before), None, &mut changes);
    }
    changes
}

/// At least one of the two is there.
fn compare(old: Option<&NamedLimit>, new: Option<&NamedLimit>, changes: &mut Vec<Change>) {
    let Some(name) = new.or(old).map(NamedLimit::name) else { return };
    let mut push = |id: Option<&str>, effect| {
        changes.push(Change { name: name.into(), id: id.map(Into::into), effect });
    };
    if let (Some(old), Some(new)) = (old, new) {
        compare_buckets(old, new).into_iter().flatten().for_each(|effect| push(None, effect));
    }
    if let Some(effect) = compare_defaults(old, new) {
        push(None, effect);
    }
    if let Some(effect) = compare_shadows(old, new) {
        push(None, effect);
    }
    if let Some(effect) = compare_sharing(old, new) {
        push(None, effect);
    }
    if let Some(effect) = compare_shares(old, new) {
        push(None, effect);
    }
    let overrides = [old, new].into_iter().flatten().flat_map(NamedLimit::overrides);
    let ids: BTreeSet<&str> = overrides.map(|over| &*over.id).collect();
    for id in ids {
        if let Some(effect) = compare_overrides(id, old, new) {
            push(Some(id), effect);
        }
    }
}

/// Whether the buckets of a name are still called what they were.
fn compare_buckets(old: &NamedLimit, new: &NamedLimit) -> [Option<Effect>; 3] {
    let is_bucket = new.is_bucket();
    let kind = (old.is_bucket() != is_bucket).then_some(Effect::Kind { is_bucket });
    let (before, after) = (old.number(), new.number());
    let number = (before != after).then_some(Effect::Number { before, after });
    let (before, after) = (old.id_format(), new.id_format());
    let id_format = (before != after).then_some(Effect::IdFormat { before, after });
    [kind, number, id_format]
}

fn compare_defaults(old: Option<&NamedLimit>, new: Option<&NamedLimit>) -> Option<Effect> {
    let default = |named: Option<&NamedLimit>| named?.default().map(|default| default.limit);
    match (default(old), default(new)) {
        (before, after) if is_same(before, after) => None,
        (None, Some(limit)) if old.is_none() => Some(Effect::New(limit)),
        (Some(limit), None) if new.is_none() => Some(Effect::Removed(limit)),
        (before, after) => Some(Effect::Default { before, after }),
    }
}

/// A name that is new in shadow is told so too.
fn compare_shadows(old: Option<&NamedLimit>, new: Option<&NamedLimit>) -> Option<Effect> {
    let (before, after) = (old.is_some_and(NamedLimit::is_shadow), new?.is_shadow());
    (before != after).then_some(Effect::Shadow { is_shadow: after })
}

fn compare_sharing(old: Option<&NamedLimit>, new: Option<&NamedLimit>) -> Option<Effect> {
    let (before, after) = (old.map(NamedLimit::sharing).unwrap_or_default(), new?.sharing());
    (before != after).then_some(Effect::Sharing { after })
}

fn compare_shares(old: Option<&NamedLimit>, new: Option<&NamedLimit>) -> Option<Effect> {
    let (before, after) = (old.map(NamedLimit::share).unwrap_or_default(), new?.share());
    (before != after).then_some(Effect::Share { after })
}

/// Compares what applies to the id, which without an override is the default.
fn compare_overrides(
    id: &str,
    old: Option<&NamedLimit>,
    new: Option<&NamedLimit>,
) -> Option<Effect> {
    let overridden = |named: Option<&NamedLimit>| named?.override_for(id).map(|over| over.limit);
    let limit = |named: Option<&NamedLimit>| named?.limit_for(id).copied();
    let (before, after) = (limit(old), limit(new));
    if is_same(before, after) {
        return None;
    }
    match (overridden(old), overridden(new)) {
        (None, Some(after)) => Some(Effect::OverrideAdded { before, after }),
        (Some(before), Some(after)) => Some(Effect::OverrideChanged { before, after }),
        (Some(before), None) => Some(Effect::OverrideRemoved { before, after }),
        (None, None) => None,
    }
}

fn is_same(before: Option<Limit>, after: Option<Limit>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => before.has_effect_of(&after),
        (before, after) => before.is_none() && after.is_none(),
    }
}

/// One line: `NewOrdersPerAccount: 300 per 3h becomes 600 per 3h`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(id) = &self.id {
            f.write_char(':')?;
            id.chars().flat_map(shown_char).try_for_each(|c| f.write_char(c))?;
        }
        write!(f, ": {}", self.effect)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New(limit) => write!(f, "new, {limit}"),
            Self::Removed(limit) => write!(f, "removed (was {limit}); asks for it become errors"),
            Self::Default { before, after } => describe_default(f, *before, *after),
            Self::Number { before, after } => {
                write!(f, "bucket number ")?;
                write_or_none(f, *before)?;
                write!(f, " becomes ")?;
                write_or_none(f, *after)?;
                write!(f, ": everything spent is forgotten")
            }
            Self::Kind { is_bucket } => {
                let kind = if *is_bucket { "a bucket" } else { "a limit" };
                write!(f, "becomes {kind}: everything spent is forgotten")
            }
            Self::Shadow { is_shadow: true } => {
                f.write_str("becomes a shadow: nobody is denied by it")
            }
            Self::Sharing { after } => write!(f, "is shared as: {after}"),
            Self::Share { after } => write!(f, "has of a full memory: {after}"),
            Self::Shadow { is_shadow: false } => f.write_str("denies again: it was a shadow"),
            Self::IdFormat { before, after } => {
                write!(f, "ids {before} become {after}: what was spent may be forgotten")
            }
            Self::OverrideAdded { before: Some(before), after } => {
                write!(f, "override added, {before} becomes {after}")
            }
            Self::OverrideAdded { before: None, after } => write!(f, "override added, {after}"),
            Self::OverrideChanged { before, after } => write!(f, "{before} becomes {after}"),
            Self::OverrideRemoved { before, after: Some(after) } => {
                write!(f, "override removed, {before} becomes {after}")
            }
            Self::OverrideRemoved { before, after: None } => {
                write!(f, "override removed (was {before}); asks for it become errors")
            }
        }
    }
}

fn describe_default(
    f: &mut fmt::Formatter<'_>,
    before: Option<Limit>,
    after: Option<Limit>,
) -> fmt::Result {
    match (before, after) {
        (Some(before), Some(after)) => write!(f, "{before} becomes {after}"),
        (None, Some(after)) => write!(f, "default added, {after}"),
        (Some(before), None) => {
            write!(f, "default removed (was {before}); ")?;
            write!(f, "asks for ids without an override become errors")
        }
        (None, None) => Ok(()),
    }
}

fn write_or_none(f: &mut fmt::Formatter<'_>, number: Option<u32>) -> fmt::Result {
    match number {
        Some(number) => write!(f, "{number}"),
        None => f.write_str("none"),
    }
}
