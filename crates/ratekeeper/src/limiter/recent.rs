//! What a thread remembers of the limits that it asked last.
//!
//! A single ask takes little more time than it takes to fetch the memory of its bucket. While a
//! processor waits for that, it begins with the next ask, but only looks so far ahead: some hundred
//! loads. So an ask does not go through all limits, and does not hold them. It goes by a copy of what
//! it needs, with the edition that it was copied from, and the shard tells, under the lock that is
//! taken anyway, whether its cells are still kept by that. With a million keys it takes a quarter
//! less time than by limits that a thread keeps as a whole.

use std::cell::Cell;
use std::sync::Arc;

use super::Request;
use crate::algorithm::book::{Action, Ask, Gcra, RuleId};
use crate::limits::resolver::{Excerpt, NO_EDITION, Overrides, may_deny};
use crate::limits::{IdBuffer, IdFormat};
use crate::store::{Fingerprint, Question, Seal};

/// How many limits are remembered.
const PLACES: usize = 16;
const WORD_BYTES: usize = size_of::<u64>();
/// Longer names are not remembered.
const NAME_BYTES_MAX: usize = NAME_WORDS * WORD_BYTES;
const NAME_WORDS: usize = 8;

thread_local! {
    static RECENT: [Recent; PLACES] = const { [const { Recent::none() }; PLACES] };
    /// The overrides of each, if there are any. Apart, because they have to be given back.
    static OVERRIDES: [Cell<Option<Arc<Overrides>>>; PLACES] =
        const { [const { Cell::new(None) }; PLACES] };
}

/// One limit. Editions are counted over all limiters of a process, so its name need not say whose.
#[repr(align(128))]
struct Recent {
    edition: Cell<u64>,
    name_bytes: Cell<usize>,
    /// The name in words, as far as there are whole ones.
    name: [Cell<u64>; NAME_WORDS],
    /// The last word of it, which may reach back into the one before.
    name_end: Cell<u64>,
    // Each on its own: what is copied as a whole is copied through memory.
    start: Cell<u128>,
    /// [`RuleId::NONE`] if there is none.
    default: Cell<RuleId>,
    is_shadow: Cell<bool>,
    /// Whether all ids are taken as they are, and all have the default.
    is_plain: Cell<bool>,
    id_format: Cell<IdFormat>,
    has_overrides: Cell<bool>,
}

/// The question that an ask by name comes to, by the limits of this edition, where `seal` is that of
/// all of them. Nothing if the limit is not remembered, or if it may be a mistake.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a question is large to return through memory")]
pub(super) fn question(
    edition: u64,
    seal: &Seal,
    ask: &Request<'_>,
    action: Action,
) -> Option<Question<Gcra>> {
    RECENT.with(|places| {
        let end = last_word(ask.limit.as_bytes());
        let place = place(ask.limit, end);
        let recent = &places[place];
        if recent.edition.get() != edition || !recent.is_called(ask.limit, end) {
            return None;
        }
        let (bucket, rule) = if recent.is_plain.get() {
            let mut buffer = IdBuffer::new();
            let id = IdFormat::Any.canonical(ask.id, &mut buffer).ok()?;
            (seal.fingerprint_from(recent.start.get(), id.as_bytes()), recent.default.get())
        } else {
            recent.bucket(place, seal, ask.id)?
        };
        let is_shadow = recent.is_shadow.get() && may_deny(action);
        Some(Question {
            bucket,
            ask: Ask { rule, action, is_shadow, cost: ask.cost },
            joined: false,
        })
    })
}

/// Remembers a limit in place of another.
pub(super) fn remember(edition: u64, name: &str, excerpt: Excerpt) {
    // Before anything is changed: what is remembered of a limit and its overrides go together.
    if name.len() > NAME_BYTES_MAX {
        return;
    }
    let Excerpt { start, id_format, is_shadow, default, overrides } = excerpt;
    let end = last_word(name.as_bytes());
    let (place, has_overrides) = (place(name, end), !overrides.is_empty());
    let kept = has_overrides.then_some(overrides);
    // While a thread ends, it keeps no overrides any more.
    let is_kept = OVERRIDES.try_with(|places| places[place].set(kept)).is_ok();
    if !is_kept {
        return;
    }
    RECENT.with(|places| {
        let recent = &places[place];
        for (place, word) in recent.name.iter().zip(name.as_bytes().as_chunks().0) {
            place.set(u64::from_le_bytes(*word));
        }
        recent.name_bytes.set(name.len());
        recent.name_end.set(end);
        recent.start.set(start);
        recent.default.set(default.unwrap_or(RuleId::NONE));
        recent.is_shadow.set(is_shadow);
        let takes_all = id_format == IdFormat::Any && default.is_some();
        recent.is_plain.set(takes_all && !has_overrides);
        recent.id_format.set(id_format);
        recent.has_overrides.set(has_overrides);
        recent.edition.set(edition);
    });
}

impl Recent {
    const fn none() -> Self {
        Self {
            edition: Cell::new(NO_EDITION),
            name_bytes: Cell::new(0),
            name: [const { Cell::new(0) }; NAME_WORDS],
            name_end: Cell::new(0),
            start: Cell::new(0),
            default: Cell::new(RuleId::NONE),
            is_shadow: Cell::new(false),
            is_plain: Cell::new(false),
            id_format: Cell::new(IdFormat::Any),
            has_overrides: Cell::new(false),
        }
    }

    #[inline]
    fn is_called(&self, name: &str, end: u64) -> bool {
        let is_word = |(place, word): (&Cell<u64>, &_)| place.get() == u64::from_le_bytes(*word);
        self.name_bytes.get() == name.len()
            && self.name_end.get() == end
            && self.name.iter().zip(name.as_bytes().as_chunks().0).all(is_word)
    }

    /// The bucket of an id and the rule that applies to it, where there is more to look at.
    #[inline(never)]
    fn bucket(&self, place: usize, seal: &Seal, id: &str) -> Option<(Fingerprint, RuleId)> {
        let mut buffer = IdBuffer::new();
        let id = self.id_format.get().canonical(id, &mut buffer).ok()?;
        let bucket = seal.fingerprint_from(self.start.get(), id.as_bytes());
        let mut rule = self.default.get();
        if self.has_overrides.get() {
            rule = overridden(place, bucket, rule)?;
        }
        (rule != RuleId::NONE).then_some((bucket, rule))
    }
}

/// The rule of a bucket's override, else the default. Nothing if the thread does not know any more.
fn overridden(place: usize, bucket: Fingerprint, default: RuleId) -> Option<RuleId> {
    let looked_up = OVERRIDES.try_with(|places| {
        let overrides = places[place].take()?;
        let rule = overrides.get(&bucket).map_or(default, |(rule, _)| *rule);
        places[place].set(Some(overrides));
        Some(rule)
    });
    looked_up.ok().flatten()
}

/// Where a name with this last word is remembered: those of one program differ most often in length or
/// at the end.
#[inline]
fn place(name: &str, end: u64) -> usize {
    let [.., last] = end.to_le_bytes();
    (name.len() ^ usize::from(last)) % PLACES
}

/// The end of a name, another one for others of the same length with the same whole words.
#[inline]
fn last_word(name: &[u8]) -> u64 {
    let fold = || name.iter().fold(0, |word, byte| word << u8::BITS | u64::from(*byte));
    name.last_chunk().map_or_else(fold, |last| u64::from_le_bytes(*last))
}

#[cfg(test)]
mod tests;
