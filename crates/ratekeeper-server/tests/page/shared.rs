//! The page says how it goes with a store that servers share.

use std::sync::Arc;

use ratekeeper::Clock;

use crate::servers::{GENEROUS, Single};
use crate::stage::{Stage, VIEWER, Visit};

const NOTE: &str = "#health-note";
const PASSWORD: &str = "sesame";

/// Asks until the page says this.
fn wait_for_words(page: &Visit, stage: &Stage, words: &[&str]) {
    page.wait(&format!("a note that says {words:?}"), |_| {
        stage.spend([("LoginsPerUser", "ada".to_owned())]);
        let note = page.find(NOTE).text();
        assert!(!note.contains(PASSWORD), "{note}");
        words.iter().all(|word| note.contains(word)).then_some(())
    });
}

#[test]
fn the_page_says_that_the_store_is_there_away_and_back() {
    let mut redis = Single::with(&["--requirepass", PASSWORD]);
    let address = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port);
    let stage = Stage::with(Arc::new(Clock::start()), |settings| {
        settings.store.address = Some(address.parse().unwrap());
        // The machine may be busy with other tests.
        settings.store.timeout = GENEROUS;
    });
    let page = stage.visit(VIEWER);
    let shown = format!("127.0.0.1:{}", redis.port);
    let shared = format!("Buckets are shared at redis://{shown}.");
    wait_for_words(&page, &stage, &["Ready.", &shared]);
    assert!(!page.find(NOTE).text().contains("away"), "it was not");
    redis.kill();
    let away = format!("The store at redis://{shown} has been away for ");
    wait_for_words(&page, &stage, &["Ready.", &away, "Redis is unreachable", "decided here"]);
    redis.restart();
    wait_for_words(&page, &stage, &[&shared, "While it was away: ", "decided here"]);
    page.expect_console(|_| false);
}
