//! `serve`, `config` and `stats`, as an operator uses them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Stdio;

use crate::program::{command, file, run};
use crate::server::{FREE, Server};

/// A folder that is empty and that no other test uses.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn every_door_answers_with_the_starter_files() {
    let server = Server::start(&[]);
    assert_eq!(server.udp("7 over_limit ws global"), "7 ok N 0.0 2500.0 10");
    let mut bucket = server.bucket();
    assert_eq!(bucket.ask("get bucketa").as_deref(), Some("1"));
    assert_eq!(bucket.ask("get bucketa").as_deref(), Some("0"));
    let throttr = server.address("throttr").to_string();
    let asked = run(&[
        "ask", "throttr", "insert", "--server", &throttr, "ada", "/", "--quota", "9", "--usage",
        "1", "--ttl", "60s",
    ]);
    assert_eq!((asked.code, &*asked.stdout), (Some(0), "allowed, 8 left, 59s to go\n"));
    let resp = server.address("resp").to_string();
    let asked = run(&["ask", "resp", "--server", &resp, "THROTTLE", "LoginsPerUser", "eve"]);
    assert_eq!((asked.code, &*asked.stdout), (Some(0), "0 5 4 -1 60\n"), "{}", asked.stderr);
    let asked = run(&["ask", "--url", &server.url(), "LoginsPerUser", "ada"]);
    assert_eq!((asked.code, &*asked.stdout), (Some(0), "1  allowed  4 left, full again in 1m\n"));
    let url = server.url();
    server.logged(&format!(
        "curl {url}/v1/spend -d '{{\"limit\":\"LoginsPerUser\",\"id\":\"ada\"}}'"
    ));
    server.logged(&format!("ratekeeper ask --url {url} LoginsPerUser ada"));
    server.logged(&format!("page  {url}/"));
    server.logged("ratekeeper ask udp --server");
    assert!(server.stop().success());
}

#[test]
fn the_printed_settings_are_those_that_are_built_in() {
    let printed = run(&["config"]);
    assert_eq!(printed.code, Some(0));
    let path = file(
        "printed.yaml",
        &[":8080", ":2000", ":4444", ":9000", ":6380"]
            .iter()
            .fold(printed.stdout, |text, port| text.replace(port, ":0")),
    );
    let server = Server::start_exactly(&["serve", "--config", &path, "--control", "off"]);
    assert_eq!(server.udp("ping"), "pong");
    assert!(server.stop().success());
}

#[test]
fn an_argument_wins_over_the_environment_and_that_over_the_file() {
    let buckets = ["in_file", "in_variable", "in_argument"]
        .map(|name| file(&format!("{name}.conf"), &format!("{name} 5\n")));
    let [in_file, in_variable, in_argument] = &buckets;
    let settings = file("layers.yaml", &format!("bucket:\n  buckets: {in_file}\n"));
    let found = |args: &[&str], variable: Option<&str>| {
        let mut command =
            command(&["serve", "--config", &settings, "--udp", "off", "--throttr", "off"]);
        command
            .args(["--resp", "off", "--http", "off", "--bucket", "127.0.0.1:0", "--control", "off"])
            .args(args);
        if let Some(value) = variable {
            command.env("RATEKEEPER_BUCKETS", value);
        }
        let server = Server::start_command(command, 1);
        let mut client = server.bucket();
        let names = ["in_file", "in_variable", "in_argument"];
        let found = names
            .into_iter()
            .find(|name| client.ask(&format!("get {name}")).as_deref() == Some("1"));
        assert!(server.stop().success());
        found
    };
    assert_eq!(found(&[], None), Some("in_file"));
    assert_eq!(found(&[], Some(in_variable)), Some("in_variable"));
    assert_eq!(found(&["--buckets", in_argument], Some(in_variable)), Some("in_argument"));
}

#[test]
fn wrong_settings_are_told_where_they_were_written() {
    let settings = file("wrong.yaml", "udp:\n  listn: off\n");
    let limits = file("wrong-limits.yaml", "A: {burst: 0, count: 1, period: 1s}\n");
    for (args, parts) in [
        (&["--udp", "2000"][..], &["--udp is `2000`: expected an address and port"][..]),
        (
            &["--config", &settings],
            &["wrong.yaml:2:3: unknown setting `udp.listn`", "did you mean `listen`?"],
        ),
        (
            &["--config", "/nonexistent.yaml"],
            &["reading the settings from /nonexistent.yaml: No such file"],
        ),
        (
            &["--limits", &limits],
            &["wrong-limits.yaml:1:12: burst is zero", "1 fault: mend the files"],
        ),
        (
            &["--udp", "0.0.0.0:0"],
            &["which is not loopback", "--udp-allow", "udp.allow in ratekeeper.yaml"],
        ),
        (
            &[
                "--http",
                "off",
                "--udp",
                "off",
                "--bucket",
                "off",
                "--throttr",
                "off",
                "--resp",
                "off",
            ],
            &["every door is off"],
        ),
        (&["--state", "/dev/null/state"], &["opening the state directory /dev/null/state"]),
    ] {
        let free = FREE.chunks(2).filter(|door| !args.contains(&door[0])).flatten().copied();
        let all: Vec<&str> =
            ["serve"].into_iter().chain(free).chain(args.iter().copied()).collect();
        let ran = run(&all);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{all:?}: {}", ran.stderr);
        for part in parts {
            assert!(ran.stderr.contains(part), "{part:?} is not in {}", ran.stderr);
        }
    }
    let ran = command(&["serve"]).env("RATEKEEPER_WORKERS", "many").output().unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(told.contains("RATEKEEPER_WORKERS is `many`: expected a whole number"), "{told}");
}

#[test]
fn a_taken_port_is_told() {
    let server = Server::start(&[]);
    let address = server.address("bucket").to_string();
    let ran = run(&[
        "serve",
        "--http",
        "off",
        "--udp",
        "off",
        "--throttr",
        "off",
        "--resp",
        "off",
        "--bucket",
        &address,
    ]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains(&format!("the bucket door cannot listen on {address}")),
        "{}",
        ran.stderr
    );
    assert!(server.stop().success());
}

#[test]
fn signals_reload_tell_and_stop() {
    let buckets = file("signals.conf", "a 5\n");
    let server = Server::start(&["--buckets", &buckets, "--watch", "off"]);
    let mut client = server.bucket();
    assert_eq!(client.ask("get a 5").as_deref(), Some("1"));
    fs::write(&buckets, "a 5\nb 5\n").unwrap();
    server.signal("HUP");
    server.logged("the files were read again and are in force");
    assert_eq!(client.ask("get b").as_deref(), Some("1"));
    fs::write(&buckets, "a 5\nb nonsense\n").unwrap();
    server.signal("HUP");
    server.logged("files were refused, and the old ones stay in force");
    server.logged("Invalid rate for bucket b: nonsense");
    assert_eq!(client.ask("get b").as_deref(), Some("1"));
    server.signal("USR1");
    let counters = server.logged("counters");
    assert!(counters.contains(r#""reloads":{"done":1,"failed":1}"#), "{counters}");
    server.signal("INT");
    server.logged("stopped");
    assert_eq!(client.ask("get a"), None);
    assert!(server.ended().success());
}

#[test]
fn a_changed_file_is_read_again_by_itself() {
    let limits = file("watched.yaml", "Logins: {burst: 5, count: 5, period: 1h}\n");
    let server = Server::start(&["--limits", &limits, "--watch", "20ms"]);
    let mut client = server.bucket();
    assert_eq!(client.ask("get Logins:ada 4").as_deref(), Some("1"));
    let new = file("watched-new.yaml", "Logins: {burst: 9, count: 9, period: 1h}\n");
    fs::rename(new, &limits).unwrap();
    server.logged("5 per 1h becomes 9 per 1h");
    server.logged("the files were read again");
    // Four were spent, and stay spent.
    assert_eq!(client.ask("get Logins:ada 6").as_deref(), Some("0"));
    assert_eq!(client.ask("get Logins:ada 5").as_deref(), Some("1"));
    assert!(server.stop().success());
}

#[test]
fn the_counters_of_a_running_server_can_be_read() {
    let socket = folder("control").join("ratekeeper.sock");
    let socket = socket.to_str().unwrap();
    let server = Server::start_exactly(&[&["serve", "--control", socket][..], &FREE].concat());
    server.udp("ping");
    let mut client = server.bucket();
    for _ in 0..7 {
        client.ask("get LoginsPerUser:ada");
    }
    let told = run(&["stats", "--control", socket, "--format", "json"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let stats = &told.json()[0];
    assert_eq!(stats["doors"]["udp"]["requests"], 1);
    assert_eq!(
        stats["limits"]["LoginsPerUser"],
        serde_json::json!({"allowed": 5, "denied": 2, "shadow": 0})
    );
    let ada = serde_json::json!({"limit": "LoginsPerUser", "id": "ada", "count": 7, "error": 0});
    assert_eq!(stats["busiest"], serde_json::json!([ada]));
    assert_eq!(stats["most_denied"][0]["count"], 2);
    assert_eq!(stats["configured"]["version"], 0);
    assert_eq!(stats["configured"]["files"][0], "the starter limits");
    assert_eq!(stats["ready"], true);
    let told = run(&["stats", "--control", socket]);
    for line in [
        "udp      127.0.0.1:",
        "\nlimit          allowed  denied  shadow\nLoginsPerUser        5       2       0\n",
        "\nbusiest of     id   asks\nLoginsPerUser  ada     7\n",
        "\nmost denied of  id   denied\nLoginsPerUser   ada       2\n",
    ] {
        assert!(told.stdout.contains(line), "{}", told.stdout);
    }
    assert!(server.stop().success());
    let told = run(&["stats", "--control", socket]);
    assert_eq!(told.code, Some(3));
    assert!(told.stderr.contains("no server answers at"), "{}", told.stderr);
}

#[test]
fn requests_are_logged_as_the_original_did() {
    let server = Server::start(&["--udp-log-requests", "true"]);
    server.udp("12 ping");
    server.udp("over_limit ws global");
    assert_eq!(server.logged("(>> 12"), "<< 12 pong (>> 12 ping)");
    assert_eq!(server.logged("(>> over_limit"), "<< ok N 0.0 2500.0 10 (>> over_limit ws global)");
    assert!(server.stop().success());
}

#[test]
fn the_log_can_be_json() {
    let server = Server::start(&["--log-format", "json", "--watch", "off"]);
    server.signal("HUP");
    let line: serde_json::Value = serde_json::from_str(&server.logged("files")).unwrap();
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["message"], "the files were read again and are in force");
    assert!(server.stop().success());
    let told = |args: &[&str]| {
        let ran = run(&[&["serve", "--log-format", "json"], &FREE[..], args].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let lines = ran.stderr.lines().map(serde_json::from_str::<serde_json::Value>);
        lines.collect::<Result<Vec<_>, _>>().unwrap_or_else(|_| panic!("{}", ran.stderr))
    };
    let wrong = file("wrong-settings.yaml", "nonsense: 1\n");
    let cases: [(&[&str], &str); 4] = [
        (&["--nonsense"], "--nonsense"),
        (&["--memory", "nonsense"], "--memory is `nonsense`"),
        (&["--config", &wrong], "nonsense"),
        (&["--config", "/nonexistent.yaml"], "/nonexistent.yaml: No such file"),
    ];
    for (args, words) in cases {
        let lines = told(args);
        assert_eq!((lines.len(), &lines[0]["level"]), (1, &"ERROR".into()), "{args:?}");
        assert!(lines[0]["message"].as_str().unwrap().contains(words), "{}", lines[0]);
    }
    let lines = told(&["--limits", "/nonexistent.yaml"]);
    assert_eq!((lines.len(), &lines[0]["level"]), (1, &"ERROR".into()));
    assert!(lines[0]["message"].as_str().unwrap().contains("/nonexistent.yaml: No such file"));
}

#[test]
fn a_json_log_has_nothing_else_beside_it() {
    let mut command = command(&["serve", "--log-format", "json", "--control", "off"]);
    command.args(["--udp-log-requests", "true"]);
    command.args(FREE).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut listening = BufReader::new(child.stdout.take().unwrap()).lines();
    let doors: Vec<_> = listening.by_ref().take(FREE.len() / 2).map(Result::unwrap).collect();
    let udp = doors.iter().find_map(|line| line.strip_prefix("listening udp ")).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"12 ping", udp).unwrap();
    assert_eq!(socket.recv(&mut [0; 99]).unwrap(), 7);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    let told = String::from_utf8(ended.stderr).unwrap();
    for line in told.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{told}");
    }
    assert!(told.contains("stopping"), "{told}");
    assert!(told.contains(r#""request":"12 ping","reply":"12 pong"}"#), "{told}");
}

#[test]
fn the_threads_of_another_program_do_not_stop_a_server_that_has_its_own_word_for_them() {
    let serve = |workers: &[&str], threads: &str| {
        let mut command = command(&["serve", "--control", "off", "--http", "off", "--udp", "off"]);
        command.args(["--resp", "off", "--throttr", "off", "--bucket", "127.0.0.1:0"]);
        command.args(workers).env("THREADS", threads);
        command
    };
    for (workers, threads) in [(&["--workers", "1"][..], "many"), (&[], ""), (&[], "2")] {
        let server = Server::start_command(serve(workers, threads), 1);
        assert!(server.stop().success(), "{workers:?} {threads:?}");
    }
    let refused = serve(&[], "many").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn what_is_in_force_is_said_at_the_start() {
    let server = Server::start(&[]);
    server.logged("in force: the limits, rules and buckets that come with the program");
    assert!(server.stop().success());
    let buckets = file("in-force.conf", "mine 5\n");
    let server = Server::start(&["--buckets", &buckets]);
    server.logged(&format!("in force: no limits, no overrides, no rules, buckets {buckets}"));
    assert!(server.stop().success());
}

#[test]
fn a_variable_that_names_no_setting_ends_the_start() {
    let ran = command(&["serve"]).env("RATEKEEPER_LIMIT", "limits.yaml").output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(told.contains("no setting is called `RATEKEEPER_LIMIT`: did you mean"), "{told}");
}

#[test]
fn the_service_manager_is_told_what_happens() {
    let path = folder("notify").join("socket");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let told = || {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let mut command = command(&["serve", "--udp", "off", "--throttr", "off", "--control", "off"]);
    command.args(["--resp", "off"]);
    command.args(["--http", "off", "--bucket", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &path);
    let server = Server::start_command(command, 1);
    assert_eq!(told(), "READY=1\n");
    server.signal("HUP");
    let reloading = told();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(told(), "READY=1\n");
    assert!(server.stop().success());
    assert_eq!(told(), "STOPPING=1\n");
}
