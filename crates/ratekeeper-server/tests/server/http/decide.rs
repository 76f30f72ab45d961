//! Asking: spend, check, refund, reset, and many at once.

use ratekeeper::Nanos;
use ratekeeper_server::settings::XRateLimit;
use serde_json::{Value, json};

use super::client::{Asked, NOW, assert_problem};

const LIMITS: &str = "
A: {burst: 2, count: 1, period: 1s}
B: {burst: 5, count: 5, period: 1m}
Quiet: {burst: 1, count: 1, period: 1h, shadow: true}
Addresses: {burst: 1, count: 1, period: 1s, id: ipAddress}
";

#[test]
fn an_ask_is_answered_with_everything_there_is_to_know() {
    let asked = Asked::limits(LIMITS);
    let answer = asked.spend("A", "x");
    let limit = json!({
        "name": "A", "burst": 2, "count": 1, "period": 1, "period_ns": 1_000_000_000, "shadow": false
    });
    let state = json!({
        "allowed": true, "shadow": false, "remaining": 1, "retry_in": 0, "retry_in_ns": 0,
        "reset_in": 1, "reset_in_ns": 1_000_000_000, "limit": limit, "id": "x", "bucket": "A:x",
    });
    let mut ask = state.clone();
    ask["mode"] = "check-and-spend".into();
    ask["cost"] = 1.into();
    let mut expected = state;
    expected["decided_by"] = 0.into();
    expected["asks"] = json!([ask]);
    assert_eq!(answer, expected);
}

#[test]
fn a_denial_is_an_answer_that_says_when_to_come_again() {
    let asked = Asked::limits(LIMITS);
    let body = r#"{"limit":"A","id":"x","cost":2}"#;
    assert_eq!(asked.send("POST", "/v1/spend", Some(body), &[]).json()["allowed"], true);
    asked.at(Nanos::new(250_000_000));
    let denied = asked.send("POST", "/v1/spend", Some(body), &[]);
    assert_eq!(denied.status, 200);
    assert_eq!(denied.json()["allowed"], false);
    assert_eq!(denied.json()["retry_in"], 1.75);
    assert_eq!(denied.json()["retry_in_ns"], 1_750_000_000);
    assert_eq!(denied.header("retry-after"), Some("2"));
    assert_eq!(denied.header("ratelimit"), Some("\"A\";r=0;t=2"));
    assert_eq!(denied.header("ratelimit-policy"), Some("\"A\";q=2;w=2"));
    assert_eq!(denied.header("x-ratelimit-limit"), None);
    // What it said is the truth.
    asked.at(Nanos::new(1_999_999_999));
    assert_eq!(asked.send("POST", "/v1/spend", Some(body), &[]).json()["allowed"], false);
    asked.at(Nanos::new(2_000_000_000));
    assert_eq!(asked.send("POST", "/v1/spend", Some(body), &[]).json()["allowed"], true);
}

#[test]
fn the_older_headers_are_sent_if_somebody_wants_them() {
    let asked = Asked::with(|settings, _| settings.http.x_ratelimit = XRateLimit::Seconds);
    let body = r#"{"limit":"LoginsPerUser","id":"ada"}"#;
    let answer = asked.send("POST", "/v1/spend", Some(body), &[]);
    assert_eq!(answer.header("x-ratelimit-limit"), Some("5"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("4"));
    assert_eq!(answer.header("x-ratelimit-reset"), Some("60"));
}

#[test]
fn a_check_takes_nothing_a_refund_gives_back_a_reset_fills() {
    let asked = Asked::limits(LIMITS);
    let one = json!({"limit": "B", "id": "x"});
    let three = json!({"limit": "B", "id": "x", "cost": 3});
    assert_eq!(asked.post("/v1/check", &three)["remaining"], 2);
    assert_eq!(asked.post("/v1/check", &three)["remaining"], 2);
    assert_eq!(asked.post("/v1/spend", &three)["remaining"], 2);
    assert_eq!(asked.post("/v1/refund", &one)["remaining"], 3);
    assert_eq!(asked.post("/v1/reset", &one)["remaining"], 5);
    let nothing = asked.post("/v1/refund", &one);
    assert_eq!(nothing["allowed"], false);
    // Only a spend has modes.
    assert_eq!(nothing["asks"][0].get("mode"), None);
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let asked = Asked::limits(LIMITS);
    let both = json!({"asks": [{"limit": "B", "id": "x"}, {"limit": "A", "id": "x", "cost": 2}]});
    assert_eq!(asked.post("/v1/spend", &both)["allowed"], true);
    let denied = asked.post("/v1/spend", &both);
    assert_eq!((&denied["allowed"], &denied["decided_by"]), (&json!(false), &json!(1)));
    assert_eq!(denied["asks"][0]["allowed"], true);
    assert_eq!(asked.get("/v1/buckets/B/x").json()["remaining"], 4, "B was not spent");
    let modes = json!({"asks": [
        {"limit": "B", "id": "x", "mode": "check-only"},
        {"limit": "A", "id": "x", "mode": "spend-only"},
    ]});
    let answer = asked.post("/v1/spend", &modes);
    assert_eq!(answer["allowed"], true);
    assert_eq!(answer["asks"][1]["mode"], "spend-only");
}

#[test]
fn a_shadow_lets_pass_and_says_what_it_would_have_done() {
    let asked = Asked::limits(LIMITS);
    assert_eq!(asked.spend("Quiet", "x")["shadow"], false);
    let answer = asked.spend("Quiet", "x");
    assert_eq!((&answer["allowed"], &answer["shadow"]), (&json!(true), &json!(true)));
    assert_eq!(answer["limit"]["shadow"], true);
    assert_eq!(answer["retry_in"], 0);
    let explained = asked.get("/v1/explain/Quiet/x").json();
    assert_eq!(explained["answer"]["shadow"], true);
    assert!(explained["text"].as_str().unwrap().contains("denies nobody"), "{explained}");
}

#[test]
fn a_batch_decides_each_on_its_own() {
    let asked = Asked::limits(LIMITS);
    let results = asked.post("/v1/batch", &json!({"transactions": [
        {"op": "spend", "limit": "A", "id": "x", "cost": 2},
        {"op": "spend", "limit": "A", "id": "x"},
        {"op": "check", "limit": "Nope", "id": "x"},
        {"op": "refund", "limit": "A", "id": "x"},
        {"op": "spend", "asks": [{"limit": "B", "id": "x"}, {"limit": "Addresses", "id": "here"}]},
        {"op": "reset", "asks": [{"limit": "A", "id": "x"}, {"limit": "B", "id": "x"}]},
    ]}));
    let results = results["results"].as_array().unwrap();
    let allowed: Vec<_> = results.iter().map(|it| it["allowed"].as_bool()).collect();
    assert_eq!(allowed, [Some(true), Some(false), None, Some(true), None, Some(true)]);
    assert_problem(&results[2]["problem"], "unknown-limit", Some("transactions[2].limit"));
    assert_problem(&results[4]["problem"], "bad-id", Some("transactions[4].asks[1].id"));
    assert_eq!(asked.get("/v1/buckets/A/x").json()["remaining"], 2);
}

#[test]
fn a_batch_says_what_time_it_is_and_since_when_the_server_counts() {
    let asked = Asked::starter();
    let look = || {
        let body = r#"{"transactions":[{"op":"check","limit":"LoginsPerUser","id":"ada"}]}"#;
        let answer = asked.send("POST", "/v1/batch", Some(body), &[]);
        ["ratekeeper-now-ns", "ratekeeper-started-ns"]
            .map(|name| answer.headers[name].to_str().unwrap().parse::<u64>().unwrap())
    };
    let [now, started] = look();
    assert_eq!(now, NOW * 1_000_000_000);
    assert!(started <= now);
    asked.at(Nanos::new(1_500));
    assert_eq!(look(), [now + 1_500, started]);
}

#[test]
fn a_batch_of_the_wrong_shape_decides_nothing() {
    let asked = Asked::limits(LIMITS);
    let good = r#"{"op":"spend","limit":"A","id":"x"}"#;
    let refused = |bad: &str| {
        let body = format!(r#"{{"transactions":[{good},{bad}]}}"#);
        asked.refused("POST", "/v1/batch", Some(&body))
    };
    let missing = refused(r#"{"op":"spend","limit":"A"}"#);
    assert_problem(&missing, "bad-asks", Some("transactions[1].id"));
    let empty = refused(r#"{"op":"check","asks":[]}"#);
    assert_problem(&empty, "bad-asks", Some("transactions[1].asks"));
    let cost = refused(r#"{"op":"reset","limit":"A","id":"x","cost":1}"#);
    assert_problem(&cost, "bad-asks", Some("transactions[1].cost"));
    let op = refused(r#"{"op":"take","limit":"A","id":"x"}"#);
    assert_problem(&op, "bad-json", Some("transactions[1].op"));
    let none = asked.refused("POST", "/v1/batch", Some(r#"{"transactions":[]}"#));
    assert_problem(&none, "bad-asks", Some("transactions"));
    assert_eq!(asked.get("/v1/buckets/A/x").json()["remaining"], 2, "nothing was spent");
}

#[test]
fn every_mistake_names_its_field_and_what_would_be_right() {
    let asked = Asked::limits(LIMITS);
    let cases = [
        (r#"{"limit":"Bs","id":"x"}"#, 422, "unknown-limit", Some("limit")),
        (r#"{"limit":"Addresses","id":"x"}"#, 422, "bad-id", Some("id")),
        (r#"{"limit":"A","id":""}"#, 422, "bad-id", Some("id")),
        (r#"{"limit":"A","id":"x","cost":3}"#, 422, "cost-above-burst", Some("cost")),
        (r#"{"limit":"A"}"#, 422, "bad-asks", Some("id")),
        (r#"{"id":"x"}"#, 422, "bad-asks", Some("limit")),
        (r#"{"asks":[]}"#, 422, "bad-asks", Some("asks")),
        (r#"{"limit":"A","id":"x","asks":[]}"#, 422, "bad-asks", Some("asks")),
        (
            r#"{"asks":[{"limit":"A","id":"x"},{"limit":"C","id":"x"}]}"#,
            422,
            "unknown-limit",
            Some("asks[1].limit"),
        ),
        (
            r#"{"asks":[{"limit":"A","id":"x"},{"limit":"A","id":"x"}]}"#,
            422,
            "same-bucket-twice",
            Some("asks"),
        ),
        (r#"{"limit":"A","id":"x","cost":-1}"#, 400, "bad-json", Some("cost")),
        (r#"{"limit":"A","id":"x","cost":null}"#, 400, "bad-json", Some("cost")),
        (r#"{"limit":"A","id":"x","costs":1}"#, 400, "bad-json", Some("costs")),
        (
            r#"{"asks":[{"limit":"A","id":"x","mode":"maybe"}]}"#,
            400,
            "bad-json",
            Some("asks[0].mode"),
        ),
        (r#"{"limit":"A","id":"x"} x"#, 400, "bad-json", None),
        ("", 400, "bad-json", None),
        ("[]", 400, "bad-json", None),
        (r#"["A","x"]"#, 400, "bad-json", None),
        (r#"{"asks":[["A","x"]]}"#, 400, "bad-json", Some("asks[0]")),
    ];
    for (body, status, slug, field) in cases {
        let answer = asked.send("POST", "/v1/spend", Some(body), &[]);
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
        assert_problem(&answer.problem(), slug, field);
    }
    let nearest = asked.refused("POST", "/v1/spend", Some(r#"{"limit":"Address","id":"x"}"#));
    assert!(nearest["detail"].as_str().unwrap().contains("did you mean `Addresses`"), "{nearest}");
}

#[test]
fn only_a_spend_has_modes_and_a_reset_has_no_cost() {
    let asked = Asked::limits(LIMITS);
    let body = r#"{"asks":[{"limit":"A","id":"x","mode":"check-only"}]}"#;
    for path in ["/v1/check", "/v1/refund", "/v1/reset"] {
        let problem = asked.refused("POST", path, Some(body));
        assert_problem(&problem, "bad-asks", Some("asks[0].mode"));
    }
    let cost = asked.refused("POST", "/v1/reset", Some(r#"{"limit":"A","id":"x","cost":1}"#));
    assert_problem(&cost, "bad-asks", Some("cost"));
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let asked = Asked::with(|settings, _| settings.http.body_bytes = 100);
    let body = format!(r#"{{"limit":"LoginsPerUser","id":"{}"}}"#, "x".repeat(200));
    let problem = asked.refused("POST", "/v1/spend", Some(&body));
    assert_problem(&problem, "too-large", None);
    assert_eq!(problem["status"], 413);
}

#[test]
fn other_paths_and_other_methods_are_problems() {
    let asked = Asked::starter();
    for path in ["/v1", "/v1/", "/v2/spend", "/v1/spend/", "/v1/buckets/A", "/favicon.ico"] {
        let answer = asked.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert_problem(&answer.problem(), "not-found", None);
    }
    let answer = asked.send("DELETE", "/v1/spend", None, &[]);
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    assert_problem(&answer.problem(), "wrong-method", None);
    let answer = asked.send("POST", "/v1/overrides", Some("{}"), &[]);
    let allow: Value = answer.header("allow").unwrap().into();
    assert_eq!((answer.status, allow), (405, "GET,HEAD,PUT".into()));
}
