//! A million ids cost neither the page nor the metrics anything.

use serde_json::{Value, json};

use crate::stage::{BATCH_MAX, Stage, VIEWER};

const IDS: usize = 1_000_000;
/// How long the text for Prometheus may be, whoever asks.
const METRICS_BYTES_MAX: usize = 200 << 10;
/// How long the page may be busy with one thing, so that a click is not felt to be late. Generous,
/// as the machine also runs the server, the crowd and other tests.
const TASK_MS_MAX: f64 = 500.0;
/// How many elements the page may have.
const ELEMENTS_MAX: u64 = 5000;

#[test]
fn a_million_ids_leave_the_page_quick_and_the_metrics_short() {
    let stage = Stage::new();
    let page = stage.visit(VIEWER);
    page.script(WATCH_TASKS, &[]);
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
    let longest = page.script("return window.longestTask", &[]).as_f64().unwrap();
    assert!(longest <= TASK_MS_MAX, "the page was busy for {longest} ms");
    page.wait_for_connection("live");
    page.expect_console(|_| false);
}

/// Remembers how long the page was busy with one thing.
const WATCH_TASKS: &str = "
    window.longestTask = 0;
    const watch = (list) => list.getEntries().forEach((task) => {
        window.longestTask = Math.max(window.longestTask, task.duration);
    });
    new PerformanceObserver(watch).observe({ type: 'longtask' });
";
