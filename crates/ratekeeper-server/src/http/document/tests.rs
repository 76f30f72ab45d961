use std::collections::BTreeSet;

use ratekeeper::algorithm::Share;
use ratekeeper::algorithm::gcra::BURST_MAX;
use ratekeeper::limiter::TRANSACTION_ASKS_MAX;
use serde_json::Value;

use super::*;
use crate::http::decide::{BATCH_ASKS_MAX, BATCH_TRANSACTIONS_MAX};
use crate::http::{page, problem as kind, route};
use crate::overrides::{AUDIT_LAST_MAX, RUN_TIME_OVERRIDES_MAX, WHY_BYTES_MAX};

const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

fn document(settings: &HttpSettings) -> Value {
    let (_, document) = route::api().split_for_parts();
    serde_json::from_slice(&write(document, settings)).unwrap()
}

/// Every operation, with its method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                all.push((format!("{method} {path}"), operation));
            }
        }
    }
    all
}

/// Calls `see` with every value there is in a document.
fn walk(value: &Value, see: &mut impl FnMut(&Value)) {
    see(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, see)),
        Value::Object(fields) => fields.values().for_each(|field| walk(field, see)),
        _ => {}
    }
}

fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            document.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null)
        }
        None => value,
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document(&HttpSettings::default());
    let mut count = 0;
    walk(&document, &mut |value| {
        if value.get("$ref").is_some_and(Value::is_string) {
            assert!(resolve(&document, value).is_object(), "{value}");
            count += 1;
        }
    });
    assert!(count > 50, "{count} references");
}

#[test]
fn every_answer_is_told() {
    let document = document(&HttpSettings::default());
    for (name, operation) in operations(&document) {
        let statuses: BTreeSet<&str> =
            operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
        let has = |status: &str| statuses.contains(status);
        assert!((has("200") || has("204")) && has("405"), "{name}: {statuses:?}");
        let is_public = operation.get("security").is_none();
        for status in ["400", "401", "403", "421", "503"] {
            let is_told = has(status) || is_public;
            assert!(is_told, "{name}: {statuses:?}");
        }
        if operation.get("requestBody").is_some() {
            assert!(has("400") && has("408") && has("413"), "{name}: {statuses:?}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolve(&document, response);
            assert_ne!(response["description"], "", "{name} {status}");
            if status == "204" {
                assert_eq!(response.get("content"), None, "{name}");
                continue;
            }
            let content = response["content"].as_object();
            let content = content.unwrap_or_else(|| panic!("{name} {status}"));
            let is_problem = content.contains_key(PROBLEM_TYPE);
            assert_eq!(is_problem, status.as_str() >= "400", "{name} {status}");
            assert_eq!(content.len(), 1, "{name} {status}");
        }
    }
}

#[test]
fn every_route_says_who_may_ask() {
    let document = document(&HttpSettings::default());
    let public = ["get /healthz", "get /readyz", "get /openapi.json"];
    for (name, operation) in operations(&document) {
        let role = operation.get("x-role").and_then(Value::as_str);
        if public.contains(&name.as_str()) {
            assert_eq!(role, None, "{name}");
            continue;
        }
        let role = role.unwrap_or_else(|| panic!("{name} has no role"));
        let changes = name.starts_with("put") || name.starts_with("delete");
        let expected = match name.as_str() {
            _ if changes => "admin",
            "get /v1/audit" => "admin",
            _ if name.starts_with("post") || name.contains("/v1/gate") => "decide",
            _ => "read",
        };
        assert_eq!(role, expected, "{name}");
    }
}

#[test]
fn what_has_to_be_brought_is_what_the_settings_ask_for() {
    let security = |settings: &HttpSettings| {
        document(settings).pointer("/paths/~1v1~1spend/post/security").unwrap().to_string()
    };
    let mut settings = HttpSettings::default();
    assert_eq!(security(&settings), r#"[{"token":["decide"]},{}]"#);
    settings.tokens = Some("tokens".into());
    assert_eq!(security(&settings), r#"[{"token":["decide"]}]"#);
    settings.client_ca = Some("ca.pem".into());
    assert_eq!(security(&settings), r#"[{"token":["decide"]},{"certificate":[]}]"#);
}

#[test]
fn requests_take_nothing_that_is_not_told() {
    let document = document(&HttpSettings::default());
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&Value> =
        operations(&document).into_iter().filter_map(|(_, it)| it.get("requestBody")).collect();
    let mut objects = 0;
    while let Some(value) = waiting.pop() {
        let mut found = Vec::new();
        walk(value, &mut |value| {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                found.push(reference.to_owned());
            }
            if value.get("properties").is_some() {
                assert_eq!(value["additionalProperties"], false, "{value}");
                objects += 1;
            }
        });
        for reference in found {
            if seen.insert(reference.clone()) {
                waiting.push(document.pointer(reference.trim_start_matches('#')).unwrap());
            }
        }
    }
    assert!(objects > 10, "{objects} objects");
}

#[test]
fn every_kind_of_problem_is_told_once() {
    let document = document(&HttpSettings::default());
    let problems = document["x-problems"].as_array().unwrap();
    let slugs: BTreeSet<_> = problems.iter().map(|it| it["slug"].as_str().unwrap()).collect();
    assert_eq!(slugs.len(), KINDS.len());
    // Each is named where it can happen: those of no route but the gate's are not in this list.
    let text = document["paths"].to_string() + &document["components"]["responses"].to_string();
    for slug in slugs {
        let is_of_no_route = ["not-found", "quota-exceeded"].contains(&slug);
        assert!(is_of_no_route || text.contains(&format!("`{slug}`")), "{slug}");
    }
}

#[test]
fn operations_have_names_of_their_own() {
    let document = document(&HttpSettings::default());
    let all = operations(&document);
    let names: BTreeSet<_> =
        all.iter().map(|(_, it)| it["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), all.len());
    // A path of a page is not one of the API.
    assert!(page::paths().all(|path| document["paths"].get(path).is_none()));
}

#[test]
fn a_denial_of_the_gate_has_one_of_three_statuses() {
    let document = document(&HttpSettings::default());
    for path in ["/v1/gate/{limit}", "/v1/gate/{limit}/{id}"] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
        let denied = parameters.iter().find(|parameter| parameter["name"] == "denied").unwrap();
        assert_eq!(denied["schema"], json!({"type": "integer", "enum": [429, 403, 401]}));
        assert_eq!(denied["required"], false);
    }
}

#[test]
fn every_bound_is_the_one_that_is_kept() {
    let document = document(&HttpSettings::default());
    let bounds = [
        ("asks", "maxItems", TRANSACTION_ASKS_MAX as u64),
        ("transactions", "maxItems", BATCH_TRANSACTIONS_MAX as u64),
        ("overrides", "maxItems", RUN_TIME_OVERRIDES_MAX as u64),
        ("why", "maxLength", WHY_BYTES_MAX as u64),
        ("last", "maximum", AUDIT_LAST_MAX as u64),
        ("burst", "maximum", BURST_MAX),
        // A batch tells in its place that a cost is too high.
        ("cost", "maximum", BURST_MAX),
        ("cost", "maximum", u64::MAX),
        ("count", "maximum", u64::MAX),
        ("share", "maximum", u64::from(Share::HUNDREDTHS_MAX) / 100),
        // A status of a problem.
        ("status", "maximum", 599),
    ];
    let mut unseen: BTreeSet<_> = bounds.into_iter().collect();
    let mut compare = |name: &str, schema: &Value| {
        for key in ["maxItems", "maxLength", "maximum"] {
            let Some(told) = schema.get(key) else { continue };
            let told = told.as_u64().unwrap_or_else(|| panic!("{name} has the {key} {told}"));
            let bound = bounds.into_iter().find(|it| *it == (name, key, told));
            unseen.remove(&bound.unwrap_or_else(|| panic!("{name} has the {key} {told}")));
        }
    };
    walk(&document, &mut |value| {
        for (name, schema) in
            value.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            compare(name, schema);
        }
        if let (Some(name), Some(schema)) = (value["name"].as_str(), value.get("schema")) {
            compare(name, schema);
        }
    });
    assert!(unseen.is_empty(), "nowhere told: {unseen:?}");
    // What no schema can say is said in words.
    let batch = &document["components"]["schemas"]["Batch"]["properties"]["transactions"];
    let words = batch["description"].as_str().unwrap();
    assert!(words.contains(&format!("at most {BATCH_ASKS_MAX} asks")), "{words}");
    let rule = kind::BAD_ASKS.rule;
    assert!(rule.contains(&format!("1 to {TRANSACTION_ASKS_MAX}")), "{rule}");
}

/// A cost goes up to 2^64 - 1, which a reader of `int64` cannot hold.
#[test]
fn integers_that_cannot_be_negative_are_told_to_be_so() {
    let document = document(&HttpSettings::default());
    let mut costs = 0;
    walk(&document, &mut |value| {
        let is_signed = matches!(value["format"].as_str(), Some("int64" | "int32"));
        assert!(!is_signed || value["minimum"] != 0, "{value}");
        if let Some(cost) = value.get("properties").and_then(|all| all.get("cost")) {
            assert_eq!((&cost["type"], &cost["format"]), (&"integer".into(), &"uint64".into()));
            costs += 1;
        }
    });
    assert!(costs > 3, "{costs}");
}
