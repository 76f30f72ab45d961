//! `ratekeeper replay limits`: mistakes. Each is answered by one line, and the replay goes on.

use crate::program::{Ran, file, run_with};

const LINE_BYTES_MAX: usize = 1 << 20;
const GOOD: &str = r#"{"at":0,"op":"check","limit":"A","id":"x","cost":0}"#;

/// Replays `line` between two good ones.
fn replay_between(name: &str, line: &[u8]) -> Ran {
    let limits = file(
        &format!("errors-{name}.yaml"),
        "A: {burst: 5, count: 5, period: 5s}\nNewOrdersPerAccount: {burst: 5, count: 5, period: 5s}",
    );
    let input = [GOOD.as_bytes(), line, GOOD.as_bytes(), b""].join(&b'\n');
    run_with(&["replay", "limits", "--limits", &limits], &input)
}

/// What the line is answered, if that is an error between two good answers.
fn error_of(name: &str, line: &[u8]) -> String {
    let ran = replay_between(name, line);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    let answers = ran.json();
    assert_eq!(answers.len(), 3, "one line out for each line in: {}", ran.stdout);
    assert_eq!(answers[0], answers[2], "a mistake spends nothing");
    assert_eq!(answers[1].as_object().unwrap().len(), 1, "{}", answers[1]);
    answers[1]["error"].as_str().unwrap_or_else(|| panic!("{}", answers[1])).to_owned()
}

fn are_refused(name: &str, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let error = error_of(name, line.as_bytes());
        assert!(error.contains(expected), "{line}: expected `{expected}`, was `{error}`");
    }
}

#[test]
fn what_is_not_a_json_object_is_refused() {
    are_refused(
        "json",
        &[
            ("", "the line is blank: expected a JSON object"),
            (" \t\r", "the line is blank"),
            ("nope", "not JSON: "),
            ("{\"at\":0", "not JSON: EOF"),
            ("{\"at\":0,}", "not JSON: "),
            (&format!("{GOOD} {GOOD}"), "not JSON: trailing characters"),
            ("[0,\"spend\",\"A\",\"x\"]", "expected a JSON object such as"),
            ("7", "expected a JSON object such as"),
            ("null", "expected a JSON object such as"),
            (&"[".repeat(100_000), "not JSON: "),
        ],
    );
}

#[test]
fn fields_must_be_there_once_and_belong_to_the_op() {
    are_refused(
        "fields",
        &[
            ("{}", "`op` is missing"),
            (r#"{"op":"spend","limit":"A","id":"x"}"#, "`at` is missing"),
            (r#"{"at":0,"limit":"A","id":"x"}"#, "`op` is missing"),
            (r#"{"at":0,"op":"spend","id":"x"}"#, "`limit` is missing: `spend` needs it"),
            (r#"{"at":0,"op":"reset","limit":"A"}"#, "`id` is missing: `reset` needs it"),
            (r#"{"at":0,"op":"transaction"}"#, "`asks` is missing: `transaction` needs it"),
            (r#"{"at":0,"op":"reload"}"#, "`limits` is missing: `reload` needs it"),
            (r#"{"at":0,"op":"spend","limit":"A","id":"x","costs":1}"#, "unknown field `costs`"),
            (r#"{"at":0,"op":"spend","limit":"A","id":"x","id":"x"}"#, "duplicate field `id`"),
            (
                r#"{"at":0,"op":"check","limit":"A","id":"x","asks":[]}"#,
                "`asks` does not belong to `check`",
            ),
            (r#"{"at":0,"op":"transaction","asks":[],"cost":1}"#, "`cost` does not belong to"),
            (r#"{"at":0,"op":"reload","limits":"f","id":"x"}"#, "`id` does not belong to `reload`"),
        ],
    );
}

#[test]
fn values_must_be_of_their_kind() {
    are_refused(
        "kinds",
        &[
            (
                r#"{"at":0,"op":"sped","limit":"A","id":"x"}"#,
                "no op is called `sped`: expected spend,",
            ),
            (r#"{"at":0,"op":1,"limit":"A","id":"x"}"#, "`op` is 1: expected a string"),
            (
                r#"{"at":0,"op":"spend","limit":null,"id":"x"}"#,
                "`limit` is null: expected a string",
            ),
            (
                r#"{"at":0,"op":"spend","limit":"A","id":1.5}"#,
                "`id` is 1.5: expected a string or a",
            ),
            (
                r#"{"at":0,"op":"spend","limit":"A","id":true}"#,
                "`id` is true: expected a string or a",
            ),
            (
                r#"{"at":0,"op":"spend","limit":"A","id":["x"]}"#,
                "`id` is an array: expected a string",
            ),
            (r#"{"at":0,"op":"transaction","asks":{}}"#, "`asks` is an object: expected an array"),
            (r#"{"at":0,"op":"reload","limits":7}"#, "`limits` is 7: expected a string"),
        ],
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    let cost = "expected a whole number from 0 to 18446744073709551615";
    for number in ["-1", "1.0", "0.5", "1e3", "1e400", "18446744073709551616", "null", "\"1\""] {
        let line = format!(r#"{{"at":0,"op":"spend","limit":"A","id":"x","cost":{number}}}"#);
        are_refused("cost", &[(&line, cost)]);
    }
    let at = "expected a whole number from 0 to 9223372036854775807";
    for number in ["-1", "1.0", "1e3", "9223372036854775808", "99999999999999999999", "\"0\""] {
        let line = format!(r#"{{"at":{number},"op":"spend","limit":"A","id":"x"}}"#);
        are_refused("at", &[(&line, at)]);
    }
}

#[test]
fn what_the_limits_cannot_decide_is_refused() {
    are_refused(
        "mistakes",
        &[
            (r#"{"at":0,"op":"spend","limit":"B","id":"x"}"#, "no limit is called `B`"),
            (
                r#"{"at":0,"op":"spend","limit":"NewOrderPerAccount","id":"1"}"#,
                "did you mean `NewOrdersPerAccount`?",
            ),
            (
                r#"{"at":0,"op":"spend","limit":"NewOrdersPerAccount","id":"x"}"#,
                "`x` is not an id of",
            ),
            (r#"{"at":0,"op":"spend","limit":"A","id":""}"#, "the id is empty"),
            (
                r#"{"at":0,"op":"spend","limit":"A","id":"x","cost":6}"#,
                "a cost of 6 is more than `A` ever holds: its burst is 5",
            ),
            (r#"{"at":0,"op":"check","limit":"A","id":"x","cost":6}"#, "its burst is 5"),
            (
                r#"{"at":0,"op":"refund","limit":"A","id":"x","cost":18446744073709551615}"#,
                "its burst is 5",
            ),
        ],
    );
    let long = "x".repeat(513);
    let line = format!(r#"{{"at":0,"op":"spend","limit":"A","id":"{long}"}}"#);
    are_refused("mistakes-long", &[(&line, "the id is longer than 512 bytes")]);
}

#[test]
fn transactions_that_cannot_be_are_refused() {
    let transaction = |asks: &str| format!(r#"{{"at":0,"op":"transaction","asks":[{asks}]}}"#);
    let a = r#"{"limit":"A","id":"x"}"#;
    let many: Vec<_> = (0..257).map(|id| format!(r#"{{"limit":"A","id":{id}}}"#)).collect();
    let cases = [
        (String::new(), "the transaction is empty"),
        (format!("{a},{a}"), "bucket A:x occurs twice"),
        (format!("{a},7"), "ask 2: expected a JSON object such as"),
        (format!(r#"{a},["A","y"]"#), "ask 2: expected a JSON object such as"),
        (format!(r#"{a},{{"limit":"A"}}"#), "ask 2: `id` is missing"),
        (format!(r#"{a},{{"limit":"A","id":"y","at":0}}"#), "ask 2: unknown field `at`"),
        (
            r#"{"limit":"A","id":"y","mode":"spend"}"#.into(),
            "no mode is called `spend`: expected check-and-spend",
        ),
        (
            r#"{"limit":"A","id":"y","cost":-1}"#.into(),
            "ask 1: `cost` is -1: expected a whole number",
        ),
        (format!(r#"{a},{{"limit":"A","id":"y","cost":6}}"#), "its burst is 5"),
        (format!(r#"{a},{{"limit":"B","id":"y"}}"#), "no limit is called `B`"),
        (many.join(","), "the transaction has 257 asks"),
    ];
    for (asks, expected) in cases {
        are_refused("transactions", &[(&transaction(&asks), expected)]);
    }
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    let error = error_of("bytes", b"{\"at\":0,\"op\":\"spend\",\"limit\":\"A\",\"id\":\"\xff\"}");
    assert_eq!(error, "byte 39 of the line is not UTF-8: send JSON as UTF-8");
    let error = error_of("surrogate", br#"{"at":0,"op":"spend","limit":"A","id":"\ud800"}"#);
    assert!(error.starts_with("not JSON: "), "{error}");
}

/// A good line, made as long as is wanted by blanks.
fn padded(length: usize) -> Vec<u8> {
    let mut line = GOOD.as_bytes().to_vec();
    line.resize(length, b' ');
    line
}

#[test]
fn a_line_too_long_is_skipped_as_a_whole() {
    let expected = "the line is longer than 1048576 bytes: send less in one line";
    for length in [LINE_BYTES_MAX + 1, LINE_BYTES_MAX + 2, 5 * LINE_BYTES_MAX] {
        assert_eq!(error_of("long", &padded(length)), expected);
    }
    let longest = replay_between("longest", &padded(LINE_BYTES_MAX)).json();
    assert_eq!((longest.len(), &longest[1]), (3, &longest[0]));
}

#[test]
fn a_last_line_needs_no_newline_whatever_its_length() {
    let limits = file("errors-last.yaml", "A: {burst: 5, count: 5, period: 5s}");
    let args = ["replay", "limits", "--limits", &limits];
    for (length, is_error) in [(LINE_BYTES_MAX, false), (LINE_BYTES_MAX + 1, true)] {
        let answers = run_with(&args, &padded(length)).json();
        assert_eq!((answers.len(), answers[0].get("error").is_some()), (1, is_error));
    }
}
