//! Asks that look like the last one of their client.

use std::ops::Range;

use ratekeeper::algorithm::inline_rule::InlineRule;

use super::codec;

/// How long an ask can be that is remembered, without whom it is for. Every connection has its own.
const SHAPE_BYTES_MAX: usize = 128;

/// What the last ask looked like, but for whom it was. Clients send the next like the last, and
/// comparing takes a third of what reading all its words does.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    /// What stood before the word that says whom it is for, and behind it.
    text: Vec<u8>,
    before: usize,
    asked: Option<Asked>,
}

/// What such an ask asks.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// Tokens by the rule that it brings along.
    Inline { rule: InlineRule, cost: u64 },
    /// Tokens of the limit whose name stands here.
    Named { limit: Range<usize>, cost: u64 },
}

impl Shape {
    /// Remembers a request: `words[place]` says whom it is for.
    pub(super) fn learn(&mut self, request: &[u8], words: &[&[u8]], place: usize, asked: Asked) {
        self.asked = None;
        let Some((before, behind)) = codec::around(request, words, place) else { return };
        if before.len().saturating_add(behind.len()) <= SHAPE_BYTES_MAX {
            self.text.clear();
            self.text.extend_from_slice(before);
            self.text.extend_from_slice(behind);
            (self.before, self.asked) = (before.len(), Some(asked));
        }
    }

    /// Whom the first request of `rest` is for, if it looks the same, and what follows it.
    #[inline]
    pub(super) fn next<'a>(&self, rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (before, behind) = self.text.split_at_checked(self.before)?;
        let (word, rest) = codec::short_bulk(rest.strip_prefix(before)?)?;
        Some((word, rest.strip_prefix(behind)?))
    }

    /// What such a request asks.
    #[inline]
    pub(super) fn asked(&self) -> Option<&Asked> {
        self.asked.as_ref()
    }
}
