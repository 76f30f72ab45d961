//! Looking at limits and buckets.

use ratekeeper::Nanos;
use serde_json::{Value, json};

use super::client::{Asked, assert_problem};

const LIMITS: &str = "
Logins: {burst: 5, count: 1, period: 1m}
NewOrdersPerAccount: {burst: 300, count: 300, period: 3h}
Quiet: {burst: 1, count: 1, period: 1h, shadow: true, share: 2.5, on_full: forget}
";
const OVERRIDES: &str = "
- Logins:
    burst: 50
    count: 10
    period: 1m
    ids:
      - id: ada
        comment: load tests
- NewRegistrationsPerIPAddress:
    burst: 1
    count: 1
    period: 1s
    ids:
      - id: 10.0.0.1
";

fn with_overrides() -> Asked {
    Asked::with(|settings, folder| {
        settings.limits = Some(folder.write("limits.yaml", LIMITS));
        settings.overrides = Some(folder.write("overrides.yaml", OVERRIDES));
    })
}

#[test]
fn limits_are_listed_by_name_with_what_they_allow_and_where_they_are_written() {
    let asked = with_overrides();
    let page = asked.get("/v1/limits").json();
    assert_eq!(page["next"], Value::Null);
    let limits = page["limits"].as_array().unwrap();
    let mut names: Vec<_> = limits.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let own = ["Logins", "NewOrdersPerAccount", "NewRegistrationsPerIPAddress", "Quiet"];
    assert!(own.iter().all(|name| names.contains(name)), "{names:?}");
    assert!(names.is_sorted());
    names.retain(|name| !own.contains(name));
    let buckets: Vec<_> = limits.iter().filter(|it| it["is_bucket"] == true).collect();
    assert_eq!(buckets.len(), names.len(), "the rest are the starter buckets");

    let one = asked.get("/v1/limits/NewOrdersPerAccount").json();
    let mut expected = json!({
        "name": "NewOrdersPerAccount", "number": 6, "id_format": "regId", "burst": 300,
        "count": 300, "period": 10800, "period_ns": 10_800_000_000_000_u64, "terms": "300 per 3h",
        "shadow": false, "is_bucket": false, "share": 1.0, "on_full": "deny", "overrides": 0,
    });
    expected["origin"] = one["origin"].clone();
    assert_eq!(one, expected);
    assert_eq!(one["origin"]["line"], 3);
    assert!(one["origin"]["file"].as_str().unwrap().ends_with("limits.yaml"), "{one}");
    assert!(limits.contains(&one));
    let quiet = asked.get("/v1/limits/Quiet").json();
    assert_eq!((&quiet["share"], &quiet["on_full"]), (&json!(2.5), &json!("forget")));
}

#[test]
fn a_limit_without_a_default_says_so() {
    let asked = with_overrides();
    let one = asked.get("/v1/limits/NewRegistrationsPerIPAddress").json();
    for field in ["burst", "count", "period", "period_ns", "terms", "origin"] {
        assert_eq!(one[field], Value::Null, "{field}");
    }
    assert_eq!(one["overrides"], 1);
    let problem = asked.refused("GET", "/v1/buckets/NewRegistrationsPerIPAddress/10.0.0.2", None);
    assert_problem(&problem, "no-default", Some("id"));
    let known = asked.get("/v1/buckets/NewRegistrationsPerIPAddress/10.0.0.1").json();
    assert_eq!(known["remaining"], 1);
}

#[test]
fn many_limits_come_page_by_page() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for number in 0..1500 {
        writeln!(text, "L{number:04}: {{burst: 1, count: 1, period: 1s}}").unwrap();
    }
    let asked = Asked::limits(&text);
    let first = asked.get("/v1/limits?after=L").json();
    assert_eq!(first["limits"].as_array().unwrap().len(), 1000);
    assert_eq!(first["next"], "L0999");
    let second = asked.get("/v1/limits?after=L0999").json();
    assert_eq!(second["limits"][0]["name"], "L1000");
    assert_eq!(second["next"], Value::Null);
    // A name that is not there is a place all the same.
    assert_eq!(asked.get("/v1/limits?after=L0999x").json(), second);
}

#[test]
fn a_bucket_is_seen_without_being_touched() {
    let asked = Asked::limits(LIMITS);
    asked.spend("Logins", "a/b:c é");
    asked.spend("Logins", "a/b:c é");
    asked.at(Nanos::from_secs(15));
    let path = "/v1/buckets/Logins/a%2Fb%3Ac%20%C3%A9";
    let bucket = asked.get(path).json();
    let limit = json!({
        "name": "Logins", "burst": 5, "count": 1, "period": 60, "period_ns": 60_000_000_000_u64,
        "shadow": false,
    });
    let expected = json!({
        "limit": limit, "id": "a/b:c é", "bucket": "Logins:a/b:c é", "remaining": 3,
        "reset_in": 105, "reset_in_ns": 105_000_000_000_u64,
        "next_in": 45, "next_in_ns": 45_000_000_000_u64,
    });
    assert_eq!(bucket, expected);
    assert_eq!(asked.get(path).json(), expected);
    let full = asked.get("/v1/buckets/Logins/nobody").json();
    assert_eq!((&full["remaining"], &full["next_in"]), (&json!(5), &json!(0)));
    // Nobody has asked for anything but twice.
    assert_eq!(asked.server.stats().doors["http"].counts.allowed, 2);
    assert_eq!(asked.server.stats().stores["limits"].keys, 1);
}

#[test]
fn an_id_has_one_spelling() {
    let asked = Asked::starter();
    let bucket = asked.get("/v1/buckets/NewRegistrationsPerIPv6Range/2001:DB8::1").json();
    assert_eq!(bucket["id"], "2001:db8::/48");
    let same = asked.get("/v1/buckets/NewRegistrationsPerIPv6Range/2001%3Adb8%3A%3A%2F48").json();
    assert_eq!(bucket, same);
}

#[test]
fn an_id_that_was_never_seen_is_explained() {
    let asked = with_overrides();
    let told = asked.get("/v1/explain/Logins/nobody?cost=2").json();
    let mut default = json!({
        "kind": "default", "burst": 5, "count": 1, "period": 60, "period_ns": 60_000_000_000_u64,
        "terms": "1 per 1m, burst 5", "run_time": null, "comment": null,
    });
    default["origin"] = told["applies"]["origin"].clone();
    assert_eq!(told["applies"], default);
    assert_eq!(told["default"], default);
    assert_eq!(told["applies"]["origin"]["line"], 2);
    assert_eq!(told["now"], json!({"remaining": 5, "reset_in": 0, "reset_in_ns": 0}));
    assert_eq!(told["answer"]["remaining"], 3);
    assert_eq!((&told["cost"], &told["bucket"]), (&json!(2), &json!("Logins:nobody")));
    assert!(told["text"].as_str().unwrap().starts_with("Logins for nobody\n"), "{told}");
    assert_eq!(asked.server.stats().stores["limits"].keys, 0, "it is still not there");
    // A cost that is not said is 1.
    assert_eq!(asked.get("/v1/explain/Logins/nobody").json()["cost"], 1);
}

#[test]
fn an_override_from_a_file_is_explained_with_its_place() {
    let asked = with_overrides();
    let told = asked.get("/v1/explain/Logins/ada").json();
    let applies = &told["applies"];
    assert_eq!(applies["kind"], "override");
    assert_eq!(applies["terms"], "10 per 1m, burst 50");
    assert_eq!(applies["comment"], "load tests");
    assert_eq!(applies["run_time"], Value::Null);
    assert!(applies["origin"]["file"].as_str().unwrap().ends_with("overrides.yaml"), "{told}");
    assert_eq!(told["default"]["terms"], "1 per 1m, burst 5");
    assert_eq!(told["limit"]["burst"], 50);
}

#[test]
fn what_is_not_there_is_named() {
    let asked = Asked::limits(LIMITS);
    let cases = [
        ("/v1/limits/Login", 404, "no-such-limit", Some("name")),
        ("/v1/buckets/Login/ada", 404, "no-such-limit", Some("limit")),
        ("/v1/explain/Login/ada", 404, "no-such-limit", Some("limit")),
        ("/v1/buckets/NewOrdersPerAccount/ada", 422, "bad-id", Some("id")),
        ("/v1/explain/Logins/ada?cost=6", 422, "cost-above-burst", Some("cost")),
        ("/v1/explain/Logins/ada?cost=x", 400, "bad-query", Some("cost")),
        ("/v1/explain/Logins/ada?cost=1&cost=1", 400, "bad-query", Some("cost")),
        ("/v1/explain/Logins/ada?costs=1", 400, "bad-query", Some("costs")),
        ("/v1/buckets/Logins/ada?cost=1", 400, "bad-query", Some("cost")),
        ("/v1/limits?before=x", 400, "bad-query", Some("before")),
        ("/v1/limits/Logins?x", 400, "bad-query", Some("x")),
        ("/v1/limits/%FF", 400, "bad-path", None),
        ("/v1/buckets/Logins/%FF", 400, "bad-path", None),
    ];
    for (path, status, slug, field) in cases {
        let answer = asked.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        assert_problem(&answer.problem(), slug, field);
    }
    let nearest = asked.refused("GET", "/v1/limits/Login", None);
    assert!(nearest["detail"].as_str().unwrap().contains("did you mean `Logins`"), "{nearest}");
}
