use super::*;

fn number(text: &str) -> Option<Number> {
    Number::new(&serde_json::from_str(text).expect("it is a number"))
}

fn millis(length: u64) -> Wait {
    Wait { length: Nanos::new(u128::from(length) * 1_000_000), truly_secs: None }
}

fn rounded(wait: Wait) -> Reset {
    Reset { wait, is_rounded: true }
}

/// What the body says, in milliseconds, beside a field, a reset and a window in milliseconds.
fn body(text: &str, others: [Option<u64>; 3], dialect: &mut Dialect) -> u128 {
    let [header, reset, window] = others.map(|it| it.map(millis));
    let told = Told { header, reset: reset.map(rounded), window: window.map(|it| it.length) };
    let wait = number(text).and_then(|it| of_body(it, BodyUnit::AsTold, told, dialect));
    wait.expect("it says something").wait.length.get() / 1_000_000
}

#[test]
fn a_number_alone_counts_what_is_likely() {
    for (text, window, length) in [
        ("1500", None, 1_500),
        ("100", None, 100),
        ("99", None, 99_000),
        ("1500.5", None, 1_500_500),
        ("0.25", None, 250),
        ("1e300", None, 604_800_000),
        // Nobody waits for 64 seconds for a window of one.
        ("64", Some(1_000), 64),
        ("5", Some(1_000), 5_000),
    ] {
        let mut dialect = Dialect::default();
        assert_eq!(body(text, [None, None, window], &mut dialect), length, "{text} of {window:?}");
    }
    assert_eq!(number("-1"), None);
}

#[test]
fn a_number_that_is_far_longer_than_the_reset_more_likely_counts_milliseconds() {
    for (text, reset, length) in [
        ("57", 1_000, 57),
        ("57", 0, 57),
        ("99", 6_000, 99),
        // It may be a penalty.
        ("3", 1_000, 3_000),
        ("60", 20_000, 60_000),
        ("4.5", 1_000, 4_500),
    ] {
        let mut dialect = Dialect::default();
        let others = [None, Some(reset), None];
        assert_eq!(body(text, others, &mut dialect), length, "{text} beside {reset} ms");
        assert_eq!(dialect.body.is_some(), text.contains('.'), "it is not known");
    }
}

#[test]
fn what_was_shown_beside_a_field_or_a_reset_counts_from_then_on() {
    for (text, header, reset, later) in [
        ("6457", Some(7_000), None, 64),
        ("6457", None, Some(6_000), 64),
        ("6457", None, Some(7_000), 64),
        ("6457", Some(6_457_000), None, 64_000),
        ("7", Some(7_000), None, 64_000),
        ("3.5", None, None, 64_000),
        // It may be either.
        ("1", Some(1_000), None, 64_000),
        // A wait that is only longer than the reset is another.
        ("60", None, Some(1_000), 64_000),
        ("999", None, Some(1_000), 64_000),
        ("60", Some(0), None, 64_000),
    ] {
        let mut dialect = Dialect::default();
        body(text, [header, reset, None], &mut dialect);
        assert_eq!(body("64", [None; 3], &mut dialect), later, "{text}, {header:?}, {reset:?}");
    }
}

#[test]
fn retry_after_counts_milliseconds_only_where_body_and_reset_agree_on_it() {
    let cases = [
        (6_457, Some("6457"), Some(6_500), 6_457),
        (6_457, Some("6457"), None, 6_457_000),
        (6_457, None, Some(6_500), 6_457_000),
        // A longer wait than until the reset is believed.
        (60, Some("60"), Some(1_000), 60_000),
        (3_600, Some("3600"), Some(1_000), 3_600_000),
        (3_600, Some("3600"), Some(5_000), 3_600_000),
        (3_600, Some("3.6"), Some(3_600), 3_600_000),
    ];
    for (header, in_body, reset, length) in cases {
        let mut dialect = Dialect::default();
        let in_body = in_body.and_then(number);
        let header_wait = millis(header * 1_000);
        let reset = reset.map(|reset| Reset { wait: millis(reset), is_rounded: false });
        let wait = of_header(header_wait, in_body, BodyUnit::AsTold, reset, &mut dialect);
        assert_eq!(wait, millis(length), "{header}, {in_body:?}, {reset:?}");
    }
}

#[test]
fn what_the_profile_says_of_the_body_holds_for_the_same_number_in_retry_after() {
    let reset = || Some(rounded(millis(6_000)));
    for (unit, number_in_body, length) in [
        (BodyUnit::Seconds, "6457", 6_457_000),
        (BodyUnit::Milliseconds, "6457", 6_457),
        (BodyUnit::Milliseconds, "6456", 6_457_000),
    ] {
        let mut dialect = Dialect::default();
        let in_body = number(number_in_body);
        let wait = of_header(millis(6_457_000), in_body, unit, reset(), &mut dialect);
        assert_eq!(wait, millis(length), "{unit:?}, {number_in_body}");
    }
}
