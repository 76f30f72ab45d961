use super::*;

fn names() -> Vec<Named> {
    let named = |name: &str, id_format: &str, is_bucket| Named {
        name: name.to_owned(),
        id_format: id_format.to_owned(),
        is_bucket,
    };
    vec![
        named("LoginsPerUser", "any", false),
        named("\u{e9}t\u{e9}\"", "any", false),
        named("NewOrdersPerAccount", "regId", false),
        named("bucket a", "any", true),
    ]
}

fn yaml(text: &str, why: Option<&str>) -> Result<Vec<NewOverride>, Error> {
    read_yaml(&Source { name: "o.yaml", text }, why, &names())
}

#[test]
fn either_form_of_an_overrides_file_is_read() {
    let map = yaml("NewOrdersPerAccount:007: {burst: 5, count: 6, period: 90m}", Some("b"));
    let list =
        "- NewOrdersPerAccount: {burst: 5, count: 6, period: 1.5h, ids: [{id: 7, comment: b}]}";
    let list = yaml(list, Some("not this"));
    for read in [map.unwrap(), list.unwrap()] {
        let terms =
            Terms { burst: 5, count: 6, period: "1h30m".into(), why: "b".into(), until: None };
        let limit = "NewOrdersPerAccount".into();
        assert_eq!(read, [NewOverride { limit, id: "7".into(), terms }]);
    }
}

#[test]
fn an_override_needs_a_reason() {
    let refused = yaml("\u{e9}t\u{e9}\":x: {burst: 5, count: 6, period: 1s}", None);
    assert!(matches!(refused, Err(Error::NoWhy { place }) if place.ends_with("o.yaml:1")));
}

#[test]
fn what_the_server_does_not_know_is_a_fault() {
    for text in ["Nothing:x: {burst: 5, count: 6, period: 1s}", "NewOrdersPerAccount:ada: {}"] {
        assert!(matches!(yaml(text, Some("y")), Err(Error::Faults { .. })), "{text}");
    }
}
