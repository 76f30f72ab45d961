use super::*;

fn read<const N: usize>(uri: &str, names: [&str; N]) -> Result<[Option<String>; N], String> {
    let problem = |problem: Problem| serde_json::to_string(&problem).unwrap();
    query(&uri.parse().unwrap(), names).map_err(problem)
}

#[test]
fn parameters_are_read_in_any_order_and_decoded() {
    let found = read("/x?after=a%2Fb%3A%C3%A9+c&limit=L", ["limit", "after"]);
    assert_eq!(found, Ok([Some("L".into()), Some("a/b:é c".into())]));
    assert_eq!(read("/x", ["limit"]), Ok([None]));
    assert_eq!(read("/x?", ["limit"]), Ok([None]));
    assert_eq!(read("/x?limit=", ["limit"]), Ok([Some(String::new())]));
}

#[test]
fn what_a_route_does_not_know_is_refused_by_its_name() {
    let refused = read("/x?limits=L", ["limit", "after"]).unwrap_err();
    assert!(refused.contains("\"field\":\"limits\""), "{refused}");
    assert!(refused.contains("`limit`, `after`"), "{refused}");
    let twice = read("/x?limit=a&limit=a", ["limit"]).unwrap_err();
    assert!(twice.contains("twice"), "{twice}");
    let none = read("/x?a=1", []).unwrap_err();
    assert!(none.contains("no parameters"), "{none}");
}

#[test]
fn numbers_are_digits_within_their_bound() {
    let read = |text| number("cost", text, 100, 7).ok();
    assert_eq!(read(None), Some(7));
    assert_eq!(read(Some("100")), Some(100));
    for wrong in ["", "101", "+1", "-1", "1.0", " 1", "1e1", "99999999999999999999"] {
        assert_eq!(read(Some(wrong)), None, "{wrong}");
    }
}

#[test]
fn flags_are_yes_or_no() {
    let read = |text| flag("dry_run", text).ok();
    assert_eq!([None, Some("0"), Some("false")].map(read), [Some(false); 3]);
    assert_eq!([Some("1"), Some("true")].map(read), [Some(true); 2]);
    assert_eq!([Some(""), Some("yes"), Some("TRUE")].map(read), [None; 3]);
}
