//! The requests of a read, one after the other.

use ratekeeper::Request;
use ratekeeper::algorithm::inline_rule as inline;
use ratekeeper::algorithm::tokens::Action;

use super::codec::{self, Bounds, Fault, Words};
use super::gather::{By, Gathered, Step, Terms};
use super::shape::{Asked, Shape};
use crate::scan;

/// The requests of one read, of which the first may have begun before it.
pub(super) struct Requests<'a> {
    /// The whole of the first; empty if it began with this read.
    pub(super) head: &'a [u8],
    pub(super) rest: &'a [u8],
    /// What of the rest is text, up to the first byte that is not; also of what was read since.
    pub(super) text: &'a str,
}

impl<'a> Requests<'a> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.rest.is_empty()
    }

    /// Reads the words of the next request. Returns whether there is one.
    #[inline]
    pub(super) fn next(&mut self, bounds: &Bounds, words: &mut Words<'a>) -> Result<bool, Fault> {
        if !self.head.is_empty() {
            let head = std::mem::take(&mut self.head);
            return codec::parse(head, bounds, words).map(|used| used.is_some());
        }
        let Some(used) = codec::parse(self.rest, bounds, words)? else { return Ok(false) };
        self.rest = self.rest.get(used..).unwrap_or_default();
        Ok(true)
    }

    /// Asks what the next requests ask, as long as they look like the last. Returns how many do.
    #[inline]
    pub(super) fn repeat(
        &mut self,
        shape: &Shape,
        terms: &mut Terms<'a, '_>,
        gathered: &mut Gathered<'a, '_>,
        asks_max: usize,
    ) -> Option<usize> {
        let Self { head: [], rest: first, text } = *self else { return None };
        let room = gathered.room(asks_max);
        let (by, burst, times) = match *shape.asked()? {
            Asked::Inline { rule, cost } => {
                let ask = inline::Ask { rule, action: Action::CheckAndSpend, cost };
                let times = self.while_same(shape, room, |key| {
                    gathered.inline.push(key, ask);
                    Some(())
                });
                (By::InlineRule, rule.burst(), times)
            }
            Asked::Named { ref limit, cost } => {
                // Before the limit is looked up: the next request may be of another shape.
                shape.next(first)?;
                let limit = scan::text_in(text, first.get(limit.clone())?)?;
                let (limit, burst) = terms.for_all(limit)?;
                let times = self.while_same(shape, room, |id| {
                    gathered.asks.push(Request::new(limit, scan::text_in(text, id)?, cost));
                    Some(())
                });
                (By::Limit, burst, times)
            }
        };
        if times == 0 {
            return None;
        }
        gathered.step(Step::Spend { by, burst, times }, times);
        Some(times)
    }

    /// Takes the words that say whom requests are for, as long as these look the same.
    #[inline]
    fn while_same(
        &mut self,
        shape: &Shape,
        most: usize,
        mut take: impl FnMut(&'a [u8]) -> Option<()>,
    ) -> usize {
        let mut times = 0_usize;
        while times < most
            && let Some((word, behind)) = shape.next(self.rest)
            && take(word).is_some()
        {
            self.rest = behind;
            times = times.wrapping_add(1);
        }
        times
    }

    /// What was read of the rest since it was `before`; nothing of what came in pieces.
    pub(super) fn since(&self, before: &'a [u8]) -> &'a [u8] {
        before.get(..before.len().saturating_sub(self.rest.len())).unwrap_or_default()
    }
}
