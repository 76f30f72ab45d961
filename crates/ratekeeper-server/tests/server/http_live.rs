//! What is counted, read over HTTP.

use std::sync::Arc;

use ratekeeper::Clock;

use crate::support::{Folder, Web, request, settings, start, wait_until};

const LIMITS: &str = "
Busy: {burst: 3, count: 1, period: 1h}
Watched: {burst: 1, count: 1, period: 1h, shadow: true}
";

/// How many may watch from one address.
const WATCHERS_PER_SOURCE_MAX: usize = 64;

#[test]
fn decisions_are_counted_by_limit_and_verdict_and_told_everywhere() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", LIMITS));
    let server = start(&settings, Arc::new(Clock::start()));
    let mut web = Web::connect(&server);
    for _ in 0..5 {
        web.post("/v1/spend", r#"{"limit":"Busy","id":"ada"}"#);
        web.post("/v1/spend", r#"{"limit":"Watched","id":"bob"}"#);
    }
    let stats = web.get("/v1/stats").json();
    let expected = serde_json::json!({"allowed": 3, "denied": 2, "shadow": 0});
    assert_eq!(stats["limits"]["Busy"], expected);
    let expected = serde_json::json!({"allowed": 1, "denied": 0, "shadow": 4});
    assert_eq!(stats["limits"]["Watched"], expected);
    assert_eq!(stats["doors"]["http"]["denied"], 2);
    assert_eq!(stats["doors"]["http"]["allowed"], 8);
    let own = serde_json::to_value(server.stats()).unwrap();
    assert_eq!(own["limits"], stats["limits"], "the control socket tells the same");

    let busiest = web.get("/v1/busiest/Busy").json();
    let expected = serde_json::json!([{"id": "ada", "count": 5, "error": 0}]);
    assert_eq!(busiest["busiest"], expected);
    assert_eq!(busiest["most_denied"][0]["count"], 2);
    assert_eq!(web.get("/v1/busiest/Bussy").status, 404);

    let metrics = web.get("/metrics");
    assert!(metrics.field("content-type").unwrap().starts_with("application/openmetrics-text"));
    let line = r#"ratekeeper_decisions_total{limit="Watched",door="http",verdict="shadow"} 4"#;
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[test]
fn who_watches_is_told_every_second_until_the_server_stops() {
    let settings = settings();
    let server = start(&settings, Arc::new(Clock::start()));
    let mut web = Web::connect(&server);
    web.stream.send(request("GET", "/v1/live", "", "").as_bytes());
    let head = web.answer();
    assert_eq!(head.field("content-type"), Some("text/event-stream"));
    let mut seen = Vec::new();
    while seen.windows(12).filter(|it| it == b"event: stats").count() < 2 {
        seen.extend(web.some());
    }
    let text = String::from_utf8(seen).unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(stats["ready"], true);
    assert!(server.drain(settings.drain).unwrap(), "who watches holds nobody up");
}

#[test]
fn one_address_leaves_room_for_other_watchers() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let watch = || {
        let mut web = Web::connect(&server);
        web.stream.send(request("GET", "/v1/live", "", "").as_bytes());
        let page = web.answer();
        (page.status, web)
    };
    let mut watchers: Vec<_> = (0..WATCHERS_PER_SOURCE_MAX).map(|_| watch()).collect();
    assert!(watchers.iter().all(|(status, _)| *status == 200));
    assert_eq!(watch().0, 503);
    // Who leaves makes room.
    watchers.pop();
    wait_until("there is room again", || watch().0 == 200);
}
