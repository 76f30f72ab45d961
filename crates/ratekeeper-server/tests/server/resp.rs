//! The RESP door, asked by real clients of Redis.

use std::io::Write as _;
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ratekeeper::Clock;
use ratekeeper_server::Server;
use ratekeeper_server::settings::Settings;
use redis::{Client, Connection, RedisError, cmd};

use crate::support::{Folder, StandingTime, Stream, settings, start};

const LIMITS: &str = "
Logins: {burst: 3, count: 3, period: 60s}
Sites: {burst: 100, count: 100, period: 1h}
";
const DECIDE: &str = "decide-token-0123456789";
const READ: &str = "read-token-0123456789";

/// A server at a standstill, so that what is replied does not depend on how long it takes.
fn serve(folder: &Folder, change: impl FnOnce(&mut Settings)) -> Server {
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", LIMITS));
    change(&mut settings);
    start(&settings, StandingTime::at_secs(1_700_000_000))
}

fn port(server: &Server) -> String {
    server.address("resp").unwrap().port().to_string()
}

/// What a program prints that is given `input`.
#[track_caller]
fn run(program: &str, args: &[&str], input: &str) -> String {
    let spawned = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.unwrap_or_else(|error| {
        panic!("{program}: {error}: install redis-tools and python3-redis, or run cargo xtask test")
    });
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ran = child.wait_with_output().unwrap();
    let [out, err] = [&ran.stdout, &ran.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
    assert!(ran.status.success(), "{program} {args:?}: {out}{err}");
    out
}

#[test]
fn redis_cli_asks_one_by_one_and_in_a_row() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let port = port(&server);
    let cli =
        |args: &[&str], input: &str| run("redis-cli", &[&["-p", &port], args].concat(), input);
    assert_eq!(cli(&["CL.THROTTLE", "a", "2", "3", "60", "1"], ""), "0\n3\n2\n-1\n20\n");
    assert_eq!(cli(&["-3", "throttle", "Logins", "ada"], ""), "0\n3\n2\n-1\n20\n");
    let typed = "THROTTLE Logins ada\nTHROTTLE Logins ada 2\nTHROTTLE.RESET Logins ada\n\
        THROTTLE.TRANSACTION Logins ada 1 Sites \"example.org\" 1\nGET x\nPING\n";
    let expected = "0\n3\n1\n-1\n40\n1\n3\n1\n20\n40\n1\n0\n3\n2\n-1\n20\nLogins\n\
        ERR unknown command 'GET'\n\nPONG\n";
    assert_eq!(cli(&[], typed), expected);
    let info = cli(&["INFO"], "");
    assert!(info.contains("redis_version:7.4.0") && info.contains("ratekeeper_version:"), "{info}");
    assert!(cli(&["COMMAND", "DOCS"], "").contains("cl.throttle"));
}

#[test]
fn redis_cli_pipes_a_file() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let input =
        "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$2\r\n99\r\n$1\r\n1\r\n$2\r\n60\r\n".repeat(5_000);
    let out = run("redis-cli", &["-p", &port(&server), "--pipe"], &input);
    assert!(out.contains("errors: 0, replies: 5000"), "{out}");
    let stats = server.stats();
    let counts = stats.doors["resp"].counts;
    assert_eq!((counts.allowed, counts.denied), (100, 4_900));
    assert_eq!(stats.limits["CL.THROTTLE"].allowed, 100);
}

/// It has asked for the documents of commands by then, to help whoever types.
#[test]
fn redis_cli_helps_who_types() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let out = run("redis-cli", &["-p", &port(&server)], "help cl.throttle\nPING\n");
    assert!(out.contains("Spends tokens by the rule that comes with it"), "{out}");
    assert!(out.contains("PONG"), "{out}");
}

#[test]
fn redis_benchmark_measures_at_any_depth() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let port = port(&server);
    let mut asked = 0;
    for depth in ["1", "16", "100"] {
        for words in [
            &["CL.THROTTLE", "key:__rand_int__", "14", "30", "60"][..],
            &["THROTTLE", "Logins", "user:__rand_int__"],
        ] {
            let first = ["-p", &port, "-n", "2000", "-r", "100", "-P", depth, "-c", "10", "--csv"];
            let out = run("redis-benchmark", &[&first, words].concat(), "");
            assert!(out.contains("\"rps\"") && !out.contains("rror"), "{out}");
            asked += 2000;
        }
    }
    let counts = server.stats().doors["resp"].counts;
    assert!(counts.allowed + counts.denied >= asked, "{counts:?}");
    assert!(counts.allowed > 0 && counts.denied > 0, "{counts:?}");
    assert_eq!(counts.malformed, 0);
}

/// A connection of the redis crate.
fn connect(server: &Server, auth: &str, query: &str) -> Result<Connection, RedisError> {
    Client::open(format!("redis://{auth}127.0.0.1:{}/{query}", port(server)))?.get_connection()
}

#[test]
fn the_redis_crate_asks_in_both_versions() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    for (key, query) in [("a", ""), ("b", "?protocol=resp3")] {
        let mut connection = connect(&server, "", query).unwrap();
        let mut ask = cmd("CL.THROTTLE");
        ask.arg(key).arg(2).arg(3).arg(60);
        let replies: Vec<Vec<i64>> = (0..4).map(|_| ask.query(&mut connection).unwrap()).collect();
        assert_eq!(replies[0], [0, 3, 2, -1, 20]);
        assert_eq!(replies[3], [1, 3, 0, 20, 60]);
        let mut pipe = redis::pipe();
        for _ in 0..200 {
            pipe.cmd("THROTTLE").arg("Sites").arg(key);
        }
        let replies: Vec<[i64; 5]> = pipe.query(&mut connection).unwrap();
        assert_eq!(replies.iter().filter(|reply| reply[0] == 0).count(), 100);
        let reset: bool = cmd("CL.RESET").arg(key).query(&mut connection).unwrap();
        assert!(reset);
        let error = cmd("THROTTLE").arg("Login").arg("x").query::<Vec<i64>>(&mut connection);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("did you mean `Logins`?"), "{error}");
    }
}

const PYTHON: &str = r#"
import sys, redis
client = redis.Redis(port=int(sys.argv[1]), client_name="test")
print(client.execute_command("CL.THROTTLE", b"\xff", 2, 3, 60))
pipe = client.pipeline(transaction=False)
for _ in range(4):
    pipe.execute_command("THROTTLE", "Logins", "ada")
print(pipe.execute())
print(client.execute_command("THROTTLE.TRANSACTION", "Logins", "bob", 1, "Sites", "x", 1))
print(client.client_getname(), client.ping())
try:
    client.get("x")
except redis.ResponseError as error:
    print(error)
"#;

#[test]
fn redis_py_asks() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    // Debian's, which Debian's packages are for.
    let out = run("/usr/bin/python3", &["-c", PYTHON, &port(&server)], "");
    let expected = "[0, 3, 2, -1, 20]\n\
        [[0, 3, 2, -1, 20], [0, 3, 1, -1, 40], [0, 3, 0, -1, 60], [1, 3, 0, 20, 60]]\n\
        [0, 3, 2, -1, 20, b'Logins']\ntest True\nunknown command 'GET'\n";
    assert_eq!(out.replace("b'test'", "test"), expected);
}

const PYTHON_PIPELINES: &str = r#"
import sys, redis
client = redis.Redis(port=int(sys.argv[1]))
pipe = client.pipeline()
for _ in range(4):
    pipe.execute_command("THROTTLE", "Logins", "ada")
pipe.execute_command("THROTTLE", "Login", "ada")
pipe.execute_command("THROTTLE.TRANSACTION", "Logins", "bob", 1, "Sites", "x", 1)
print(pipe.execute(raise_on_error=False))
with client.pipeline() as pipe:
    for _ in range(5000):
        pipe.execute_command("CL.THROTTLE", "busy", 99, 1, 3600)
    replies = pipe.execute()
    print(len(replies), sum(1 for reply in replies if reply[0] == 0))
for wrong in ("get x", "watch x"):
    pipe = client.pipeline()
    pipe.execute_command("THROTTLE", "Logins", "eve")
    try:
        pipe.watch("x") if wrong == "watch x" else pipe.get("x")
        pipe.execute()
    except redis.RedisError as error:
        print(type(error).__name__)
print(client.execute_command("THROTTLE", "Logins", "eve", 0))
"#;

#[test]
fn redis_py_sends_pipelines_as_it_does_by_default() {
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let out = run("/usr/bin/python3", &["-c", PYTHON_PIPELINES, &port(&server)], "");
    let lines: Vec<&str> = out.lines().collect();
    let all = "[[0, 3, 2, -1, 20], [0, 3, 1, -1, 40], [0, 3, 0, -1, 60], [1, 3, 0, 20, 60], \
        ResponseError(";
    assert!(lines[0].starts_with(all), "{out}");
    assert!(lines[0].ends_with("[0, 3, 2, -1, 20, b'Logins']]"), "{out}");
    assert_eq!(lines[1], "5000 100");
    assert_eq!(lines[2..], ["ResponseError", "ResponseError", "[0, 3, 3, -1, 0]"], "{out}");
    let counts = server.stats().doors["resp"].counts;
    assert_eq!(counts.malformed, 1, "`get`: {counts:?}");
}

#[test]
fn tokens_are_those_of_the_server_and_may_be_taken_away() {
    let folder = Folder::new();
    let both = format!("app decide {DECIDE}\ndashboard read {READ}\n");
    let file = folder.write("tokens", &both);
    let server = serve(&folder, |settings| settings.http.tokens = Some(file));
    let ask = |connection: &mut Connection| {
        let asked = cmd("THROTTLE").arg("Logins").arg("ada").query::<Vec<i64>>(connection);
        asked.map_err(|error| error.to_string())
    };
    let refused = ask(&mut connect(&server, "", "").unwrap()).unwrap_err();
    assert!(refused.contains("Authentication required"), "{refused}");
    assert!(connect(&server, ":nobody-has-this-token@", "").is_err());
    let mut reader = connect(&server, &format!(":{READ}@"), "").unwrap();
    let refused = ask(&mut reader).unwrap_err();
    assert!(refused.contains("the role `decide`"), "{refused}");
    let mut app = connect(&server, &format!("app:{DECIDE}@"), "?protocol=resp3").unwrap();
    assert_eq!(ask(&mut app), Ok(vec![0, 3, 2, -1, 20]));
    folder.write("tokens", &format!("dashboard read {READ}\nother decide {DECIDE}-2\n"));
    server.reload().unwrap();
    let refused = ask(&mut app).unwrap_err();
    assert!(refused.contains("Authentication required"), "{refused}");
    assert!(ask(&mut reader).unwrap_err().contains("the role `decide`"), "it stays who it was");
}

#[test]
fn an_open_address_needs_a_list_or_tokens() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.resp.listen = Some("0.0.0.0:0".parse().unwrap());
    let refused = Server::start(&settings, Arc::new(Clock::start())).err().unwrap().to_string();
    assert!(refused.contains("--resp-allow"), "{refused}");
    settings.http.tokens = Some(folder.write("tokens", &format!("app decide {DECIDE}\n")));
    drop(start(&settings, Arc::new(Clock::start())));
}

/// Small requests with large replies, from a client that reads late: what waits for it is bounded,
/// and nothing is lost.
/// Short answers are held back until the others were read, long ones are not.
#[test]
fn clients_that_ask_at_the_same_time_get_their_own_answers() {
    const CLIENTS: usize = 40;
    let folder = Folder::new();
    let server = serve(&folder, |settings| settings.workers = Some(NonZero::<usize>::MIN));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Stream::connect(&server, "resp")).collect();
    for round in 1..=10 {
        let asked =
            |client: usize| (format!("{client:02}-{round:02}"), client * client * round / 4 + 1);
        for (number, client) in clients.iter_mut().enumerate() {
            let (name, times) = asked(number);
            client.send(format!("ECHO {name}\n").repeat(times).as_bytes());
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let (name, times) = asked(number);
            let expected = format!("$5\r\n{name}\r\n").repeat(times);
            assert_eq!(String::from_utf8(client.read(expected.len())).unwrap(), expected);
        }
    }
}

#[test]
fn much_to_reply_waits_for_its_client() {
    const REQUESTS: usize = 20_000;
    let folder = Folder::new();
    let server = serve(&folder, |_| {});
    let mut client = Stream::connect(&server, "resp");
    client.send(b"COMMAND DOCS\nECHO end\n");
    let mut one = Vec::new();
    while !one.ends_with(b"$3\r\nend\r\n") {
        one.extend(client.read(1));
    }
    one.truncate(one.len() - b"$3\r\nend\r\n".len());
    let mut sender = Stream(client.0.try_clone().unwrap());
    let sending = std::thread::spawn(move || {
        sender.send(&b"COMMAND DOCS\n".repeat(REQUESTS));
        sender.send(b"QUIT\n");
    });
    for _ in 0..REQUESTS {
        assert_eq!(client.read(one.len()), one);
    }
    sending.join().unwrap();
    assert_eq!(client.read_to_end(), b"+OK\r\n");
}
