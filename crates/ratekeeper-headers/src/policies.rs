//! The lists of the IETF's drafts, old and new: `RateLimit`, `RateLimit-Policy`, and policies
//! within `RateLimit-Limit`.

use super::draft::{Draft, Drafts, lengthen, lower};
use super::list::{self, Bare, Malformed, Member, NAME_BYTES_MAX};
use super::name::ONLY;
use super::said::Unit;
use super::span::{SECOND, Span};

/// Reads all lines of `RateLimit`: what is left of each policy.
pub(super) fn read_states<'h>(lines: &[&'h [u8]], drafts: &mut Drafts<'h>) {
    all_or_nothing(lines, drafts, |drafts| {
        lines.iter().try_for_each(|line| {
            if list::is_dictionary(line) {
                return read_dictionary(line, drafts);
            }
            list::each_member(line, |member| {
                let mut draft = Draft::new(name(member.item)?, Some(Unit::Requests));
                draft.remaining = Some(count(member.remaining.ok_or(Malformed)?)?);
                draft.reset_in = member.reset.map(span).transpose()?;
                draft.only_more = draft.reset_in.is_some();
                drafts.add(&draft);
                Ok(())
            })
        })
    });
}

/// Reads all lines of `RateLimit-Policy`: how much there is of each, and in which time. Comes after
/// the states, so that of a long list those are kept of which a state is known.
pub(super) fn read_policies<'h>(lines: &[&'h [u8]], drafts: &mut Drafts<'h>) {
    all_or_nothing(lines, drafts, |drafts| {
        let mut is_unnamed = false;
        each_member(lines, |member| match member.item {
            Bare::Number(_) => {
                is_unnamed = true;
                Ok(())
            }
            _ => read_named(member, drafts),
        })?;
        // Only now is it known which limit is the one whose state is known.
        if is_unnamed { read_all_unnamed(lines, drafts) } else { Ok(()) }
    });
}

/// Reads all lines of a limit with policies: `10, 10;w=1, 50;w=60`. The number without a window is
/// the limit that applies now; without such a number it is the first.
pub(super) fn read_limit<'h>(lines: &[&'h [u8]], drafts: &mut Drafts<'h>) {
    all_or_nothing(lines, drafts, |drafts| {
        let (mut current, mut first) = (None, None);
        each_member(lines, |member| {
            let quota = count(member.item)?;
            first = first.or(Some(quota));
            if member.window.is_none() {
                lower(&mut current, Some(quota));
            }
            Ok(())
        })?;
        lower(&mut drafts.of(&ONLY).limit, current.or(first));
        read_all_unnamed(lines, drafts)
    });
}

fn read_named<'h>(member: &Member<'h>, drafts: &mut Drafts<'h>) -> Result<(), Malformed> {
    let (name, unit, window) = (name(member.item)?, unit(member)?, window(member)?);
    let limit = Some(count(member.quota.ok_or(Malformed)?)?);
    match drafts.named(name) {
        Some(known) => {
            known.unit = unit;
            lower(&mut known.limit, limit);
            known.window = known.window.max(window);
        }
        None => drafts.add(&Draft { limit, window, ..Draft::new(name, unit) }),
    }
    Ok(())
}

fn read_all_unnamed<'h>(lines: &[&'h [u8]], drafts: &mut Drafts<'h>) -> Result<(), Malformed> {
    each_member(lines, |member| match (member.item, member.window) {
        (Bare::Number(_), Some(_)) => read_unnamed(member, drafts),
        _ => Ok(()),
    })
}

/// The single item of the seventh draft: `limit=100, remaining=50, reset=30`.
fn read_dictionary<'h>(line: &'h [u8], drafts: &mut Drafts<'h>) -> Result<(), Malformed> {
    let draft = drafts.of(&ONLY);
    list::each_entry(line, |key, value| {
        match key {
            "limit" => lower(&mut draft.limit, Some(count(value)?)),
            "remaining" => lower(&mut draft.remaining, Some(count(value)?)),
            "reset" => lengthen(&mut draft.reset_in, Some(span(value)?)),
            _ => {}
        }
        Ok(())
    })
}

/// A policy that has no name but its numbers: `50;w=60`. If it is the one whose state is known, it
/// says its window; else it is a budget that is called as it is written.
fn read_unnamed<'h>(member: &Member<'h>, drafts: &mut Drafts<'h>) -> Result<(), Malformed> {
    let (quota, window, unit) = (count(member.item)?, window(member)?, unit(member)?);
    if let Some(only) = drafts.named(ONLY.name).filter(|only| only.limit == Some(quota)) {
        only.window = only.window.or(window);
    } else {
        let (limit, name) = (Some(quota), shorter(member.text)?);
        drafts.add(&Draft { limit, window, ..Draft::new(name, unit) });
    }
    Ok(())
}

/// A field that is malformed is ignored whole.
fn all_or_nothing<'h>(
    lines: &[&'h [u8]],
    drafts: &mut Drafts<'h>,
    read: impl FnOnce(&mut Drafts<'h>) -> Result<(), Malformed>,
) {
    if lines.is_empty() {
        return;
    }
    let mut changed = drafts.clone();
    if read(&mut changed).is_ok() {
        *drafts = changed;
    }
}

/// Lines are one list in pieces.
fn each_member<'h>(
    lines: &[&'h [u8]],
    mut take: impl FnMut(&Member<'h>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    lines.iter().try_for_each(|line| list::each_member(line, &mut take))
}

fn name(item: Bare<'_>) -> Result<&str, Malformed> {
    match item {
        Bare::Text(name) => shorter(name),
        Bare::Number(_) | Bare::Other => Err(Malformed),
    }
}

fn shorter(name: &str) -> Result<&str, Malformed> {
    if name.len() <= NAME_BYTES_MAX { Ok(name) } else { Err(Malformed) }
}

fn count(value: Bare<'_>) -> Result<u64, Malformed> {
    match value {
        Bare::Number(number) => Ok(number.count()),
        Bare::Text(_) | Bare::Other => Err(Malformed),
    }
}

fn span(value: Bare<'_>) -> Result<Span, Malformed> {
    match value {
        Bare::Number(number) => Ok(Span::of(number, SECOND)),
        Bare::Text(_) | Bare::Other => Err(Malformed),
    }
}

fn window(member: &Member<'_>) -> Result<Option<u64>, Malformed> {
    Ok(member.window.map(span).transpose()?.map(Span::nanos))
}

/// `None` in the result for a unit that we do not know.
fn unit(member: &Member<'_>) -> Result<Option<Unit>, Malformed> {
    let Some(unit) = member.unit else { return Ok(Some(Unit::Requests)) };
    Ok(match name(unit)? {
        "requests" => Some(Unit::Requests),
        "content-bytes" => Some(Unit::Bytes),
        "concurrent-requests" => Some(Unit::Concurrent),
        "tokens" => Some(Unit::Tokens),
        "input-tokens" => Some(Unit::InputTokens),
        "output-tokens" => Some(Unit::OutputTokens),
        _ => None,
    })
}
