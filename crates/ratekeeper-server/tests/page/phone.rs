//! The page on a phone, by day and by night, with a keyboard and for a screen reader.

use std::fs;

use serde_json::{Value, json};

use crate::driver::Element;
use crate::stage::{ADMIN, Stage, Visit};

/// Of the phone's screen, in pixels.
const WIDTH: u32 = 360;
const HEIGHT: u32 = 740;
/// What text needs to be read by almost everybody, by WCAG 2 (AA).
const CONTRAST_MIN: f64 = 4.5;
/// How often the tabulator key is pressed until the first element should have come again.
const TABS_MAX: usize = 1000;
/// What can be used by hand.
const CONTROLS: &str = "a[href], button:enabled, input:enabled, select:enabled, summary";
const THEMES: [&str; 2] = ["light", "dark"];

/// What hangs over the right edge, by its start.
const OVERHANGING: &str = "
    const root = document.documentElement;
    if (root.scrollWidth <= arguments[0] && innerWidth <= arguments[0]) return [];
    const isOver = (it) => it.getBoundingClientRect().right > arguments[0] + .5;
    const over = [...document.body.querySelectorAll('*')].filter(isOver);
    return [`${root.scrollWidth} px`, ...over.map((it) => it.outerHTML.slice(0, 80))];
";

/// The text that can be seen and has less contrast with what is behind it than it should.
const FAINT: &str = "
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (css) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = css;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].map((it) => it / 255);
    };
    const over = (front, back) =>
        [0, 1, 2].map((it) => front[it] * front[3] + back[it] * (1 - front[3])).concat(1);
    const ground = (node) => {
        if (!node) return rgba('Canvas');
        const own = rgba(getComputedStyle(node).backgroundColor);
        return own[3] === 1 ? own : over(own, ground(node.parentElement));
    };
    const linear = (it) => (it <= .04045 ? it / 12.92 : ((it + .055) / 1.055) ** 2.4);
    const light = ([red, green, blue]) =>
        .2126 * linear(red) + .7152 * linear(green) + .0722 * linear(blue);
    const contrast = (one, other) => {
        const [less, more] = [light(one), light(other)].sort((a, b) => a - b);
        return (more + .05) / (less + .05);
    };
    const hasText = (node) => node.matches('input, select')
        || [...node.childNodes].some((it) => it.nodeType === Node.TEXT_NODE && it.data.trim());
    const isSeen = (node) => node.checkVisibility({ visibilityProperty: true })
        && node.getBoundingClientRect().width > 1 && !node.matches('option, noscript');
    return [document.body, ...document.body.querySelectorAll('*')]
        .filter((node) => isSeen(node) && (node === document.body || hasText(node)))
        .map((node) => {
            const back = ground(node);
            const ratio = contrast(over(rgba(getComputedStyle(node).color), back), back);
            return [ratio, node.outerHTML.slice(0, 80)];
        })
        .filter(([ratio]) => !(ratio >= arguments[0]));
";

/// Whether the focus has gone round, and if what has it does not show it, what that is.
const FOCUSED: &str = "
    window.reached ??= new Set();
    const node = document.activeElement;
    const [first] = window.reached;
    if (node === document.body) return { round: false, unshown: null };
    if (node === first && window.reached.size > 1) return { round: true };
    window.reached.add(node);
    const { outlineStyle, outlineWidth } = getComputedStyle(node);
    const { width, height, right, bottom } = node.getBoundingClientRect();
    const isShown = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2
        && width > 0 && height > 0 && right > 0 && bottom > 0;
    return { round: false, unshown: isShown ? null : node.outerHTML.slice(0, 80) };
";

/// The controls that can be seen and never had the focus.
const UNREACHED: &str = "
    return [...document.querySelectorAll(arguments[0])]
        .filter((node) => node.checkVisibility({ visibilityProperty: true }))
        .filter((node) => !window.reached?.has(node))
        .map((node) => node.outerHTML.slice(0, 80));
";

#[test]
fn a_phone_shows_the_whole_page_by_day_and_by_night() {
    let stage = Stage::new();
    let page = stage.visit(ADMIN);
    become_phone(&page);
    fill(&stage, &page);
    let grounds = THEMES.map(|theme| {
        choose(&page, theme);
        look(&page, theme);
        let name = format!("{}/phone-{theme}.png", env!("CARGO_TARGET_TMPDIR"));
        fs::write(name, page.long_screenshot()).unwrap();
        page.script("return getComputedStyle(document.body).backgroundColor", &[])
    });
    assert_ne!(grounds[0], grounds[1], "the themes have grounds of their own");
    page.click("#token-box > summary");
    look_in_every_theme(&page, "the sheet for the token");
    page.click("#token-box > summary");
    page.click("#overrides tbody button");
    page.wait("the dialog", |_| page.find_all("#remove-dialog[open]").pop());
    look_in_every_theme(&page, "the dialog");
    page.click("#remove-cancel");
    show_api(&stage, &page);
    look_in_every_theme(&page, "the page of the API");
    page.expect_console(|_| false);
}

#[test]
fn every_control_has_a_name_and_comes_with_the_tabulator_key() {
    let stage = Stage::new();
    let page = stage.visit(ADMIN);
    become_phone(&page);
    fill(&stage, &page);
    page.script("document.activeElement.blur(); scrollTo(0, 0)", &[]);
    check_controls(&page);
    show_api(&stage, &page);
    check_controls(&page);
    page.expect_console(|_| false);
}

fn become_phone(page: &Visit) {
    let metrics =
        json!({"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false});
    page.devtools("Emulation.setDeviceMetricsOverride", &metrics);
}

fn choose(page: &Visit, theme: &str) {
    let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
    page.devtools("Emulation.setEmulatedMedia", &json!({"features": features}));
}

/// Has every part of the page show something, and long words among it.
fn fill(stage: &Stage, page: &Visit) {
    let long = "an-id-without-any-blank-".repeat(6);
    let short = "somebody@a-place-with-a-long-name.example";
    for id in [&long, short] {
        stage.spend((0..9).map(|_| ("LoginsPerUser", id.to_owned())));
    }
    page.wait("who is denied most", |_| page.find_all("#most-denied tbody button").pop());
    page.fill("#lookup-limit", "LoginsPerUser");
    page.fill("#lookup-id", &long);
    page.click("#lookup-form button[type=submit]");
    page.wait_for_state("#lookup-result", "denied");
    let terms = [("limit", "LoginsPerUser"), ("id", &long), ("burst", "50"), ("count", "1")];
    for (field, text) in terms.into_iter().chain([("period", "1m"), ("why", &long)]) {
        page.fill(&format!("#override-{field}"), text);
    }
    page.click("#override-preview");
    page.wait_for_state("#override-result", "preview");
    page.click("#override-apply");
    page.wait_for_state("#override-result", "done");
    page.wait("the override in the list", |_| page.find_all("#overrides tbody button").pop());
}

fn show_api(stage: &Stage, page: &Visit) {
    page.go_to(&stage.url("/api"));
    page.wait("the routes", |_| page.find_all(".operation").pop());
}

fn look_in_every_theme(page: &Visit, what: &str) {
    for theme in THEMES {
        choose(page, theme);
        look(page, &format!("{what}, {theme}"));
    }
}

/// Refuses what hangs over, and what is hard to read.
fn look(page: &Visit, what: &str) {
    let over = page.script(OVERHANGING, &[json!(WIDTH)]);
    assert_eq!(over, json!([]), "{what}: this hangs over");
    let faint = page.script(FAINT, &[json!(CONTRAST_MIN)]);
    assert_eq!(faint, json!([]), "{what}: this is hard to read");
}

fn check_controls(page: &Visit) {
    let shown = page.find_all(CONTROLS).into_iter().filter(Element::is_displayed);
    let unnamed: Vec<_> = shown
        .filter(|control| control.accessible_name().is_empty())
        .map(|control| control.attribute("outerHTML"))
        .collect();
    assert!(unnamed.is_empty(), "without a name: {unnamed:#?}");
    tab_through(page);
    let unreached = page.script(UNREACHED, &[json!(CONTROLS)]);
    assert_eq!(unreached, json!([]), "the tabulator key never comes here");
}

/// Presses the key until the focus has gone round.
fn tab_through(page: &Visit) {
    for _ in 0..TABS_MAX {
        page.press_tab();
        let focused = page.script(FOCUSED, &[]);
        if focused["round"] == json!(true) {
            return;
        }
        assert_eq!(focused["unshown"], Value::Null, "its focus cannot be seen");
    }
    panic!("the focus does not come to an end");
}
