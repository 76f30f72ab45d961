//! `ratekeeper top`, and `ratekeeper stats` over HTTP.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fake::{Fake, Step, nowhere};
use crate::program::{command, run};
use crate::server::{FREE, Server};

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// The counters of a real server, as its control socket tells them.
fn counters(name: &str) -> (Server, String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("ratekeeper.sock").into_os_string().into_string().unwrap();
    let args = [&["serve", "--memory", "16MiB", "--control", &socket][..], &FREE].concat();
    let server = Server::start_exactly(&args);
    let asked = run(&["ask", "--url", &server.url(), "LoginsPerUser", "ada", "--times", "7"]);
    assert_eq!(asked.code, Some(1), "{}", asked.stderr);
    let told = run(&["stats", "--control", &socket, "--format", "json"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    (server, socket, told.stdout)
}

#[test]
fn one_frame_shows_what_a_control_socket_tells() {
    let (server, socket, _) = counters("top-control");
    let ran = run(&["top", "--once", "--control", &socket]);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    let parts =
        [&*socket, "read every second", "LoginsPerUser", "ada", "the starter limits", "stores"];
    for part in parts {
        assert!(ran.stdout.contains(part), "{part:?} is not in\n{}", ran.stdout);
    }
    assert!(server.stop().success());
    let ran = run(&["top", "--once", "--control", &socket]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    assert!(ran.stderr.contains("no server answers at"), "{}", ran.stderr);
}

#[test]
fn the_same_counters_are_read_over_http() {
    let (server, _, stats) = counters("top-http");
    let fake = Fake::http(&["GET /v1/stats HTTP"], 200, JSON, &stats);
    let ran = run(&["stats", "--url", &fake.url(), "--format", "json"]);
    assert_eq!((ran.code, &ran.stdout), (Some(0), &stats));
    fake.finish();
    assert!(server.stop().success());
}

#[test]
fn a_limit_that_is_short_of_memory_is_told() {
    let (server, _, stats) = counters("stats-memory");
    let mut short: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(short["stores"]["limits"]["by_limit"][0]["limit"], "LoginsPerUser");
    assert_eq!(short.get("pressure"), None, "it is not yet");
    let sentence =
        "memory is short for 1 limit: Flooded holds 200 keys (its share: 90), new ids are denied";
    short["pressure"] = sentence.into();
    short["stores"]["limits"]["by_limit"] = serde_json::json!([
        {"limit": "Flooded", "keys": 200, "share": 90, "evicted": 7, "tokens_forgiven": 8,
            "turned_away": 9, "share_full": 10, "under_pressure": true},
        {"limit": "Others", "keys": 30, "share": 60, "evicted": 0, "tokens_forgiven": 0,
            "turned_away": 0, "under_pressure": false},
    ]);
    let fake = Fake::http(&["GET /v1/stats HTTP"], 200, JSON, &short.to_string());
    let ran = run(&["stats", "--url", &fake.url()]);
    let table = "\
memory of  store   keys  share  evicted  forgiven  turned away  share full
Flooded    limits   200     90        7         8            9          10
Others     limits    30     60        0         0            0           0
";
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    assert!(ran.stdout.contains(&format!("{table}\n{sentence}\n")), "{}", ran.stdout);
    fake.finish();
    assert!(server.stop().success());
}

#[test]
fn one_frame_shows_the_pace_between_two_events() {
    let (server, _, stats) = counters("top-live");
    let mut later: serde_json::Value = serde_json::from_str(&stats).unwrap();
    later["at"] = (later["at"].as_f64().unwrap() + 2.0).into();
    later["limits"]["LoginsPerUser"]["denied"] = (2 + 90).into();
    let live = format!("event: stats\ndata: {}\n\nevent: stats\ndata: {later}\n\n", stats.trim());
    let fake = Fake::streams(vec![
        vec![Step::Request(vec!["GET /v1/stats HTTP".into()]), Step::Answer(200, JSON, stats)],
        vec![
            Step::Request(vec!["GET /v1/live HTTP".into()]),
            Step::Answer(200, "text/event-stream", live),
        ],
    ]);
    let ran = run(&["top", "--once", "--url", &fake.url()]);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    assert!(ran.stdout.contains("0 allowed/s  45 denied/s  0 shadow/s"), "{}", ran.stdout);
    fake.finish();
    assert!(server.stop().success());
}

#[test]
fn nobody_there_is_told_before_a_screen_is_drawn() {
    let url = format!("http://{}", nowhere());
    for args in [&["top", "--once", "--url", &url][..], &["stats", "--url", &url]] {
        let ran = run(args);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{args:?}");
        assert!(ran.stderr.contains("no server answers at http://127"), "{}", ran.stderr);
    }
    let problem = r#"{"title":"A token is needed","status":401,"detail":"a token is needed"}"#;
    for (status, kind, body, code) in
        [(401, PROBLEM, problem, 2), (200, JSON, "{}", 3), (404, "text/html", "no", 3)]
    {
        for command in [&["top", "--once"][..], &["stats"]] {
            let fake = Fake::http(&["GET /v1/stats HTTP"], status, kind, body);
            let ran = run(&[command, &["--url", &fake.url()]].concat());
            assert_eq!((ran.code, &*ran.stdout), (Some(code), ""), "{status} {}", ran.stderr);
            fake.finish();
        }
    }
}

#[test]
fn without_a_terminal_only_one_frame_can_be_shown() {
    let ran = run(&["top"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("--once"), "{}", ran.stderr);
}

#[test]
fn two_servers_at_once_are_a_usage_mistake() {
    for command in ["top", "stats"] {
        let ran = run(&[command, "--control", "/x", "--url", "http://x"]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains("say one of them"), "{}", ran.stderr);
    }
}

/// `top`, on a terminal of its own that has drawn something.
struct OnTerminal {
    child: Child,
    /// The other end of the terminal.
    person: File,
    _server: Server,
}

impl OnTerminal {
    fn start(name: &str) -> Self {
        let (server, socket, _) = counters(name);
        let (master, path) = terminal();
        let end = || Stdio::from(open_terminal(&path));
        let mut command = command(&["top", "--control", &socket]);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let mut person = master;
        let mut drawn = Vec::new();
        while !String::from_utf8_lossy(&drawn).contains("quit") {
            let mut some = [0; 4096];
            let length = person.read(&mut some).unwrap();
            drawn.extend_from_slice(&some[..length]);
        }
        Self { child, person, _server: server }
    }

    /// Waits for it to end. One that does not is killed, so that no test hangs.
    fn ended(mut self, gone: bool) -> ExitStatus {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        let (done, waiting) = channel::<()>();
        let watch = std::thread::spawn(move || {
            if waiting.recv_timeout(ENDS_IN) == Err(RecvTimeoutError::Timeout) {
                kill(pid, Signal::SIGKILL).unwrap();
            }
        });
        // What it still draws is taken, as a terminal does, if there is one.
        let reader = (!gone).then(|| {
            let mut person = self.person.try_clone().unwrap();
            std::thread::spawn(move || std::io::copy(&mut person, &mut std::io::sink()))
        });
        drop(self.person);
        let status = self.child.wait().unwrap();
        drop(done);
        watch.join().unwrap();
        drop(reader);
        status
    }
}

/// The person's end of a terminal of 80 x 24, and where the other end is.
fn terminal() -> (File, String) {
    // Programs that other tests start must not hold it, or it would not be gone.
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname_r(&master).unwrap();
    let sized = Command::new("stty").args(["-F", &path, "rows", "24", "cols", "80"]).status();
    assert!(sized.unwrap().success());
    (File::from(OwnedFd::from(master)), path)
}

/// Does not make it the terminal of these tests.
fn open_terminal(path: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(path).unwrap()
}

/// How long an end may take on a busy machine.
const ENDS_IN: Duration = Duration::from_secs(10);

#[test]
fn it_ends_with_its_terminal() {
    assert!(OnTerminal::start("top-gone").ended(true).success());
}

#[test]
fn a_signal_ends_it_and_a_key_does() {
    let top = OnTerminal::start("top-signal");
    kill(Pid::from_raw(top.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(top.ended(false).success());
    let mut top = OnTerminal::start("top-key");
    top.person.write_all(b"q").unwrap();
    assert!(top.ended(false).success());
}
