//! Overrides, from the page to the next decision.

use crate::stage::{ADMIN, Stage, VIEWER, Visit};

const ROW: &str = "#overrides tbody tr[data-limit='LoginsPerUser'][data-id='ada']";

#[test]
fn an_override_that_is_added_in_the_page_decides_until_it_is_removed_there() {
    let stage = Stage::new();
    let page = stage.visit(ADMIN);
    assert_eq!(logins(&stage, 10), 5, "the default");
    write_override(&page, "1m");
    page.click("#override-preview");
    page.wait_for_state("#override-result", "preview");
    assert_eq!(logins(&stage, 10), 0, "a preview changes nothing");
    page.click("#override-apply");
    page.wait_for_state("#override-result", "done");
    assert_eq!(logins(&stage, 100), 45, "what was spent stays spent");
    page.wait("the override in the list", |_| page.find_all(ROW).pop());
    page.click(&format!("{ROW} button"));
    page.fill("#remove-why", "the fair is over");
    page.click("#remove-confirm");
    page.wait("the list without it", |_| page.find_all(ROW).is_empty().then_some(()));
    let overrides = stage.read("/v1/overrides");
    assert!(overrides.contains("\"overrides\":[]"), "{overrides}");
    page.expect_console(|_| false);
}

#[test]
fn lowering_has_to_be_meant() {
    let stage = Stage::new();
    let page = stage.visit(ADMIN);
    // More at once than the default, but fewer in the long run.
    write_override(&page, "1h");
    page.click("#override-preview");
    page.wait_for_state("#override-result", "problem");
    assert_eq!(logins(&stage, 10), 5, "nothing was changed");
    page.click("#override-lower");
    page.wait_for_state("#override-result", "preview");
    page.click("#override-apply");
    page.wait_for_state("#override-result", "done");
    assert_eq!(logins(&stage, 100), 45);
    page.expect_console(|line| line.source == "network" && line.message.contains("409"));
}

#[test]
fn who_may_only_look_is_told_so_and_changes_nothing() {
    let stage = Stage::new();
    let page = stage.visit(VIEWER);
    write_override(&page, "1m");
    page.click("#override-preview");
    page.wait_for_state("#override-result", "problem");
    let told = page.find("#override-problem").text();
    assert!(told.contains("admin"), "{told:?}");
    assert_eq!(logins(&stage, 10), 5);
    page.expect_console(|line| line.source == "network" && line.message.contains("403"));
}

/// Fifty at once, and one more every `period`.
fn write_override(page: &Visit, period: &str) {
    let fields = [("limit", "LoginsPerUser"), ("id", "ada"), ("burst", "50"), ("count", "1")];
    let more = [("period", period), ("why", "a fair in town")];
    for (field, text) in fields.iter().chain(&more) {
        page.fill(&format!("#override-{field}"), text);
    }
}

fn logins(stage: &Stage, count: usize) -> usize {
    stage.spend((0..count).map(|_| ("LoginsPerUser", "ada".to_owned())))
}
