//! From header fields to what they say.

use std::cell::OnceCell;

use ratekeeper_time::Moment;
use smallvec::SmallVec;

use super::draft::{Drafts, lengthen, lower};
use super::list::NAME_BYTES_MAX;
use super::name::{Field, ONLY, Part};
use super::said::{Rounded, Said, Scope, Wait};
use super::span::{self, MILLISECOND, SECOND, Span, When};
use super::{number, policies};

/// A list that may be in several lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Limits,
    States,
    Policies,
}

/// Reads what a response says about limits from its header fields, in whatever dialect.
///
/// `now` counts from 1970. It is only looked at for a date or an epoch in a response that has no
/// `Date`, as the caller's clock may be wrong.
///
/// ```
/// use ratekeeper_time::{Moment, Nanos};
/// use ratekeeper_headers as headers;
///
/// let fields = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset-after", "1.25")];
/// let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
/// let said = headers::read(fields, Moment::EPOCH);
/// assert_eq!(said.budgets[0].remaining, Some(0));
/// assert_eq!(said.budgets[0].reset_in.unwrap().length, Nanos::new(1_250_000_000));
/// ```
pub fn read<'h>(fields: impl Iterator<Item = (&'h str, &'h [u8])>, now: Moment) -> Said<'h> {
    let mut said = Said::default();
    read_into(&mut said, fields, now);
    said
}

/// Does what [`read`] does, into a `Said` that the caller holds: a large value need not be moved.
pub fn read_into<'h>(
    said: &mut Said<'h>,
    fields: impl Iterator<Item = (&'h str, &'h [u8])>,
    now: Moment,
) {
    let mut reader = Reader::default();
    for (name, value) in fields {
        reader.read(name, value);
    }
    reader.finish(now, said);
}

/// Without spaces around it, which most values do not have.
#[inline]
fn trim(value: &[u8]) -> &[u8] {
    match (value.first(), value.last()) {
        (Some(b'!'..), Some(b'!'..)) => value,
        _ => value.trim_ascii(),
    }
}

#[derive(Default)]
struct Reader<'h> {
    drafts: Drafts<'h>,
    name: Option<&'h str>,
    bucket: Option<&'h str>,
    resource: Option<&'h str>,
    scope: Option<Scope>,
    is_global: bool,
    retry_in: Option<Span>,
    retry_at: Option<Span>,
    retry_millis: Option<Span>,
    /// Lists are read when all of their lines are there.
    lists: SmallVec<[(List, &'h [u8]); 3]>,
    date: Option<&'h [u8]>,
    is_cached: bool,
}

impl<'h> Reader<'h> {
    /// Reads one field. Those that most responses have, named as most servers write them, are told
    /// by their whole name: that is several times as quick as taking it apart.
    #[inline]
    fn read(&mut self, name: &str, value: &'h [u8]) {
        if !Field::may_be(name) {
            return;
        }
        match name {
            "date" => self.hear(Field::Date, value),
            "x-ratelimit-limit" => self.hear(Field::Of(&ONLY, Part::Limit), value),
            "x-ratelimit-remaining" => self.hear(Field::Of(&ONLY, Part::Remaining), value),
            "x-ratelimit-reset" => self.hear(Field::Of(&ONLY, Part::Reset), value),
            "x-ratelimit-reset-after" => self.hear(Field::Of(&ONLY, Part::ResetAfter), value),
            "x-ratelimit-bucket" => self.hear(Field::Bucket, value),
            _ => self.read_any(name, value),
        }
    }

    #[inline(never)]
    fn read_any(&mut self, name: &str, value: &'h [u8]) {
        if let Some(field) = Field::named(name) {
            self.hear(field, value);
        }
    }

    #[expect(clippy::inline_always, reason = "where the field is known, all but its arm goes away")]
    #[inline(always)]
    fn hear(&mut self, field: Field, value: &'h [u8]) {
        let value = trim(value);
        match field {
            Field::Of(group, Part::Limit) if group.name.is_empty() => {
                match number::read_count(value) {
                    limit @ Some(_) => lower(&mut self.drafts.of(group).limit, limit),
                    // It may be a list that also has policies.
                    None => self.lists.push((List::Limits, value)),
                }
            }
            Field::Of(group, part) => self.drafts.of(group).hear(part, value),
            Field::Name => self.name = self.name.or(read_name(value)),
            Field::Bucket => self.bucket = self.bucket.or(read_name(value)),
            Field::Resource => self.resource = self.resource.or(read_name(value)),
            Field::Global => self.is_global |= value.eq_ignore_ascii_case(b"true"),
            Field::Scope => self.scope = self.scope.or(read_scope(value)),
            Field::RetryAfter => match span::read_wait(value, SECOND) {
                Some(When::After(length)) => lengthen(&mut self.retry_in, Some(length)),
                Some(When::At(point)) => lengthen(&mut self.retry_at, Some(point)),
                None => {}
            },
            Field::RetryAfterMillis => {
                let millis = number::read(value).map(|it| Span::of(it, MILLISECOND));
                lengthen(&mut self.retry_millis, millis);
            }
            Field::States => self.lists.push((List::States, value)),
            Field::Policies => self.lists.push((List::Policies, value)),
            Field::Date => {
                self.date = Some(self.date.map_or(value, |known| earlier(known, value)));
            }
            Field::Age => self.is_cached |= number::read(value).is_some_and(|age| age.count() > 0),
        }
    }

    fn finish(&mut self, now: Moment, said: &mut Said<'h>) {
        // What was left when a cache stored the response says nothing of what is left now. An age
        // of zero is what caches add to responses that they have just fetched.
        if self.is_cached {
            said.cached = true;
            return;
        }
        if !self.lists.is_empty() {
            self.read_lists();
        }
        if let Some(name) = self.name {
            self.drafts.rename_only(name);
        }
        // Most responses need no date.
        let date = OnceCell::new();
        let date = || date.get_or_init(|| self.date.and_then(span::read_date).map(Span::nanos));
        // By the clock that its dates and epochs are read from. `Date` has whole seconds and is
        // rounded down, so what is counted from it never ends too early.
        let start = || date().unwrap_or(now.as_nanos());
        said.retry_after = self.retry_after(start);
        self.drafts.tell(start, &mut said.budgets);
        if said.budgets.iter().any(|told| matches!(told.rounded, Some(Rounded::Point(_)))) {
            said.date_secs = date().map(|nanos| nanos / SECOND);
        }
        (said.bucket, said.global, said.scope) = (self.bucket, self.is_global, self.scope);
        said.resource = self.resource;
    }

    #[cold]
    fn read_lists(&mut self) {
        let lines = |list: List| -> SmallVec<[&[u8]; 1]> {
            self.lists.iter().filter(|(of, _)| *of == list).map(|&(_, line)| line).collect()
        };
        policies::read_limit(&lines(List::Limits), &mut self.drafts);
        policies::read_states(&lines(List::States), &mut self.drafts);
        policies::read_policies(&lines(List::Policies), &mut self.drafts);
    }

    fn retry_after(&self, start: impl FnOnce() -> u64) -> Option<Wait> {
        let mut retry_in = self.retry_in;
        lengthen(&mut retry_in, self.retry_at.map(|point| point.since(start())));
        // Milliseconds are the finer way to say the same, unless they say less than what would
        // have been rounded up to these seconds.
        let is_same = |millis: Span, secs: Span| {
            let second = Span::Nanos(SECOND);
            millis.plus(second).longer(secs) != secs
        };
        let wait = match (self.retry_millis, retry_in) {
            (Some(millis), Some(secs)) if !is_same(millis, secs) => Some(millis.longer(secs)),
            (millis, secs) => millis.or(secs),
        };
        wait.map(Span::wait)
    }
}

/// The earlier of two dates, or the one that is a date.
#[cold]
fn earlier<'h>(known: &'h [u8], date: &'h [u8]) -> &'h [u8] {
    let nanos = |date| span::read_date(date).map_or(u64::MAX, Span::nanos);
    if nanos(date) < nanos(known) { date } else { known }
}

fn read_name(value: &[u8]) -> Option<&str> {
    let is_name = |name: &&str| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    str::from_utf8(value).ok().filter(is_name)
}

fn read_scope(value: &[u8]) -> Option<Scope> {
    let scopes = [("user", Scope::User), ("global", Scope::Global), ("shared", Scope::Shared)];
    let known = scopes.iter().find(|(name, _)| value.eq_ignore_ascii_case(name.as_bytes()));
    known.map(|(_, scope)| *scope)
}
