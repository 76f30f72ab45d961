//! What is known of a budget while its response is being read.

use std::mem;

use ratekeeper_time::Nanos;
use smallvec::SmallVec;

use super::list::{self, Bare};
use super::name::{Group, ONLY, Part};
use super::number::{self, Number};
use super::said::{BUDGETS_MAX, Rounded, Told, Unit, WAIT_MAX};
use super::span::{self, EPOCH_MILLIS_MIN, MILLISECOND, Span, When};

/// A budget of which more may still be said. Of two that say different things, the stricter counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Draft<'h> {
    pub(super) name: &'h str,
    /// `None` if it counts what a request does not tell.
    pub(super) unit: Option<Unit>,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) used: Option<u64>,
    /// `Reset-After`, which beats the others.
    pub(super) reset_after: Option<Span>,
    /// Whether that has no fraction.
    pub(super) is_after_whole: bool,
    /// The last `Reset`, as it is written: where there is a `Reset-After`, it need not be read.
    pub(super) reset_text: &'h [u8],
    /// A reset that is a length.
    pub(super) reset_in: Option<Span>,
    /// A reset that is a point.
    pub(super) reset_at: Option<Span>,
    /// Whether one of them is told in less than seconds.
    pub(super) is_reset_fine: bool,
    /// The reset brings something, but perhaps not all.
    pub(super) only_more: bool,
    /// In nanoseconds.
    pub(super) window: Option<u64>,
}

impl<'h> Draft<'h> {
    #[inline]
    pub(super) fn new(name: &'h str, unit: Option<Unit>) -> Self {
        Self {
            name,
            unit,
            limit: None,
            remaining: None,
            used: None,
            reset_after: None,
            is_after_whole: false,
            reset_text: &[],
            reset_in: None,
            reset_at: None,
            is_reset_fine: false,
            only_more: false,
            window: None,
        }
    }

    /// Notes one field. What is malformed is ignored.
    #[inline]
    pub(super) fn hear(&mut self, part: Part, value: &'h [u8]) {
        match part {
            Part::Limit => lower(&mut self.limit, read_count(value)),
            Part::Remaining => lower(&mut self.remaining, read_count(value)),
            Part::Used => self.used = self.used.max(read_count(value)),
            Part::Reset if value == self.reset_text => {}
            Part::Reset => {
                let earlier = mem::replace(&mut self.reset_text, value);
                self.read_reset(earlier);
            }
            Part::ResetAfter => match span::read_wait(value, span::SECOND) {
                Some(When::After(length)) => {
                    let is_whole = value.iter().all(u8::is_ascii_digit);
                    self.is_after_whole =
                        is_whole && (self.is_after_whole || self.reset_after.is_none());
                    lengthen(&mut self.reset_after, Some(length));
                }
                Some(When::At(_)) | None => {}
            },
            Part::WindowMillis => {
                let window = number::read(value).map(|it| Span::of(it, MILLISECOND).nanos());
                self.window = self.window.max(window);
            }
            Part::UsedOfLimit => self.hear_used_of_limit(value),
        }
    }

    fn read_reset(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        match span::read_reset(text) {
            Some(When::After(length)) => lengthen(&mut self.reset_in, Some(length)),
            Some(When::At(point)) => lengthen(&mut self.reset_at, Some(point)),
            None => return,
        }
        self.is_reset_fine |= is_fine(text);
    }

    fn hear_used_of_limit(&mut self, value: &[u8]) {
        let Some((used, [b'/', limit @ ..])) = number::read_leading(value) else { return };
        if let Some(limit) = number::read(limit) {
            self.used = self.used.max(Some(used.count()));
            lower(&mut self.limit, Some(limit.count()));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.unit = self.unit.or(other.unit);
        lower(&mut self.limit, other.limit);
        lower(&mut self.remaining, other.remaining);
        self.used = self.used.max(other.used);
        if other.reset_after.is_some() {
            self.is_after_whole =
                other.is_after_whole && (self.is_after_whole || self.reset_after.is_none());
        }
        lengthen(&mut self.reset_after, other.reset_after);
        self.read_reset(other.reset_text);
        lengthen(&mut self.reset_in, other.reset_in);
        lengthen(&mut self.reset_at, other.reset_at);
        self.is_reset_fine |= other.is_reset_fine;
        self.only_more |= other.only_more;
        self.window = self.window.max(other.window);
    }

    /// Smaller is stricter.
    fn strictness(&self) -> (u64, u64) {
        let wait = self.reset_in.map_or(0, Span::nanos);
        (self.remaining().unwrap_or(u64::MAX), u64::MAX.saturating_sub(wait))
    }

    /// Never more than the limit: of two that cannot both be true, the stricter is believed.
    fn remaining(&self) -> Option<u64> {
        let unused = self.limit.zip(self.used).map(|(limit, used)| limit.saturating_sub(used));
        let remaining = self.remaining.or(unused)?;
        Some(remaining.min(self.limit.unwrap_or(u64::MAX)))
    }

    /// What is told of it, if anything is; `start` is when the response was sent.
    #[inline]
    pub(super) fn told(&self, start: impl FnOnce() -> u64) -> Option<Told<'h>> {
        let remaining = self.remaining();
        // Who does not know what is counted can still see that nothing is left.
        let unit = self.unit.or((remaining == Some(0)).then_some(Unit::Requests))?;
        let reset = self.reset_after.or_else(|| self.reset(start));
        let reset_in = reset.map(Span::wait);
        if self.limit.is_none() && remaining.is_none() && reset_in.is_none() {
            return None;
        }
        let (name, limit, only_more) = (self.name, self.limit, self.only_more);
        // A window is waited for where nothing else is said.
        let window = self.window.map(|length| Nanos::new(length.into()).min(WAIT_MAX));
        let rounded = self.rounded();
        Some(Told { name, unit, limit, remaining, reset_in, rounded, only_more, window })
    }

    /// How long it is to the reset, where there is no `Reset-After`.
    #[inline(never)]
    fn reset(&self, start: impl FnOnce() -> u64) -> Option<Span> {
        let mut said = *self;
        said.read_reset(self.reset_text);
        lengthen(&mut said.reset_in, said.reset_at.map(|point| point.since(start())));
        said.reset_in
    }

    /// How the reset was told, if in whole seconds.
    #[inline]
    fn rounded(&self) -> Option<Rounded> {
        let is_fine = self.reset_after.is_some() && !self.is_after_whole;
        if is_fine { None } else { self.rounded_to() }
    }

    #[inline(never)]
    fn rounded_to(&self) -> Option<Rounded> {
        let mut said = *self;
        said.read_reset(self.reset_text);
        match (said.reset_in, said.reset_at) {
            // Who has decimals elsewhere has them here, and leaves out those that are zero.
            _ if said.is_reset_fine => None,
            (None, Some(Span::Nanos(nanos))) => Some(Rounded::Point(nanos / span::SECOND)),
            (Some(_), None) => Some(Rounded::Length),
            _ => self.reset_after.map(|_| Rounded::Length),
        }
    }
}

/// The budgets of one response, each once.
#[derive(Clone, Debug)]
pub(super) struct Drafts<'h> {
    /// The one of a dialect with one, which is what most responses have.
    only: Draft<'h>,
    others: SmallVec<[Draft<'h>; 2]>,
}

impl Default for Drafts<'_> {
    #[inline]
    fn default() -> Self {
        Self { only: Draft::new(ONLY.name, ONLY.unit), others: SmallVec::new() }
    }
}

impl<'h> Drafts<'h> {
    /// The budget that the name of a field speaks of. There are as many as there are such names.
    #[inline]
    pub(super) fn of(&mut self, group: &'static Group) -> &mut Draft<'h> {
        if group.name.is_empty() { &mut self.only } else { self.other(group) }
    }

    fn other(&mut self, group: &'static Group) -> &mut Draft<'h> {
        let known = self.others.iter().position(|draft| draft.name == group.name);
        let place = known.unwrap_or_else(|| {
            let draft = Draft { window: group.window, ..Draft::new(group.name, group.unit) };
            self.others.push(draft);
            self.others.len().saturating_sub(1)
        });
        #[expect(clippy::indexing_slicing, reason = "it was found, or pushed, just before")]
        &mut self.others[place]
    }

    pub(super) fn named(&mut self, name: &str) -> Option<&mut Draft<'h>> {
        if name.is_empty() {
            return Some(&mut self.only);
        }
        self.others.iter_mut().find(|draft| draft.name == name)
    }

    /// Adds a budget of a list, which may be long: where there are [`BUDGETS_MAX`], the least
    /// strict is forgotten.
    pub(super) fn add(&mut self, draft: &Draft<'h>) {
        if let Some(known) = self.named(draft.name) {
            return known.merge(draft);
        }
        if self.others.len() < BUDGETS_MAX {
            return self.others.push(*draft);
        }
        let laxest = self.others.iter_mut().max_by_key(|draft| draft.strictness());
        if let Some(laxest) = laxest.filter(|laxest| draft.strictness() < laxest.strictness()) {
            *laxest = *draft;
        }
    }

    /// Gives the one budget of a dialect with one its name.
    pub(super) fn rename_only(&mut self, name: &'h str) {
        let only = mem::replace(&mut self.only, Draft::new(ONLY.name, ONLY.unit));
        match self.named(name) {
            Some(known) => known.merge(&only),
            None => self.only = Draft { name, ..only },
        }
    }

    /// What is told of each, the only one first; of too many, the strictest. `start` is when the
    /// response was sent.
    pub(super) fn tell(&mut self, start: impl Fn() -> u64, to: &mut SmallVec<[Told<'h>; 2]>) {
        if let Some(told) = self.only.told(&start) {
            to.push(told);
        }
        if !self.others.is_empty() {
            self.tell_others(start, to);
        }
    }

    fn tell_others(&mut self, start: impl Fn() -> u64, to: &mut SmallVec<[Told<'h>; 2]>) {
        while self.others.len().saturating_add(to.len()) > BUDGETS_MAX {
            let laxest = self.others.iter().enumerate().max_by_key(|(_, it)| it.strictness());
            let Some((place, _)) = laxest else { break };
            self.others.remove(place);
        }
        to.extend(self.others.iter().filter_map(|draft| draft.told(&start)));
    }
}

/// Whether a reset is told in less than seconds: as a fraction, in milliseconds, or with units.
fn is_fine(text: &[u8]) -> bool {
    match number::read(text) {
        Some(Number::Exact { whole, .. }) => whole >= EPOCH_MILLIS_MIN || text.contains(&b'.'),
        Some(Number::Huge(_)) => true,
        None => text.contains(&b'.') || matches!(text, [b'0'..=b'9', .., b'a'..=b'z']),
    }
}

pub(super) fn lower(known: &mut Option<u64>, said: Option<u64>) {
    *known = match (*known, said) {
        (Some(known), Some(said)) => Some(known.min(said)),
        (known, said) => known.or(said),
    };
}

pub(super) fn lengthen(known: &mut Option<Span>, said: Option<Span>) {
    *known = match (*known, said) {
        (Some(known), Some(said)) => Some(known.longer(said)),
        (known, said) => known.or(said),
    };
}

/// A count, rounded down; of a list of counts, the smallest.
#[inline]
fn read_count(value: &[u8]) -> Option<u64> {
    if let Some(count) = number::read_count(value) {
        return Some(count);
    }
    read_counts(value)
}

fn read_counts(value: &[u8]) -> Option<u64> {
    let mut count = None;
    let read = list::each_member(value, |member| {
        let Bare::Number(number) = member.item else { return Err(list::Malformed) };
        lower(&mut count, Some(number.count()));
        Ok(())
    });
    count.filter(|_| read.is_ok())
}
