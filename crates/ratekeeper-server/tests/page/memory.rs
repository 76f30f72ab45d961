//! The page says which limits are short of memory, and who holds how much of it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ratekeeper::Clock;

use crate::stage::{BATCH_MAX, Stage, VIEWER};

/// The least that settings allow; half of it is for named limits.
const MEMORY: usize = 4 << 20;
/// More ids than it holds.
const FLOOD: usize = 70_000;
const LIMITS: &str = "\
Flooded: {burst: 1, count: 1, period: 1h}
Others: {burst: 5, count: 5, period: 1h, share: 3, on_full: forget}
";

fn limits() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("memory-limits.yaml");
    fs::write(&path, LIMITS).unwrap();
    path
}

#[test]
fn the_page_says_which_limit_is_short_of_memory_while_it_is() {
    let stage = Stage::with(Arc::new(Clock::start()), |settings| {
        settings.limits = Some(limits());
        settings.memory = MEMORY;
    });
    stage.spend((0..100).map(|id| ("Others", format!("other-{id}"))));
    let page = stage.visit(VIEWER);
    page.wait("what limits hold", |_| {
        let row = page.find_all("#memory tbody tr[data-store=limits][data-limit=Others]");
        row.first().filter(|row| row.text().contains("100 of ")).map(drop)
    });
    assert_eq!(page.find("#pressure").text(), "", "it is hidden");
    for first in (0..FLOOD).step_by(BATCH_MAX) {
        stage.spend((first..first + BATCH_MAX).map(|id| ("Flooded", format!("id-{id}"))));
    }
    page.wait("a warning", |_| {
        let words = page.find("#pressure").text();
        let is_told = words.starts_with("Memory is short for 1 limit: Flooded holds ");
        (is_told && words.ends_with(", new ids are denied.")).then_some(())
    });
    let first = page.find("#memory tbody tr").text();
    assert!(first.starts_with("Flooded limits") && first.contains("short of memory"), "{first}");
    let shares = page.find("#limits tbody tr[data-limit=Others]").text();
    assert!(shares.contains("3, forgets"), "{shares}");
    let overhang = "return document.documentElement.scrollWidth - window.innerWidth";
    assert!(page.script(overhang, &[]).as_i64().unwrap() <= 0);
    page.expect_console(|_| false);
}
