//! What must hold whatever a server sends, for a fuzzer to call.

use ratekeeper_time::{Moment, Nanos};

use super::{BUDGETS_MAX, Said, WAIT_MAX, Wait, read};

const DATE: (&str, &[u8]) = ("date", b"Mon, 16 Nov 2026 10:00:00 GMT");
const HOUR: Nanos = Nanos::from_secs(3_600);
/// 2026-11-16 10:00:00 UTC.
const NOW: Moment = Moment::from_nanos(1_794_823_200_000_000_000);

/// Reads `data` as header fields, one in a line.
///
/// # Panics
///
/// If something is said that cannot be, if the case of names matters, if saying a thing twice makes
/// a difference, or if the caller's clock does where there is a `Date`.
pub fn fuzz_one(data: &[u8]) {
    let fields: Vec<(&str, &[u8])> = data.split(|byte| *byte == b'\n').filter_map(split).collect();
    let upper: Vec<_> = fields.iter().map(|(name, _)| name.to_ascii_uppercase()).collect();
    let said = read(fields.iter().copied(), NOW);
    check(&said);

    let loud = upper.iter().zip(&fields).map(|(name, (_, value))| (&**name, *value));
    assert_eq!(said, read(loud, NOW), "the case of names matters");

    let twice = fields.iter().chain(&fields).copied();
    assert_eq!(said, read(twice, NOW), "it matters how often a thing is said");

    let dated = || fields.iter().copied().chain([DATE]);
    let early = read(dated(), NOW.before(HOUR));
    check(&early);
    assert_eq!(early, read(dated(), NOW.after(HOUR)), "the caller's clock matters");
}

fn split(line: &[u8]) -> Option<(&str, &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at_checked(colon)?;
    Some((str::from_utf8(name).ok()?, value.get(1..)?))
}

fn check(said: &Said<'_>) {
    assert!(said.budgets.len() <= BUDGETS_MAX, "{} budgets", said.budgets.len());
    said.retry_after.iter().for_each(check_wait);
    for (place, told) in said.budgets.iter().enumerate() {
        told.reset_in.iter().for_each(check_wait);
        assert!(told.window <= Some(WAIT_MAX), "a window is too long");
        let is_something =
            told.limit.is_some() || told.remaining.is_some() || told.reset_in.is_some();
        assert!(is_something, "nothing is said of {:?}", told.name);
        let is_possible = told.remaining <= told.limit || told.limit.is_none();
        assert!(is_possible, "more is left of {:?} than there is", told.name);
        let mut others = said.budgets.iter().skip(place.saturating_add(1));
        assert!(!others.any(|other| other.name == told.name), "{:?} is there twice", told.name);
    }
}

fn check_wait(wait: &Wait) {
    assert!(wait.length <= WAIT_MAX, "a wait is too long");
    if let Some(truly) = wait.truly_secs {
        assert!(truly.is_finite() && truly >= 604_800.0, "{truly} was cut");
        assert_eq!(wait.length, WAIT_MAX, "what was cut is as long as can be");
    }
}
