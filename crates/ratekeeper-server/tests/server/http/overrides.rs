//! Overrides that are made through HTTP, and what they do.

use ratekeeper::{Moment, Nanos};
use serde_json::{Value, json};

use super::client::{Asked, NOW, assert_problem};

const LIMITS: &str = "
Logins: {burst: 5, count: 1, period: 1m}
Addresses: {burst: 5, count: 5, period: 1s, id: ipAddress}
";
const OVERRIDES: &str = "
- Logins:
    burst: 50
    count: 10
    period: 1m
    ids:
      - id: bob
        comment: load tests
";
const ADA: &str = "/v1/overrides/Logins/ada";

fn asked() -> Asked {
    Asked::with(|settings, folder| {
        settings.limits = Some(folder.write("limits.yaml", LIMITS));
        settings.overrides = Some(folder.write("overrides.yaml", OVERRIDES));
    })
}

fn more() -> Value {
    json!({"burst": 20, "count": 20, "period": "1m", "why": "a test"})
}

#[test]
fn an_override_is_in_force_from_the_next_ask_on_and_what_was_spent_stays_spent() {
    let asked = asked();
    for _ in 0..5 {
        asked.spend("Logins", "ada");
    }
    assert_eq!(asked.spend("Logins", "ada")["allowed"], false);
    let made = asked.put(ADA, &more());
    assert_eq!(made["before"], "1 per 1m, burst 5");
    assert_eq!(made["after"], "20 per 1m");
    assert_eq!((&made["lowers"], &made["dry_run"]), (&json!(false), &json!(false)));
    assert_eq!(made["durable"], false);
    let expected = json!({
        "limit": "Logins", "id": "ada", "burst": 20, "count": 20, "period": 60,
        "period_ns": 60_000_000_000_u64, "terms": "20 per 1m", "source": "run-time",
        "why": "a test", "by": "anybody", "at": "2023-11-14T22:13:20Z", "until": null,
        "origin": null, "in_force": true, "reason": null,
    });
    assert_eq!(made["override"], expected);
    // A period is taken as it is answered, too.
    for period in [json!(0.5), json!(60)] {
        let mut again = more();
        again["period"] = period.clone();
        again["lower"] = true.into();
        assert_eq!(asked.put(ADA, &again)["override"]["period"], period);
    }
    let answer = asked.spend("Logins", "ada");
    assert_eq!((&answer["allowed"], &answer["remaining"]), (&json!(true), &json!(14)));
    assert_eq!(asked.get("/v1/limits/Logins").json()["overrides"], 2);

    let told = asked.get("/v1/explain/Logins/ada").json();
    assert_eq!(told["applies"]["kind"], "override");
    assert_eq!(told["applies"]["origin"], Value::Null);
    let run_time = json!({
        "by": "anybody", "at": "2023-11-14T22:13:20Z", "until": null, "why": "a test"
    });
    assert_eq!(told["applies"]["run_time"], run_time);
    assert_eq!(told["default"]["terms"], "1 per 1m, burst 5");
}

#[test]
fn an_override_is_removed_and_the_default_applies_again() {
    let asked = asked();
    asked.put(ADA, &more());
    let dry = asked.send("DELETE", &format!("{ADA}?why=enough&dry_run=1"), None, &[]).json();
    assert_eq!((&dry["dry_run"], &dry["after"]), (&json!(true), &json!("1 per 1m, burst 5")));
    assert_eq!(asked.spend("Logins", "ada")["remaining"], 19, "it is still there");
    let removed = asked.send("DELETE", &format!("{ADA}?why=enough"), None, &[]).json();
    assert_eq!(removed["override"]["burst"], 20);
    assert_eq!(removed["override"]["in_force"], false);
    assert_eq!((&removed["lowers"], &removed["dry_run"]), (&json!(true), &json!(false)));
    assert_eq!(asked.get("/v1/buckets/Logins/ada").json()["limit"]["burst"], 5);
    let again = asked.refused("DELETE", &format!("{ADA}?why=enough"), None);
    assert_problem(&again, "no-such-override", Some("id"));
}

#[test]
fn a_dry_run_changes_nothing() {
    let asked = asked();
    let told = asked.put(&format!("{ADA}?dry_run=true"), &more());
    assert_eq!((&told["dry_run"], &told["after"]), (&json!(true), &json!("20 per 1m")));
    assert_eq!(asked.spend("Logins", "ada")["remaining"], 4);
    assert_eq!(asked.get("/v1/audit").json()["records"], json!([]));
    let many = json!({"overrides": [{
        "limit": "Logins", "id": "x", "burst": 9, "count": 9, "period": "1m", "why": "a test"
    }]});
    let told = asked.put("/v1/overrides?dry_run=1", &many);
    assert_eq!((&told["dry_run"], &told["changes"][0]["dry_run"]), (&json!(true), &json!(true)));
    assert_eq!(asked.spend("Logins", "x")["remaining"], 4);
}

#[test]
fn lowering_takes_a_word_more() {
    let asked = asked();
    let mut less = json!({"burst": 1, "count": 1, "period": "1m", "why": "abuse"});
    for dry_run in ["", "?dry_run=1"] {
        let answer = asked.send("PUT", &format!("{ADA}{dry_run}"), Some(&less.to_string()), &[]);
        assert_eq!(answer.status, 409);
        assert_problem(&answer.problem(), "would-lower", Some("lower"));
    }
    less["lower"] = true.into();
    assert_eq!(asked.put(ADA, &less)["lowers"], true);
    assert_eq!(asked.spend("Logins", "ada")["remaining"], 0);
}

#[test]
fn an_override_ends_by_itself() {
    let asked = asked();
    let mut until = more();
    until["until"] = "2023-11-14T23:13:20+01:00".into();
    let past = asked.refused("PUT", ADA, Some(&until.to_string()));
    assert_problem(&past, "bad-override", Some("until"));
    until["until"] = "2023-11-14T22:14:20Z".into();
    assert_eq!(asked.put(ADA, &until)["override"]["until"], "2023-11-14T22:14:20Z");
    assert_eq!(asked.spend("Logins", "ada")["remaining"], 19);
    let end = Moment::from_nanos((NOW + 60) * 1_000_000_000);
    asked.at(Nanos::from_secs(60));
    asked.server.expire_overrides(end);
    assert_eq!(asked.get("/v1/buckets/Logins/ada").json()["limit"]["burst"], 5);
    let records = asked.get("/v1/audit").json();
    assert_eq!(records["records"][1]["action"], "expire");
}

#[test]
fn many_are_made_together_or_none_is() {
    let asked = asked();
    let one = |limit: &str, id: &str| {
        json!({
            "limit": limit, "id": id, "burst": 100, "count": 100, "period": "1s", "why": "a test"
        })
    };
    let cases = [
        (one("Login", "x"), "unknown-limit", "overrides[1].limit"),
        (one("Addresses", "x"), "bad-id", "overrides[1].id"),
        (one("Logins", "ada"), "bad-override", "overrides[1].id"),
    ];
    for (wrong, slug, field) in cases {
        let body = json!({"overrides": [one("Logins", "ada"), wrong]}).to_string();
        let problem = asked.refused("PUT", "/v1/overrides", Some(&body));
        assert_problem(&problem, slug, Some(field));
    }
    let none = asked.get("/v1/overrides").json();
    assert_eq!(none["overrides"].as_array().unwrap().len(), 1, "only the file's");
    let both = json!({"overrides": [one("Logins", "ada"), one("Addresses", "10.0.0.1")]});
    let made = asked.put("/v1/overrides", &both);
    assert_eq!(made["changes"].as_array().unwrap().len(), 2);
    assert_eq!((&made["dry_run"], &made["durable"]), (&json!(false), &json!(false)));
    assert_eq!(asked.spend("Addresses", "10.0.0.1")["remaining"], 99);
    let nothing = asked.put("/v1/overrides", &json!({"overrides": []}));
    assert_eq!(nothing["changes"], json!([]));
    // A lower one is refused for all, and allowed for all.
    let mut less = one("Logins", "ada");
    less["burst"] = 1.into();
    let body = json!({"overrides": [less.clone()]}).to_string();
    let refused = asked.refused("PUT", "/v1/overrides", Some(&body));
    assert_problem(&refused, "would-lower", Some("lower"));
    asked.put("/v1/overrides", &json!({"overrides": [less], "lower": true}));
}

#[test]
fn overrides_are_listed_from_files_and_from_run_time() {
    let asked = asked();
    asked.put(ADA, &more());
    asked.put("/v1/overrides/Addresses/10.0.0.1", &json!({
        "burst": 10, "count": 10, "period": "1s", "why": "a test", "until": "2030-01-01T00:00:00Z"
    }));
    let listed = |query: &str| {
        let page = asked.get(&format!("/v1/overrides{query}")).json();
        assert_eq!(page["next"], Value::Null);
        let overrides = page["overrides"].as_array().unwrap().clone();
        let key = |it: &Value| {
            format!("{}:{}", it["limit"].as_str().unwrap(), it["id"].as_str().unwrap())
        };
        overrides.iter().map(key).collect::<Vec<_>>()
    };
    assert_eq!(listed(""), ["Addresses:10.0.0.1", "Logins:ada", "Logins:bob"]);
    assert_eq!(listed("?limit=Logins"), ["Logins:ada", "Logins:bob"]);
    assert_eq!(listed("?after=Logins:ada"), ["Logins:bob"]);
    // A page without any would be taken for the answer to another question: that nobody has one.
    let unknown = asked.get("/v1/overrides?limit=Login");
    assert_eq!((unknown.status, &unknown.problem()["field"]), (404, &json!("limit")));
    assert!(unknown.text.contains("did you mean `Logins`?"), "{}", unknown.text);
    let page = asked.get("/v1/overrides?limit=Logins&after=Logins%3Aada").json();
    let bob = &page["overrides"][0];
    assert_eq!((&bob["source"], &bob["why"]), (&json!("file"), &json!("load tests")));
    assert_eq!((&bob["by"], &bob["at"]), (&Value::Null, &Value::Null));
    assert!(bob["origin"]["line"].as_u64().is_some_and(|line| line > 1), "{bob}");
}

#[test]
fn the_audit_says_who_did_what_and_why() {
    let asked = asked();
    asked.put(ADA, &more());
    asked.send("DELETE", &format!("{ADA}?why=it+is+over"), None, &[]).json();
    let records = asked.get("/v1/audit").json();
    let first = json!({
        "at": "2023-11-14T22:13:20Z", "by": "anybody", "from": "127.0.0.1", "action": "put",
        "limit": "Logins", "id": "ada", "before": "1 per 1m, burst 5", "after": "20 per 1m",
        "why": "a test", "until": null,
    });
    assert_eq!(records["records"][0], first);
    assert_eq!(records["records"][1]["action"], "delete");
    assert_eq!(records["records"][1]["why"], "it is over");
    let last = asked.get("/v1/audit?last=1").json();
    assert_eq!(last["records"], json!([records["records"][1]]));
    assert_eq!(asked.get("/v1/audit?last=0").json()["records"], json!([]));
    for query in ["last=1001", "last=x", "first=1"] {
        let problem = asked.refused("GET", &format!("/v1/audit?{query}"), None);
        assert_eq!(problem["type"], "/api#bad-query", "{query}");
    }
}

#[test]
fn what_cannot_be_an_override_is_told_by_its_field() {
    let asked = asked();
    let with = |field: &str, value: Value| {
        let mut body = more();
        body[field] = value;
        body.to_string()
    };
    let cases = [
        (with("burst", 0.into()), 422, "bad-override", "burst"),
        (with("count", 0.into()), 422, "bad-override", "count"),
        (with("period", "60".into()), 422, "bad-override", "period"),
        (with("period", 0.into()), 422, "bad-override", "period"),
        (with("period", (-60).into()), 422, "bad-override", "period"),
        (with("period", 1e300.into()), 422, "bad-override", "period"),
        (with("period", Value::Null), 400, "bad-json", "period"),
        (with("period", "soon".into()), 422, "bad-override", "period"),
        (with("why", " ".into()), 422, "bad-override", "why"),
        (with("why", "x".repeat(2000).into()), 422, "bad-override", "why"),
        (with("until", "tomorrow".into()), 422, "bad-override", "until"),
        (with("until", Value::Null), 400, "bad-json", "until"),
        (with("burst", "20".into()), 400, "bad-json", "burst"),
        (with("bursts", 20.into()), 400, "bad-json", "bursts"),
    ];
    for (body, status, slug, field) in cases {
        let answer = asked.send("PUT", ADA, Some(&body), &[]);
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
        assert_problem(&answer.problem(), slug, Some(field));
    }
    let body = more().to_string();
    let cases = [
        ("/v1/overrides/Login/ada", 404, "no-such-limit", "limit"),
        ("/v1/overrides/Addresses/ada", 422, "bad-id", "id"),
        ("/v1/overrides/Logins/ada?dry_run=maybe", 400, "bad-query", "dry_run"),
        ("/v1/overrides/Logins/ada?dry=1", 400, "bad-query", "dry"),
    ];
    for (path, status, slug, field) in cases {
        let answer = asked.send("PUT", path, Some(&body), &[]);
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        assert_problem(&answer.problem(), slug, Some(field));
    }
    assert_eq!(asked.get("/v1/audit").json()["records"], json!([]));
}

#[test]
fn what_cannot_be_removed_is_told() {
    let asked = asked();
    let cases = [
        ("/v1/overrides/Logins/ada?why=x", 404, "no-such-override", "id"),
        ("/v1/overrides/Logins/bob?why=x", 409, "only-in-file", "id"),
        ("/v1/overrides/Login/ada?why=x", 404, "no-such-limit", "limit"),
        ("/v1/overrides/Addresses/ada?why=x", 422, "bad-id", "id"),
        ("/v1/overrides/Logins/ada", 400, "bad-query", "why"),
        ("/v1/overrides/Logins/ada?why=+", 422, "bad-override", "why"),
    ];
    for (path, status, slug, field) in cases {
        let answer = asked.send("DELETE", path, None, &[]);
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        assert_problem(&answer.problem(), slug, Some(field));
    }
}

#[test]
fn a_bucket_that_everybody_shares_has_no_overrides() {
    let asked = Asked::with(|settings, folder| {
        settings.limits = Some(folder.write("limits.yaml", LIMITS));
        settings.bucket.buckets = Some(folder.write("buckets.conf", "shared 1\n"));
    });
    let problem = asked.refused("PUT", "/v1/overrides/shared/*", Some(&more().to_string()));
    assert_problem(&problem, "not-overridable", Some("limit"));
}

#[test]
fn an_override_outlives_the_process_if_there_is_a_state_directory() {
    let asked = Asked::with(|settings, folder| {
        settings.limits = Some(folder.write("limits.yaml", LIMITS));
        settings.state = Some(folder.path("state"));
    });
    assert_eq!(asked.put(ADA, &more())["durable"], true);
    let audit = asked.path("state").join("audit.jsonl");
    assert!(std::fs::read_to_string(&audit).unwrap().contains("\"ada\""));
    // A change that cannot be kept is not made.
    std::fs::remove_file(&audit).unwrap();
    std::fs::create_dir(&audit).unwrap();
    let answer = asked.send("PUT", "/v1/overrides/Logins/x", Some(&more().to_string()), &[]);
    assert_eq!(answer.status, 507, "{}", answer.text);
    assert_problem(&answer.problem(), "storage", None);
    assert_eq!(asked.get("/v1/buckets/Logins/x").json()["limit"]["burst"], 5);
    assert_problem(&asked.refused("GET", "/v1/audit", None), "storage", None);
}
