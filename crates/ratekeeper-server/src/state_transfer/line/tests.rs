use super::*;

#[test]
fn a_line_is_written_as_it_was_read() {
    for line in [
        r#"{"kind":"bucket","bucket":"6:ada","value":"1763273645123456 300000 100000/1 20"}"#,
        r#"{"kind":"bucket","bucket":"a\"b","value":"1763273645123456 300000 100000/1 20"}"#,
        r#"{"kind":"average","bucket":"ip=1","value":"1763273645123456 3.25 20"}"#,
        r#"{"kind":"quota","bucket_hex":"ff00","value":"9 1763273705.123456000 s"}"#,
    ] {
        assert_eq!(to_line(&from_line(line.as_bytes()).unwrap()), line);
    }
    let short = r#"{"bucket":"6:ada","value":"1763273645123456 300000 100000/1 20"}"#;
    assert!(matches!(from_line(short.as_bytes()).unwrap().value, Value::Bucket(_)));
}

#[test]
fn a_line_that_says_something_else_is_refused_in_words() {
    for (line, expected) in [
        ("", "expected a JSON object such as"),
        ("6:ada", "expected a JSON object such as"),
        (r#"{"bucket":"a"}"#, "missing field `value`"),
        (r#"{"bucket":"a","value":"1 1 1/1 1","ttl":1}"#, "unknown field `ttl`"),
        (r#"{"value":"1 1 1/1 1"}"#, "either `bucket`, or `bucket_hex`"),
        (r#"{"bucket_hex":"f","value":"1 1 1/1 1"}"#, "two digits per byte"),
        (r#"{"bucket":"a","value":"1 2 1/1 1"}"#, "expected `AT DEBT STEP/RATE BURST"),
        (r#"{"kind":"quota","bucket":"a","value":"1 2 1/1 1"}"#, "`value` is not that of a quota"),
    ] {
        let said = from_line(line.as_bytes()).unwrap_err().to_string();
        assert!(said.contains(expected), "{line}: {said}");
    }
}
