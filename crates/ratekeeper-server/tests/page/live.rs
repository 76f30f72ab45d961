//! The page shows what happens while it happens, and finds its server again.

use serde_json::json;

use crate::stage::{ADMIN, Stage, VIEWER};

const ALL: &str = "#chart-all";
const LOGINS: &str = "#charts > figure[data-limit='LoginsPerUser']";

#[test]
fn charts_and_lists_move_while_the_server_is_asked() {
    let stage = Stage::new();
    let page = stage.visit(VIEWER);
    let ask = || stage.spend((0..40).map(|_| ("LoginsPerUser", "ada".to_owned())));
    let points = page.wait("a first point", |_| page.points());
    page.wait("the rates of what is asked", |_| {
        ask();
        let (denied, all) =
            (page.number(LOGINS, "data-denied-rate")?, page.number(ALL, "data-denied-rate")?);
        (denied > 0.0 && all > 0.0).then_some(())
    });
    page.wait("more points", |_| (page.points()? > points).then_some(()));
    page.wait("who is busiest", |_| {
        let row = "#busiest tbody tr[data-limit='LoginsPerUser'][data-id='ada']";
        page.find_all(row).pop()
    });
    page.wait("who is denied most", |_| {
        page.find_all("#most-denied tbody tr[data-id='ada']").pop()
    });
    page.wait("the rates of nobody", |_| {
        (page.number(LOGINS, "data-denied-rate")? == 0.0).then_some(())
    });
    page.expect_console(|_| false);
}

#[test]
fn an_id_that_never_came_is_explained() {
    let stage = Stage::new();
    let page = stage.visit(VIEWER);
    page.fill("#lookup-limit", "LoginsPerUser");
    page.fill("#lookup-id", "nobody/knows me?");
    page.click("#lookup-form button[type=submit]");
    page.wait_for_state("#lookup-result", "allowed");
    let text = page.find("#lookup-result").text();
    assert!(text.contains("nobody/knows me?") && text.contains("5 of 5 tokens"), "{text}");
    // A limit that is not there is a problem, told at its field.
    page.fill("#lookup-limit", "LoginsPerUsr");
    page.click("#lookup-form button[type=submit]");
    page.wait_for_state("#lookup-result", "problem");
    let told = page.find("#lookup-form [data-error-for=limit]").text();
    assert!(told.contains("LoginsPerUser"), "it says which was meant: {told:?}");
    page.expect_console(|line| line.source == "network" && line.message.contains("404"));
}

#[test]
fn a_page_that_lost_its_server_finds_it_again() {
    let mut stage = Stage::new();
    let page = stage.visit(ADMIN);
    page.wait("a first point", |_| page.points());
    stage.stop();
    page.wait_for_connection("waiting");
    page.wait("the way to try at once", |_| {
        let hidden = page.script("return document.getElementById('reconnect').hidden", &[]);
        (hidden == json!(false)).then_some(())
    });
    stage.start_again();
    page.wait_for_connection("live");
    page.wait("a gap where nothing is known", |_| {
        (page.number(ALL, "data-gaps")? >= 1.0).then_some(())
    });
    stage.spend((0..3).map(|_| ("LoginsPerUser", "ada".to_owned())));
    page.wait("what the new server counts", |_| {
        page.find_all("#busiest tbody tr[data-id='ada']").pop()
    });
    // The browser itself tells that nobody answered; the page says nothing.
    page.expect_console(|line| line.source == "network" && line.message.contains("net::ERR_"));
}
