use super::record::{Record, Row};
use super::{PAGE, RECORD, read, subjects};

fn record(rows: &[(&str, u64)]) -> Record {
    let row = |(name, count): &(&str, u64)| Row { name: (*name).to_owned(), count: *count };
    Record { compiler: "rustc 1.95.0".to_owned(), rows: rows.iter().map(row).collect() }
}

fn verdict(recorded: u64, counted: u64) -> (String, Result<(), String>) {
    let comparison = record(&[("one ask", recorded)]).compare(&record(&[("one ask", counted)]));
    let comparison = comparison.expect("both are about the same");
    (comparison.to_string(), comparison.verdict().map_err(|error| error.to_string()))
}

#[test]
fn a_record_reads_back_as_it_was_written() {
    let written = record(&[("one ask, allowed", 569), ("RESP: THROTTLE, of 100", 1_234_567)]);
    let read = Record::parse(&written.to_string()).expect("it is a record");
    assert_eq!(read, written);
}

#[test]
fn five_percent_more_pass_and_one_instruction_beyond_does_not() {
    let (text, verdict_at) = verdict(1_000, 1_050);
    assert_eq!(verdict_at, Ok(()));
    assert!(text.contains("    1000     1050    +5.0 %  one ask\n"), "{text}");
    let (text, beyond) = verdict(1_000, 1_051);
    assert!(text.contains("one ask  <- grown"), "{text}");
    let beyond = beyond.expect_err("it has grown");
    assert!(beyond.contains("`one ask`") && beyond.contains("--update"), "{beyond}");
}

#[test]
fn a_count_that_has_fallen_is_worth_recording_and_no_failure() {
    let (text, verdict_at) = verdict(1_000, 949);
    assert_eq!(verdict_at, Ok(()));
    assert!(text.contains("one ask  <- fallen"), "{text}");
    assert!(text.contains("cargo xtask gate --update"), "{text}");
    assert!(!verdict(1_000, 950).0.contains("fallen"));
}

#[test]
fn rows_that_only_one_side_has_are_refused_by_name() {
    let (one, two) = (record(&[("a", 1)]), record(&[("a", 1), ("b", 2)]));
    let missing = one.compare(&two).expect_err("b is not on record").to_string();
    assert!(missing.starts_with("`b` is not on record: "), "{missing}");
    let unknown = two.compare(&one).expect_err("b is not counted").to_string();
    assert!(unknown.starts_with("`b` is on record but not counted: "), "{unknown}");
}

#[test]
fn another_compiler_is_told() {
    let recorded = record(&[("a", 1)]);
    let counted = Record { compiler: "rustc 1.96.0".to_owned(), ..recorded.clone() };
    let text = recorded.compare(&counted).expect("both are about the same").to_string();
    assert!(text.contains("the record is of rustc 1.95.0, this is rustc 1.96.0"), "{text}");
    let same = recorded.compare(&recorded).expect("both are about the same").to_string();
    assert!(!same.contains("rustc"), "{same}");
}

#[test]
fn what_is_no_record_is_refused() {
    for text in
        ["", "# only words\n", "rustc\nsome  name\n", "rustc\n  0  a\n", "rustc\n 1  a\n 1  a\n"]
    {
        assert!(Record::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_page_shows_the_counts_on_record_and_is_otherwise_left_alone() {
    let page = "# A page\n\n    12  an ask\n   512  something else\n";
    let shown = record(&[("an ask", 1_000)]).shown_in(page);
    assert_eq!(shown, "# A page\n\n  1000  an ask\n   512  something else\n");
}

#[test]
fn the_record_is_of_all_that_is_counted_and_the_guide_shows_it() {
    let record = Record::parse(&read(RECORD).expect("it is there")).expect("it is a record");
    let recorded = record.rows.iter().map(|row| &*row.name);
    assert!(recorded.eq(subjects().map(|subject| subject.name)), "{record}");
    let page = read(PAGE).expect("it is there");
    assert!(record.shown_in(&page) == page, "`cargo xtask gate --update` writes the page, too");
}

#[test]
fn what_is_counted_is_what_was_meant() {
    for subject in subjects() {
        (subject.work)(64 * 100).unwrap_or_else(|error| panic!("{}: {error}", subject.name));
    }
}
