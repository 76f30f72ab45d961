//! Saved state that something happened to.

#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper::algorithm::average::{self, Average};
use ratekeeper::algorithm::gcra;
use ratekeeper::algorithm::inline_rule::{self, InlineGcra, InlineRule};
use ratekeeper::algorithm::quota::{self, Quota, Unit};
use ratekeeper::algorithm::tokens::Action;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::saved::{Reader, RestoreError, Section, Writer};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Keyed, Limiter, Moment, Nanos};
use ratekeeper_testkit::random::Random;

const NOW: Moment = Moment::from_nanos(1_700_000_000_000_000_000);

fn limits() -> Limits {
    let defaults = Source {
        name: "limits.yaml",
        text: "A: {burst: 10, count: 1, period: 1h}\nB: {burst: 3, count: 1, period: 3s}",
    };
    let overrides =
        Source { name: "overrides.yaml", text: "A:x: {burst: 20, count: 1, period: 1h}" };
    Limits::parse(&defaults, Some(&overrides)).unwrap()
}

/// A file with a few buckets of each kind.
fn file() -> Vec<u8> {
    let limiter = Limiter::with_memory(limits(), MEMORY_MIN).unwrap();
    let _ = limiter.spend("A", "x", 1, NOW).unwrap();
    let _ = limiter.spend("A", "y", 1, NOW).unwrap();
    let _ = limiter.spend("B", "z", 1, NOW).unwrap();
    let inline = Keyed::<InlineGcra>::new(MEMORY_MIN).unwrap();
    for (key, burst) in [(b"x", 2), (b"y", 3)] {
        let rule = gcra::Rule::new(burst, 1, Nanos::from_secs(60)).unwrap();
        let (rule, action) = (InlineRule::new(&rule), Action::CheckAndSpend);
        let ask = inline_rule::Ask { rule, action, cost: 1 };
        inline.decide(&[inline.question(&[key], ask)], &mut [gcra::Outcome::default()], NOW);
    }
    let averages = Keyed::<Average>::new(MEMORY_MIN).unwrap();
    let question = averages.question(&[b"x"], average::Rule::new(1.0, 1.0, true).unwrap());
    averages.decide(&[question], &mut [average::Outcome::default()], NOW);
    let quotas = Keyed::<Quota>::new(MEMORY_MIN).unwrap();
    let ask = quota::Ask::Insert { quota: 5, usage: 1, ttl: 9, unit: Unit::Seconds };
    let question = quotas.question(&[b"x"], ask);
    quotas.decide(&[question], &mut [quota::Outcome::default()], NOW);

    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    limiter.save(&mut writer, NOW).unwrap();
    averages.save(&mut writer, NOW).unwrap();
    quotas.save(&mut writer, NOW).unwrap();
    inline.save(&mut writer, NOW).unwrap();
    writer.finish().unwrap();
    file
}

/// How many buckets there are in all.
fn restore(file: &[u8]) -> Result<usize, RestoreError> {
    let mut reader = Reader::new(file)?;
    let mut keys = 0;
    while let Some(section) = reader.next_section()? {
        let held = match section {
            Section::Limits => Limiter::restore(limits(), MEMORY_MIN, &mut reader, NOW)?.held(),
            Section::Averages => Keyed::<Average>::restore(MEMORY_MIN, &mut reader, NOW)?.held(),
            Section::Clocks => continue,
            Section::Quotas => Keyed::<Quota>::restore(MEMORY_MIN, &mut reader, NOW)?.held(),
            Section::InlineRules => {
                Keyed::<InlineGcra>::restore(MEMORY_MIN, &mut reader, NOW)?.held()
            }
        };
        keys += held.keys;
    }
    Ok(keys)
}

#[test]
fn every_byte_counts() {
    let mut file = file();
    assert_eq!(restore(&file).unwrap(), 7);
    for place in 0..file.len() {
        for flip in [1, 0xff] {
            file[place] ^= flip;
            let error = restore(&file).expect_err("one byte is wrong");
            assert!(error.is_damage(), "byte {place}: {error}");
            file[place] ^= flip;
        }
    }
}

#[test]
fn a_file_that_is_cut_or_has_more_is_damaged() {
    let mut file = file();
    for length in 0..file.len() {
        let error = restore(&file[..length]).expect_err("it is cut");
        assert!(error.is_damage(), "{length} bytes: {error}");
    }
    file.push(0);
    assert!(restore(&file).unwrap_err().is_damage());
}

/// Where the sums are right, what they vouch for may still be anything.
#[test]
fn contents_that_nobody_saved_never_panic() {
    let file = file();
    let mut random = Random::new(7);
    let mut refused = 0;
    for _ in 0..10_000 {
        let mut file = file.clone();
        for _ in 0..random.between(1, 4) {
            let place = random.index(file.len());
            file[place] = random.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]);
        }
        mend(&mut file);
        refused += usize::from(restore(&file).is_err());
    }
    assert!(refused > 500, "{refused}");
}

/// Makes all sums right.
fn mend(file: &mut [u8]) {
    let mut sum = crc32fast::Hasher::new();
    let (mut start, mut length) = (0, 12);
    while let Some(body) = file.get(start..start + length) {
        sum.update(body);
        let Some(place) = file.get_mut(start + length..start + length + 4) else { return };
        place.copy_from_slice(&sum.clone().finalize().to_le_bytes());
        start += length + 4;
        let Some(header) = file.get(start + 1..start + 5) else { return };
        length = 5 + u32::from_le_bytes(header.try_into().unwrap()) as usize;
    }
}

#[test]
fn a_section_of_another_kind_is_not_restored() {
    let file = file();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    let wrong = Keyed::<Quota>::restore(MEMORY_MIN, &mut reader, NOW);
    assert!(matches!(wrong, Err(RestoreError::Section { wanted: Section::Quotas })));
    reader.next_section().unwrap();
    let wrong = Keyed::<Quota>::restore(MEMORY_MIN, &mut reader, NOW);
    assert!(matches!(wrong, Err(RestoreError::Section { wanted: Section::Quotas })));
}

/// Written by hand from the description of the format.
#[test]
fn the_format_is_what_the_documentation_says() {
    let mut body = Vec::new();
    body.extend([1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat());
    body.extend(1_u32.to_le_bytes());
    body.extend(1_u64.to_le_bytes());
    body.extend(Secret::new(1, 2).seal().fingerprint(b"key").get().to_le_bytes());
    let expires = NOW.as_nanos() + 3_000_000_000;
    body.extend([7, expires, 2].map(u64::to_le_bytes).concat());
    let mut file = b"ratekeep\x06\0\0\0....\x03".to_vec();
    file.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    file.extend(body);
    file.extend(b"....\0\0\0\0\0....");
    mend(&mut file);

    let mut reader = Reader::new(file.as_slice()).unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(Section::Quotas));
    let quotas = Keyed::<Quota>::restore(MEMORY_MIN, &mut reader, NOW).unwrap();
    assert_eq!(reader.next_section().unwrap(), None);
    let mut outcome = [quota::Outcome::default()];
    quotas.decide(&[quotas.question(&[b"key"], quota::Ask::Query)], &mut outcome, NOW);
    assert_eq!(outcome[0], quota::Outcome { can: true, remaining: 7, unit: Unit::Seconds, ttl: 2 });
}
