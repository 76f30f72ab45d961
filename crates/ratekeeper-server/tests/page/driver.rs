//! A browser without a window, driven over the `WebDriver` protocol of the W3C.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

/// How long the browser may take for one command.
const COMMAND_TIME_MAX: Duration = Duration::from_mins(1);
/// How often something is looked for until it counts as never coming, and the pause between two
/// looks: half a minute, on a machine that does nothing else.
const LOOKS_MAX: usize = 300;
const PAUSE_MS: u64 = 100;
/// What the driver says when it can be asked, before its port.
const STARTED: &str = "was started successfully on port ";
/// The key under which the protocol tells of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// The tabulator key, as the protocol writes it.
const TAB: &str = "\u{e004}";

const FLAGS: [&str; 11] = [
    "--headless=new",
    "--hide-scrollbars",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en",
];

/// A browser with one page. It ends with the test.
pub(crate) struct Browser {
    agent: Agent,
    /// The address of the session, or of the driver while there is none.
    session: String,
    // In this order they go: nobody may still write to the profile.
    _driver: Driver,
    profile: Profile,
}

/// The program that drives it. It ends with this, wherever a test fails.
struct Driver(Child);

/// The folder where the browser keeps what it likes.
struct Profile(PathBuf);

/// A part of the page.
pub(crate) struct Element<'b> {
    browser: &'b Browser,
    path: String,
}

/// A line of the browser's console.
#[derive(Debug)]
pub(crate) struct ConsoleLine {
    /// `network` if the browser itself tells that something could not be loaded.
    pub(crate) source: String,
    pub(crate) message: String,
}

impl Browser {
    /// Starts a browser whose window has this many pixels.
    pub(crate) fn open(width: u32, height: u32) -> Self {
        let (driver, port) = Driver::start();
        let config = Agent::config_builder().http_status_as_error(false);
        let agent = config.timeout_global(Some(COMMAND_TIME_MAX)).build().new_agent();
        let session = format!("http://127.0.0.1:{port}");
        let mut browser = Self { agent, session, _driver: driver, profile: Profile::new() };
        let answer = browser.command("/session", &browser.capabilities(width, height));
        let id = answer["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}"));
        browser.session = format!("{}/session/{id}", browser.session);
        browser
    }

    fn capabilities(&self, width: u32, height: u32) -> Value {
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", self.profile.0.display()));
        flags.push(format!("--window-size={width},{height}"));
        let chrome = json!({"binary": "/usr/bin/chromium", "args": flags});
        let millis = COMMAND_TIME_MAX.as_millis();
        json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": chrome,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": millis, "pageLoad": millis},
        }}})
    }

    pub(crate) fn go_to(&self, url: &str) {
        self.command("/url", &json!({"url": url}));
    }

    /// The first element that a CSS selector chooses. It has to be there.
    pub(crate) fn find(&self, css: &str) -> Element<'_> {
        let found = self.find_all(css).into_iter().next();
        found.unwrap_or_else(|| panic!("nothing is {css:?}"))
    }

    /// Every element that a CSS selector chooses.
    pub(crate) fn find_all(&self, css: &str) -> Vec<Element<'_>> {
        let found = self.command("/elements", &json!({"using": "css selector", "value": css}));
        let ids = found.as_array().unwrap().iter().map(|it| it[ELEMENT].as_str().unwrap());
        ids.map(|id| Element { browser: self, path: format!("/element/{id}") }).collect()
    }

    /// What the body of a function returns in the page.
    pub(crate) fn script(&self, body: &str, arguments: &[Value]) -> Value {
        self.command("/execute/sync", &json!({"script": body, "args": arguments}))
    }

    /// The same of one that waits: what it calls its last argument with.
    pub(crate) fn script_async(&self, body: &str, arguments: &[Value]) -> Value {
        self.command("/execute/async", &json!({"script": body, "args": arguments}))
    }

    /// Looks until something is found. The pauses are the page's own, so that it goes on meanwhile.
    pub(crate) fn wait<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        for _ in 0..LOOKS_MAX {
            if let Some(found) = look(self) {
                return found;
            }
            self.script_async("setTimeout(arguments[1], arguments[0])", &[json!(PAUSE_MS)]);
        }
        panic!("this never comes: {what}; the console says {:#?}", self.console());
    }

    /// What a command of Chromium's own protocol returns.
    pub(crate) fn devtools(&self, name: &str, parameters: &Value) -> Value {
        self.command("/goog/cdp/execute", &json!({"cmd": name, "params": parameters}))
    }

    /// Presses the tabulator key.
    pub(crate) fn press_tab(&self) {
        let press = ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": TAB}));
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": press});
        self.command("/actions", &json!({"actions": [keyboard]}));
    }

    /// What the page and the browser wrote to the console since this was asked last.
    pub(crate) fn console(&self) -> Vec<ConsoleLine> {
        let lines = self.command("/se/log", &json!({"type": "browser"}));
        let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let line = |line: &Value| ConsoleLine {
            source: text(line, "source"),
            message: text(line, "message"),
        };
        lines.as_array().unwrap().iter().map(line).collect()
    }

    /// The window as a PNG.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let picture = self.ask("/screenshot");
        base64(picture.as_str().unwrap())
    }

    /// The whole page as a PNG, also what the window does not show.
    pub(crate) fn long_screenshot(&self) -> Vec<u8> {
        let beyond = json!({"captureBeyondViewport": true});
        let picture = self.devtools("Page.captureScreenshot", &beyond);
        base64(picture["data"].as_str().unwrap())
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let answer = self.agent.post(&url).send_json(body);
        value_of(path, answer.unwrap_or_else(|error| panic!("{path}: {error}")))
    }

    fn ask(&self, path: &str) -> Value {
        let answer = self.agent.get(format!("{}{path}", self.session)).call();
        value_of(path, answer.unwrap_or_else(|error| panic!("{path}: {error}")))
    }
}

impl Element<'_> {
    pub(crate) fn click(&self) {
        self.command("/click", &json!({}));
    }

    /// Types, as a person would, at the end of what is there.
    pub(crate) fn type_text(&self, text: &str) {
        self.command("/value", &json!({"text": text}));
    }

    pub(crate) fn clear(&self) {
        self.command("/clear", &json!({}));
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let value = self.browser.ask(&format!("{}/attribute/{name}", self.path));
        value.as_str().map(str::to_owned)
    }

    /// What can be read of it.
    pub(crate) fn text(&self) -> String {
        self.browser.ask(&format!("{}/text", self.path)).as_str().unwrap().to_owned()
    }

    pub(crate) fn is_displayed(&self) -> bool {
        self.browser.ask(&format!("{}/displayed", self.path)) == json!(true)
    }

    /// What a screen reader calls it.
    pub(crate) fn accessible_name(&self) -> String {
        let name = self.browser.ask(&format!("{}/computedlabel", self.path));
        name.as_str().unwrap().to_owned()
    }

    fn command(&self, name: &str, body: &Value) {
        self.browser.command(&format!("{}{name}", self.path), body);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser first: it would outlive its driver.
        let _ = self.agent.delete(&self.session).call();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn value_of(path: &str, mut answer: ureq::http::Response<ureq::Body>) -> Value {
    let status = answer.status();
    let mut body: Value = answer.body_mut().with_config().limit(u64::MAX).read_json().unwrap();
    assert!(
        status.is_success(),
        "{path}: {}: {}",
        body["value"]["error"],
        body["value"]["message"]
    );
    body["value"].take()
}

impl Driver {
    /// Starts it, and says at which port it listens.
    fn start() -> (Self, u16) {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let driver = command.spawn().unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => {
                panic!("install the Debian packages chromium and chromium-driver")
            }
            _ => panic!("chromedriver: {error}"),
        });
        // From here on it ends also if what it says is not understood.
        let mut driver = Self(driver);
        let mut lines = BufReader::new(driver.0.stdout.take().unwrap()).lines();
        let port = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            let port = line.split_once(STARTED)?.1.trim_end_matches('.');
            Some(port.parse().unwrap())
        });
        // Whatever else it says is read, or it would be stopped by a pipe that is full.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        (driver, port.expect("chromedriver does not start"))
    }
}

impl Profile {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("browser").join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

/// The bytes that a text in base 64 stands for.
fn base64(text: &str) -> Vec<u8> {
    const SIGNS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|sign| SIGNS.iter().position(|it| *it == sign));
    let (mut bytes, mut held, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0_usize, 0);
    for digit in digits {
        held = held << 6 | digit;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap());
            held &= (1 << bits) - 1;
        }
    }
    bytes
}
