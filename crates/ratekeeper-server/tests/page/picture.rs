//! A picture of the page, for the README.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ratekeeper::{Clock, Moment};
use ratekeeper_server::Time;
use serde_json::json;

use crate::stage::{ADMIN, Stage, Visit};

/// Where `cargo xtask screenshot` finds it.
const PICTURE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/page.png");
/// How many points its charts have.
const POINTS: f64 = 30.0;
/// How much faster the server's time runs, so that the charts fill earlier. What it tells every
/// second is then four seconds apart; from five on, the page takes that for a gap.
const SPEED: u64 = 4;

const LIMITS: &str = "\
SearchesPerIPAddress: {burst: 10, count: 3, period: 1s, id: ipAddress}
LoginsPerUser: {burst: 5, count: 1, period: 10s}
UploadsPerProject: {burst: 20, count: 1, period: 1s, shadow: true}
";
const BUCKETS: &str = "mails 25\n";

#[test]
fn a_picture_of_the_page_shows_traffic_and_nothing_hangs_over() {
    let clock = Clock::start();
    let time = Arc::new(FastTime { start: clock.now(), clock });
    let stage = Stage::with(time, |settings| {
        settings.limits = Some(file("picture-limits.yaml", LIMITS));
        settings.bucket.buckets = Some(file("picture-buckets.conf", BUCKETS));
    });
    let page = stage.visit(ADMIN);
    choose_light(&page);
    let mut turn = 0;
    page.wait("charts with enough points", |_| {
        turn += 1;
        stage.spend(traffic(turn));
        (page.points()? >= POINTS).then_some(())
    });
    let overhang = "return document.documentElement.scrollWidth - window.innerWidth";
    assert!(page.script(overhang, &[]).as_i64().unwrap() <= 0);
    let picture = page.screenshot();
    assert!(picture.starts_with(b"\x89PNG\r\n"), "it is a picture");
    fs::write(PICTURE, picture).unwrap();
    page.expect_console(|_| false);
}

/// A time that is in a hurry.
struct FastTime {
    start: Moment,
    clock: Clock,
}

impl Time for FastTime {
    fn now(&self) -> Moment {
        let passed = self.clock.now().as_nanos() - self.start.as_nanos();
        Moment::from_nanos(self.start.as_nanos() + SPEED * passed)
    }
}

/// Presses the button until the page is light.
fn choose_light(page: &Visit) {
    page.wait("the light page", |_| {
        let is_light = "return document.documentElement.dataset.theme === 'light'";
        if page.script(is_light, &[]) == json!(true) {
            return Some(());
        }
        page.click("#theme-toggle");
        None
    });
}

/// Many who stay within their limits, and a few who do not.
fn traffic(turn: usize) -> Vec<(&'static str, String)> {
    let wave = [6, 7, 9, 12, 14, 15, 15, 14, 12, 9, 7, 6];
    let height = wave[turn / 6 % wave.len()];
    let search = |index| ("SearchesPerIPAddress", format!("192.0.2.{}", (turn * 7 + index) % 60));
    let mail = |_| ("mails", "*".to_owned());
    let mut asks: Vec<_> = (0..height).map(search).chain((0..height).map(mail)).collect();
    let greedy = if (turn / 40).is_multiple_of(2) { 3 } else { 6 };
    asks.extend((0..greedy).map(|_| ("SearchesPerIPAddress", "198.51.100.7".to_owned())));
    asks.extend((0..turn % 2).map(|_| ("LoginsPerUser", "mallory".to_owned())));
    asks.push(("LoginsPerUser", format!("user-{}", turn % 50)));
    asks.extend((0..turn % 3).map(|_| ("UploadsPerProject", "atlas".to_owned())));
    asks
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}
