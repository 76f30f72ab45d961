//! Broken files: every fault is found, and stands where it should.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Write as _;

use ratekeeper::limits::{
    COMMENT_BYTES_MAX, FILE_BYTES_MAX, Fault, Faults, Limits, NAMES_MAX, OVERRIDES_MAX, Source,
};

const BUSTED: &str = include_str!("../limits/busted.txt");
const DEFAULTS: &str = include_str!("../limits/defaults.yaml");
const OVERRIDES: &str = include_str!("../limits/overrides.yaml");
const MINE: &str = "Mine: {burst: 1, count: 1, period: 1s}\n";

fn faults(defaults: &str, overrides: Option<&str>) -> Vec<Fault> {
    let defaults = Source { name: "d", text: defaults };
    let overrides = overrides.map(|text| Source { name: "o", text });
    match Limits::parse(&defaults, overrides.as_ref()) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().cloned().collect(),
    }
}

fn told(fault: &Fault) -> String {
    let Fault { file, line, column, message, help, .. } = fault;
    format!("{file} {line}:{column} {message}; {help}")
}

/// Whether the fault stands at the `file line:column` that the expectation begins with, and says
/// the rest of it.
fn is_expected(expected: &str, fault: &Fault) -> bool {
    let Fault { file, line, column, message, help, .. } = fault;
    let place = format!("{file} {line}:{column} ");
    let part = expected.strip_prefix(&place);
    part.is_some_and(|part| message.contains(part) || help.contains(part))
}

/// What is wrong with a case of the data file, or nothing.
fn check_case(case: &str) -> Option<String> {
    let unescape = |text: &str| {
        let pairs = [("␀", "\0"), ("␉", "\t"), ("␍", "\r"), ("␛", "\u{1b}"), ("␂", "\u{feff}")];
        pairs.iter().fold(text.to_owned(), |text, (sign, meant)| text.replace(sign, meant))
    };
    let (files, expected) = case.split_once("--- faults\n").unwrap();
    let (head, overrides) = match files.split_once("--- overrides\n") {
        Some((head, overrides)) => (head, Some(unescape(overrides))),
        None => (files, None),
    };
    let defaults = head.split_once("--- defaults\n").map(|(_, text)| unescape(text));
    let found = faults(defaults.as_deref().unwrap_or(MINE), overrides.as_deref());
    let expected: Vec<_> = expected.lines().filter(|line| !line.is_empty()).collect();
    let is_right = found.len() == expected.len()
        && expected.iter().all(|expected| found.iter().any(|fault| is_expected(expected, fault)));
    if is_right {
        return None;
    }
    let found: String = found.iter().fold(String::new(), |mut text, fault| {
        writeln!(text, "{}", told(fault)).unwrap();
        text
    });
    Some(format!("=== {case}\nfound:\n{found}"))
}

#[test]
fn every_broken_file_has_its_faults_and_no_other() {
    let cases: Vec<_> = BUSTED.split("\n=== ").skip(1).collect();
    let wrong: Vec<_> = cases.iter().filter_map(|case| check_case(case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 120, "only {} cases", cases.len());
}

/// What can be put in place of a number, and what is then said of it.
const BAD_NUMBERS: [(&str, &str); 16] = [
    ("0", "is zero"),
    ("-1", "is negative"),
    ("+20", "is not a whole number"),
    ("0x14", "is not a whole number"),
    ("020", "begins with a zero"),
    ("1_000", "is not a whole number"),
    ("20.0", "is not a whole number"),
    ("2e1", "is not a whole number"),
    ("true", "is not a whole number"),
    ("twenty", "is not a whole number"),
    ("\"20\"", "is a text"),
    ("[20]", "is a list"),
    ("{a: 20}", "is a mapping"),
    ("99999999999999999999", "is too large"),
    ("１", "is not a whole number"),
    ("20 20", "is not a whole number"),
];

/// What can be put in place of a period, and what is then said of it.
const BAD_PERIODS: [(&str, &str); 16] = [
    ("180", "has no unit"),
    ("1.5", "has no unit"),
    ("1h30", "has a number without a unit"),
    ("0s", "is zero"),
    ("-1s", "is negative"),
    ("1x", "has a unit that is not known"),
    ("1H", "has a unit that is not known"),
    ("1 h", "has a unit that is not known"),
    ("h", "is not a duration"),
    ("+1s", "is not a duration"),
    ("0.5ns", "is not a whole number of nanoseconds"),
    ("200000000000w", "is longer than"),
    ("\"\"", "is empty"),
    ("[1s]", "is a list"),
    ("{s: 1}", "is a mapping"),
    ("daily", "is not a duration"),
];

/// A line `  field: value` of a good file.
struct Line<'a> {
    index: usize,
    field: &'a str,
    /// From 1.
    value_column: usize,
}

fn field_lines(text: &str) -> Vec<Line<'_>> {
    let line = |(index, line): (usize, &'static str)| {
        let (field, _) = line.trim_start().split_once(": ")?;
        let is_field = line.starts_with("  ");
        is_field.then_some(Line { index, field, value_column: line.find(": ")? + 3 })
    };
    // The files are compiled in, so that their lines live as long as the test.
    let text: &'static str = if text == DEFAULTS { DEFAULTS } else { OVERRIDES };
    text.lines().enumerate().filter_map(line).collect()
}

fn with_line(text: &str, index: usize, replace: impl Fn(&str) -> Vec<String>) -> String {
    let lines = text.lines().enumerate();
    let lines =
        lines.flat_map(|(at, line)| if at == index { replace(line) } else { vec![line.into()] });
    lines.collect::<Vec<_>>().join("\n")
}

fn faults_of(file: &str, text: &str) -> Vec<Fault> {
    if file == "d" { faults(text, None) } else { faults(DEFAULTS, Some(text)) }
}

#[track_caller]
fn assert_fault(text: &str, file: &str, expected: &str) {
    let found = faults_of(file, text);
    let told: Vec<_> = found.iter().map(told).collect();
    assert!(found.len() == 1 && is_expected(expected, &found[0]), "{expected}: {told:?}\n{text}");
}

#[test]
fn a_bad_value_in_any_place_is_found_there() {
    let mut count = 0;
    for (file, good) in [("d", DEFAULTS), ("o", OVERRIDES)] {
        for Line { index, field, value_column } in field_lines(good) {
            let bad_values = match field {
                "burst" | "count" => BAD_NUMBERS,
                "period" => BAD_PERIODS,
                _ => continue,
            };
            for (bad, said) in bad_values {
                let text = with_line(good, index, |line| {
                    vec![format!("{}{bad}", &line[..value_column - 1])]
                });
                let place = format!("{file} {}:{value_column} {field} {said}", index + 1);
                assert_fault(&text, file, &place);
                count += 1;
            }
        }
    }
    assert!(count >= 500, "only {count} files");
}

#[test]
fn a_value_left_out_in_any_place_is_found_at_its_field() {
    for (file, good) in [("d", DEFAULTS), ("o", OVERRIDES)] {
        for Line { index, field, value_column } in field_lines(good) {
            for nothing in ["", "~", "null", "# 20"] {
                let text = with_line(good, index, |line| {
                    vec![format!("{}{nothing}", &line[..value_column - 1])]
                });
                assert_fault(&text, file, &format!("{file} {}:3 {field} has no value", index + 1));
            }
        }
    }
}

#[test]
fn a_misspelt_field_in_any_place_is_found_there() {
    for (file, good) in [("d", DEFAULTS), ("o", OVERRIDES)] {
        for Line { index, field, .. } in field_lines(good) {
            let text =
                with_line(good, index, |line| vec![line.replacen(field, &format!("{field}x"), 1)]);
            let place = format!("{file} {}:3 did you mean `{field}`?", index + 1);
            assert_fault(&text, file, &place);
        }
    }
}

#[test]
fn a_field_that_stands_twice_is_found_at_the_second() {
    for (file, good) in [("d", DEFAULTS), ("o", OVERRIDES)] {
        for Line { index, field, .. } in field_lines(good) {
            let text = with_line(good, index, |line| vec![line.into(), line.into()]);
            let place = format!("{file} {}:3 `{field}` stands here twice", index + 2);
            assert_fault(&text, file, &place);
        }
    }
}

#[test]
fn a_field_that_is_missing_is_found_at_its_limit() {
    for (file, good) in [("d", DEFAULTS), ("o", OVERRIDES)] {
        let lines: Vec<_> = good.lines().collect();
        for Line { index, field, .. } in field_lines(good) {
            if !["burst", "count", "period"].contains(&field) {
                continue;
            }
            let text = with_line(good, index, |_| Vec::new());
            let owner = (0..index).rev().find(|at| !lines[*at].starts_with(' ')).unwrap();
            assert_fault(&text, file, &format!("{file} {}:1 has no {field}", owner + 1));
        }
    }
}

fn faults_in(text: &str) -> Faults {
    Limits::parse(&Source { name: "limits.yaml", text }, None).unwrap_err()
}

#[test]
fn a_fault_shows_its_line_and_marks_its_place() {
    let text = "A:\n  burst: 1\n  period: 180\n  count: 1\n";
    let expected = "limits.yaml:3:11: period has no unit
  |
3 |   period: 180
  |           ^^^ did you mean 180s or 180m?";
    assert_eq!(faults_in(text).to_string(), expected);
}

#[test]
fn a_long_line_is_shown_in_part() {
    let text =
        format!("{}A: {{burst: 0, count: 1, period: 1s}} # {}", " ".repeat(5000), "x".repeat(5000));
    let shown = faults_in(&text).to_string();
    assert!(shown.lines().all(|line| line.chars().count() < 140), "{shown}");
    assert!(shown.contains("A: {burst: 0, count"), "{shown}");
}

#[test]
fn faults_come_in_the_order_of_the_lines() {
    let text = "A: {burst: 1, count: 1, period: 1s}\nB: 1\nA: 2\nC: 3\n";
    let lines: Vec<_> = faults_in(text).iter().map(|fault| fault.line).collect();
    // Line 3 has two: its name stands twice, and it has no fields.
    assert_eq!(lines, [2, 3, 3, 4]);
}

#[test]
fn beyond_a_hundred_faults_are_counted() {
    let mut text = String::new();
    for number in 0..250 {
        writeln!(text, "N{number}: {{burst: 0, count: 1, period: 1s}}").unwrap();
    }
    let faults = faults_in(&text);
    assert_eq!((faults.iter().count(), faults.untold()), (100, 150));
    assert!(faults.to_string().ends_with("\n\nand 150 more"));
}

#[test]
fn a_file_beyond_the_bound_is_refused_before_it_is_read() {
    let text = "#".repeat(FILE_BYTES_MAX + 1);
    let faults = faults_in(&text);
    let fault = faults.iter().next().unwrap();
    assert!(fault.message.contains("larger than"), "{fault}");
}

/// The one fault that the files have.
fn only_fault(defaults: &str, overrides: Option<&str>) -> String {
    let found = faults(defaults, overrides);
    let told: Vec<_> = found.iter().map(told).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    told.concat()
}

#[test]
fn there_are_so_many_names_and_no_more() {
    let text = (0..=NAMES_MAX).fold(String::new(), |text, number| {
        text + &format!("N{number}: {{burst: 1, count: 1, period: 1s}}\n")
    });
    assert!(only_fault(&text, None).starts_with("d 65537:1 there are more than 65536 names"));
    let (text, _) = text.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(faults(text, None), []);
}

#[test]
fn there_are_so_many_overrides_and_no_more() {
    let mut text = "- Mine: {burst: 1, count: 1, period: 1s, ids: [\n".to_owned();
    for id in 0..=OVERRIDES_MAX {
        writeln!(text, "  {{id: {id}}},").unwrap();
    }
    text.push_str("  ]}\n");
    let told = only_fault(MINE, Some(&text));
    assert!(told.starts_with("o 1048578:8 there are more than 1048576 overrides"), "{told}");
}

#[test]
fn a_comment_is_so_long_and_no_longer() {
    let text = |length| {
        let comment = "x".repeat(length);
        format!("- Mine: {{burst: 1, count: 1, period: 1s, ids: [{{id: 1, comment: {comment}}}]}}")
    };
    assert_eq!(faults(MINE, Some(&text(COMMENT_BYTES_MAX))), []);
    let told = only_fault(MINE, Some(&text(COMMENT_BYTES_MAX + 1)));
    assert!(told.starts_with("o 1:65 comment is longer than 1024 bytes"), "{told}");
}

#[test]
fn an_id_with_a_line_break_does_not_break_the_fault() {
    let text = "\"Mine:a\\nb\": {burst: 1, count: 1, period: 1s}\n\
                \"Mine:a\\x0ab\": {burst: 1, count: 1, period: 1s}\n";
    let told = only_fault(MINE, Some(text));
    assert!(told.starts_with("o 2:1 `Mine:a\\nb` stands here twice"), "{told}");
}
