//! A million ids cost neither the page nor the metrics anything.

use serde_json::{Value, json};

use crate::stage::{BATCH_MAX, Stage, VIEWER};

const IDS: usize = 1_000_000;
/// How long the text for Prometheus may be, whoever asks.
const METRICS_BYTES_MAX: usize = 200 << 10;
/// How many elements the page may have.
const ELEMENTS_MAX: u64 = 5000;

#[test]
fn a_million_ids_leave_the_page_quick_and_the_metrics_short() {
    let stage = Stage::new();
    let page = stage.visit(VIEWER);
    for first in (0..IDS).step_by(BATCH_MAX) {
        let ids = first..(first + BATCH_MAX).min(IDS);
        let count = ids.len();
        let asks = ids.map(|id| ("LoginsPerUser", format!("user-{id}")));
        assert_eq!(stage.spend(asks), count, "each has a bucket of its own");
    }
    page.wait("what the crowd did", |_| {
        let stats: Value = serde_json::from_str(&stage.read("/v1/stats")).unwrap();
        (stats["limits"]["LoginsPerUser"]["allowed"] == json!(IDS)).then_some(())
    });
    page.wait("who is busiest", |_| page.find_all("#busiest tbody tr").pop());
    let metrics = stage.read("/metrics");
    assert!(metrics.len() <= METRICS_BYTES_MAX, "{} bytes of metrics", metrics.len());
    let elements = page.script("return document.querySelectorAll('*').length", &[]);
    assert!(elements.as_u64().unwrap() <= ELEMENTS_MAX, "{elements} elements");
    page.fill("#lookup-limit", "LoginsPerUser");
    page.fill("#lookup-id", "user-999999");
    page.click("#lookup-form button[type=submit]");
    page.wait_for_state("#lookup-result", "allowed");
    page.wait_for_connection("live");
    page.expect_console(|_| false);
}
