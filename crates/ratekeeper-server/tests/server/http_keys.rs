//! Who may ask what at the HTTP door.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ratekeeper::Clock;
use ratekeeper_server::settings::{SecretText, Settings};
use ratekeeper_server::{Server, with_causes};

use crate::support::{Folder, Page, Web, settings, start};

const ASK: &str = r#"{"limit":"LoginsPerUser","id":"ada"}"#;
const DECIDE: &str = "decide-token-0123456789";
const READ: &str = "read-token-0123456789";
const ADMIN: &str = "admin-token-0123456789";
const NEWCOMER: &str = "newcomer-token-0123456789";

fn tokens() -> String {
    format!("app decide {DECIDE}\ngrafana read {READ}  # the dashboard\nops admin {ADMIN}\n")
}

fn open(change: impl FnOnce(&mut Settings)) -> Server {
    let mut settings = settings();
    change(&mut settings);
    start(&settings, Arc::new(Clock::start()))
}

fn is_admitted(page: &Page) -> bool {
    !matches!(page.status, 401 | 403 | 421)
}

/// One request to a route of each class, in the order of [`CLASSES`].
fn knock(server: &Server, header: &str) -> [Page; 3] {
    let mut client = Web::connect(server);
    CLASSES.map(|(method, path)| client.ask(method, path, header, ASK))
}

const CLASSES: [(&str, &str); 3] =
    [("POST", "/v1/check"), ("GET", "/v1/limits"), ("PUT", "/v1/overrides/LoginsPerUser/ada")];

fn with_token(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn each_role_may_do_its_own_and_admins_all() {
    let folder = Folder::new();
    let file = folder.write("tokens", &tokens());
    let server = open(|settings| settings.http.tokens = Some(file));
    for (token, expected) in
        [(DECIDE, [true, false, false]), (READ, [false, true, false]), (ADMIN, [true, true, true])]
    {
        let pages = knock(&server, &with_token(token));
        assert_eq!(pages.each_ref().map(is_admitted), expected, "{token}: {pages:?}");
        assert!(pages.iter().filter(|it| !is_admitted(it)).all(|it| it.status == 403));
    }
    assert_eq!(knock(&server, &with_token(DECIDE))[0].status, 200);
    for header in [String::new(), "Authorization: Basic YTpi\r\n".to_owned()] {
        for page in knock(&server, &header) {
            assert_eq!((page.status, page.field("www-authenticate")), (401, Some("Bearer")));
            assert_eq!(page.json()["type"], "/api#needs-token");
        }
    }
    let wrong = with_token("wrong-token-0123456789");
    for header in [&wrong, &with_token(&ADMIN[..20]), &with_token(&"x".repeat(600))] {
        for page in knock(&server, header) {
            let challenge = page.field("www-authenticate");
            assert_eq!((page.status, challenge), (401, Some("Bearer error=\"invalid_token\"")));
        }
    }
    // What is for everybody is for everybody.
    assert!(is_admitted(&Web::connect(&server).get("/healthz")));
    assert!(!is_admitted(&Web::connect(&server).get("/metrics")));
    // What is not listed is for the operator.
    assert_eq!(Web::connect(&server).ask("GET", "/v1/what", &with_token(READ), "").status, 403);
}

#[test]
fn tokens_are_read_again_and_bad_ones_leave_the_old() {
    let folder = Folder::new();
    let file = folder.write("tokens", &tokens());
    let server = open(|settings| settings.http.tokens = Some(file));
    let mut client = Web::connect(&server);
    let mut status = |token| client.ask("POST", "/v1/check", &with_token(token), ASK).status;
    assert_eq!((status(DECIDE), status(NEWCOMER)), (200, 401));
    folder.write("tokens", &format!("new decide {NEWCOMER}\n"));
    assert_eq!((status(DECIDE), status(NEWCOMER)), (200, 401), "not before it is read");
    server.reload().unwrap();
    assert_eq!((status(DECIDE), status(NEWCOMER)), (401, 200), "on the same connection");
    for bad in [format!("new {NEWCOMER}\n"), format!("app king {DECIDE}\n"), String::new()] {
        folder.write("tokens", &bad);
        let error = with_causes(&server.reload().unwrap_err());
        assert!(!error.contains(NEWCOMER) && !error.contains(DECIDE), "{error}");
        assert_eq!((status(DECIDE), status(NEWCOMER)), (401, 200));
    }
    std::fs::remove_file(folder.path("tokens")).unwrap();
    server.reload().unwrap_err();
    assert_eq!((status(DECIDE), status(NEWCOMER)), (401, 200));
    assert_eq!(server.stats().reloads.failed, 4);
}

#[test]
fn tokens_can_stand_in_the_environment() {
    let text = tokens().trim().replace("  # the dashboard", "").replace('\n', ";");
    let server = open(|settings| settings.http.tokens_text = Some(SecretText(text)));
    assert_eq!(knock(&server, &with_token(READ)).each_ref().map(is_admitted), [false, true, false]);
    assert_eq!(knock(&server, "")[0].status, 401);

    let folder = Folder::new();
    let mut both = settings();
    both.http.tokens = Some(folder.write("tokens", &tokens()));
    both.http.tokens_text = Some(SecretText(tokens()));
    let error = Server::start(&both, Arc::new(Clock::start())).err().unwrap();
    assert!(error.to_string().contains("RATEKEEPER_TOKENS or http.tokens"), "{error}");
}

/// Everything that this process logs, looked at and thrown away.
#[derive(Clone, Default)]
struct Looked {
    any: Arc<AtomicBool>,
    told: Arc<AtomicBool>,
}

impl Write for Looked {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.any.store(true, Ordering::Relaxed);
        if [DECIDE, READ, ADMIN].iter().any(|token| text.contains(token)) {
            self.told.store(true, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_token_is_ever_told() {
    let looked = Looked::default();
    let writer = looked.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_writer(move || writer.clone())
        .init();
    let folder = Folder::new();
    let mut settings = settings();
    settings.http.tokens_text = Some(SecretText(tokens()));
    assert!(!format!("{settings:?}").contains(ADMIN));
    let server = start(&settings, Arc::new(Clock::start()));
    for token in [DECIDE, READ, ADMIN] {
        for page in knock(&server, &with_token(token)) {
            assert!(!page.head.contains(token) && !page.text().contains(token));
        }
        let mut client = Web::connect(&server);
        client.stream.send(format!("GET / HTTP/1.1\r\nbad {}\r\n", with_token(token)).as_bytes());
        client.stream.send(b"\r\n");
        assert_eq!(client.answer().status, 400);
    }
    settings.http.tokens_text = None;
    for bad in ["app", "app decide x y z", "a\u{e9} decide", "app king"] {
        let line = format!("{bad} {ADMIN}\n{ADMIN} {ADMIN} {ADMIN} {ADMIN}\n");
        settings.http.tokens = Some(folder.write("tokens", &line));
        let error = Server::start(&settings, Arc::new(Clock::start())).err().unwrap();
        let text = format!("{error:?} {}", with_causes(&error));
        assert!(!text.contains(ADMIN) && text.contains("tokens:1"), "{text}");
    }
    assert!(server.drain(settings.drain).unwrap());
    assert!(looked.any.load(Ordering::Relaxed), "something was logged");
    assert!(!looked.told.load(Ordering::Relaxed), "a token was logged");
}

#[test]
fn pages_of_others_reach_nothing() {
    let server = open(|_| ());
    let admitted = |header: &str| knock(&server, header).each_ref().map(is_admitted);
    assert_eq!(admitted(""), [true, true, true], "a program on this machine");
    assert_eq!(admitted("Sec-Fetch-Site: none\r\n"), [true, true, true]);
    let own = "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n";
    assert_eq!(admitted(own), [true, true, false], "our page may look, and change nothing");
    for foreign in [
        "Origin: http://evil.example\r\n",
        "Origin: https://localhost\r\n",
        "Origin: http://localhost:3000\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        assert_eq!(admitted(foreign), [false, false, false], "{foreign}");
    }
    // A name that a foreign name server leads here is not ours.
    for (host, expected) in [
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("LOCALHOST", 200),
    ] {
        let mut client = Web::connect(&server);
        let length = ASK.len();
        let head = format!("POST /v1/check HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}");
        client.stream.send(format!("{head}\r\n\r\n{ASK}").as_bytes());
        assert_eq!(client.answer().status, expected, "{host}");
    }
    // A target that names a host says whom it is for, whatever else is said.
    for (target, host, expected) in
        [("http://evil.example", "localhost", 421), ("http://localhost", "evil.example", 200)]
    {
        let mut client = Web::connect(&server);
        let head = format!("GET {target}/v1/limits HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.stream.send(head.as_bytes());
        assert_eq!(client.answer().status, expected, "{target} {host}");
    }
    // A proxy at the gate passes on whatever its clients sent. A page can say that it is one, by a
    // name of its own that leads here; so what browsers send counts unless the proxy is trusted.
    let page = "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n";
    let proxy = format!("{page}X-Forwarded-For: 192.0.2.1\r\n");
    for (header, expected) in [(page, 403), (&*proxy, 403), (PROXY, 204)] {
        let gate = "/v1/gate/RequestsPerIPAddress/10.1.2.3";
        assert_eq!(Web::connect(&server).ask("GET", gate, header, "").status, expected);
    }
}

/// What a proxy sends that passes nothing on.
const PROXY: &str = "X-Forwarded-For: 192.0.2.1\r\n";

#[test]
fn a_page_needs_a_token_and_to_be_ours_to_change_something() {
    let server = open(|settings| settings.http.tokens_text = Some(SecretText(tokens())));
    let own = "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n";
    let foreign = "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n";
    let admin = with_token(ADMIN);
    for (header, expected) in [
        (own.to_owned(), [false, false, false]),
        (format!("{own}{admin}"), [true, true, true]),
        (format!("{foreign}{admin}"), [true, true, false]),
    ] {
        let pages = knock(&server, &header);
        assert_eq!(pages.each_ref().map(is_admitted), expected, "{header}: {pages:?}");
    }
}

#[test]
fn others_reach_the_door_only_if_they_need_a_key() {
    let everywhere = Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let mut settings = settings();
    settings.http.listen = everywhere;
    let error = Server::start(&settings, Arc::new(Clock::start())).err().unwrap().to_string();
    for hint in ["--http-tokens", "--http-client-ca", "http.tokens"] {
        assert!(error.contains(hint), "{error}");
    }
    settings.http.allow = vec!["127.0.0.0/8".parse().unwrap()];
    assert!(Server::start(&settings, Arc::new(Clock::start())).is_err(), "a list is no key");
    settings.http.tokens_text = Some(SecretText(tokens()));
    let server = start(&settings, Arc::new(Clock::start()));
    let port = server.address("http").unwrap().port();
    let stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    drop(stream);
}
