//! The requests of a read, one after the other.

use ratekeeper::Request;

use super::carried;
use super::codec::{self, Bounds, Fault, Words};
use super::gather::{Gathered, Step, Terms};
use super::shape::Shape;

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
        gathered: &mut Gathered<'a>,
        asks_max: usize,
    ) -> Option<usize> {
        let Self { head: [], rest: first, text } = *self else { return None };
        let (room, mut times) = (gathered.room(asks_max), 0_usize);
        let mut same: Option<(Request<'a>, u64)> = None;
        while times < room
            && let Some((word, behind)) = shape.next(self.rest)
            && let Some(id) = carried::plain(word, text)
        {
            let ask = match &mut same {
                Some((ask, _)) => {
                    ask.id = id;
                    *ask
                }
                None => same.insert(shape.ask(first, text, id, terms)?).0,
            };
            gathered.asks.push(ask);
            self.rest = behind;
            times = times.wrapping_add(1);
        }
        let (_, burst) = same?;
        gathered.step(Step::Spend { burst, times }, times);
        Some(times)
    }

    /// What was read of the rest since it was `before`; nothing of what came in pieces.
    pub(super) fn since(&self, before: &'a [u8]) -> &'a [u8] {
        before.get(..before.len().saturating_sub(self.rest.len())).unwrap_or_default()
    }
}
