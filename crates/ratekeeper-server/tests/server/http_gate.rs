//! The gate, and what is counted at it.

use std::sync::Arc;

use ratekeeper::{Moment, Nanos};
use ratekeeper_server::Server;
use ratekeeper_server::settings::{Settings, XRateLimit};

use crate::support::{Folder, Page, StandingTime, Web, request, settings, start, wait_until};

const LIMITS: &str = "
PerUser: {burst: 2, count: 1, period: 10s}
PerKey: {burst: 1, count: 1, period: 90s}
RequestsPerIPAddress: {burst: 1, count: 1, period: 1m}
";
const NOW_SECS: u64 = 1_700_000_000;

fn open(change: impl FnOnce(&mut Settings)) -> (Folder, Arc<StandingTime>, Server) {
    let folder = Folder::new();
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", LIMITS));
    change(&mut settings);
    let time = StandingTime::at_secs(NOW_SECS);
    let server = start(&settings, Arc::clone(&time) as _);
    (folder, time, server)
}

fn kind(page: &Page) -> String {
    page.json()["type"].as_str().unwrap().to_owned()
}

#[test]
fn waiting_exactly_retry_after_is_enough() {
    let (_folder, time, server) = open(|_| ());
    let mut client = Web::connect(&server);
    let page = client.get("/v1/gate/PerUser/ada");
    assert_eq!((page.status, page.body.len()), (204, 0), "{page:?}");
    assert_eq!(page.field("ratelimit-policy"), Some("\"PerUser\";q=2;w=20"));
    assert_eq!(page.field("ratelimit"), Some("\"PerUser\";r=1;t=10"));
    assert_eq!(page.field("retry-after"), None);
    assert_eq!(client.get("/v1/gate/PerUser/ada").status, 204);
    let page = client.get("/v1/gate/PerUser/ada");
    assert_eq!(page.status, 429);
    assert_eq!(page.field("retry-after"), Some("10"));
    assert_eq!(page.field("ratelimit"), Some("\"PerUser\";r=0;t=10"));
    assert_eq!(page.field("content-type"), Some("application/problem+json"));
    assert_eq!(page.json()["violated-policies"][0], "PerUser");
    let start = Moment::from_nanos(NOW_SECS * 1_000_000_000);
    time.set(start.after(Nanos::new(9_999_999_999)));
    let page = client.get("/v1/gate/PerUser/ada");
    assert_eq!((page.status, page.field("retry-after")), (429, Some("1")));
    time.set(start.after(Nanos::new(10_000_000_000)));
    assert_eq!(client.get("/v1/gate/PerUser/ada").status, 204);
    assert_eq!(client.get("/v1/gate/PerUser/ada").status, 429);
    let counts = server.stats().doors["http"].counts;
    assert_eq!((counts.requests, counts.allowed, counts.denied), (6, 3, 3));
    assert_eq!((counts.malformed, counts.connections, counts.accepted), (0, 1, 1));
}

#[test]
fn a_denial_has_the_status_that_the_proxy_wants() {
    let (_folder, _time, server) = open(|_| ());
    let mut client = Web::connect(&server);
    assert_eq!(client.get("/v1/gate/PerUser/ada?cost=2&denied=403").status, 204);
    for (status, expected) in [(403, 403), (401, 401), (429, 429)] {
        let page = client.get(&format!("/v1/gate/PerUser/ada?denied={status}"));
        assert_eq!((page.status, page.field("retry-after")), (expected, Some("10")), "{page:?}");
        assert_eq!(page.json()["status"], expected);
    }
    for bad in ["denied=200", "denied=999999", "cost=-1", "cost=x", "what=1", "cost=1&cost=2"] {
        let page = client.get(&format!("/v1/gate/PerUser/ada?{bad}"));
        assert_eq!((page.status, kind(&page).as_str()), (400, "/api#bad-query"), "{bad}: {page:?}");
    }
    let page = client.get("/v1/gate/PerUser/ada?cost=3");
    assert_eq!((page.status, kind(&page).as_str()), (422, "/api#cost-above-burst"));
    let page = client.get("/v1/gate/PreUser/ada");
    assert_eq!((page.status, kind(&page).as_str()), (404, "/api#no-such-limit"));
    assert!(page.text().contains("PerUser"), "{page:?}");
    assert_eq!(client.ask("POST", "/v1/gate/PerUser/ada", "", "").status, 405);
    let counts = server.stats().doors["http"].counts;
    assert_eq!((counts.requests, counts.allowed, counts.denied, counts.malformed), (4, 1, 3, 9));
}

#[test]
fn an_id_in_the_path_is_decoded_once() {
    let (_folder, _time, server) = open(|_| ());
    let mut client = Web::connect(&server);
    assert_eq!(client.get("/v1/gate/PerUser/a%2Fb%20c?cost=2").status, 204);
    let body = r#"{"limit":"PerUser","id":"a/b c"}"#;
    assert_eq!(client.post("/v1/check", body).json()["allowed"], false, "the same bucket");
    let page = client.get("/v1/gate/PerUser/a%252Fb%2520c");
    assert_eq!(page.status, 204, "not decoded twice");
    for bad in ["/v1/gate/PerUser/%ff", "/v1/gate/PerUser/%zz", "/v1/gate/PerUser/"] {
        let status = client.get(bad).status;
        assert!((204..500).contains(&status), "{bad}: {status}");
    }
}

#[test]
fn an_id_comes_from_a_header() {
    let (_folder, _time, server) = open(|_| ());
    let mut client = Web::connect(&server);
    let path = "/v1/gate/PerKey?header=X-Api-Key";
    let mut gate = |header: &str| client.ask("GET", path, header, "");
    assert_eq!(gate("X-Api-Key: ada\r\n").status, 204);
    assert_eq!(gate("x-api-key: ada\r\n").status, 429);
    assert_eq!(gate("X-Api-Key: bob\r\n").status, 204);
    for bad in ["", "X-Api-Key:\r\n", "X-Api-Key: a\r\nX-Api-Key: b\r\n", "X-Api-Key: \u{e9}\r\n"] {
        let page = gate(bad);
        assert_eq!((page.status, kind(&page).as_str()), (422, "/api#bad-id"), "{bad:?}");
    }
    assert_eq!(client.get("/v1/gate/PerKey?header=no%20name").status, 400);
    assert_eq!(client.get("/v1/gate/PerKey").status, 400);
}

#[test]
fn only_trusted_proxies_say_who_the_client_is() {
    let path = "/v1/gate/RequestsPerIPAddress?header=X-Forwarded-For";
    let forwarded = |list: &str| format!("X-Forwarded-For: {list}\r\n");
    let (_folder, _time, server) = open(|_| ());
    let mut client = Web::connect(&server);
    assert_eq!(client.ask("GET", path, &forwarded("198.51.100.1"), "").status, 204);
    let page = client.ask("GET", path, &forwarded("198.51.100.2"), "");
    assert_eq!(page.status, 429, "both are the peer, who is not trusted");

    let trust = |settings: &mut Settings| {
        settings.http.trusted_proxies =
            vec!["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
    };
    let (_folder, _time, server) = open(trust);
    let mut client = Web::connect(&server);
    let mut gate = |list: &str| client.ask("GET", path, &forwarded(list), "").status;
    assert_eq!(gate("198.51.100.1"), 204);
    assert_eq!(gate("198.51.100.2"), 204);
    assert_eq!(gate("198.51.100.1"), 429);
    // What stands further left was written by whoever asks.
    assert_eq!(gate("203.0.113.9, 198.51.100.1"), 429);
    assert_eq!(gate("198.51.100.3, 10.1.1.1"), 204);
    assert_eq!(gate("198.51.100.3, 10.2.2.2"), 429);
    assert_eq!(gate("nonsense"), 400);
    assert_eq!(client.get(path).status, 204, "without the header it is the peer");
}

/// The status of a question by the name of a page that leads here, with these header fields.
fn status_for_page(server: &Server, header: &str) -> u16 {
    let mut client = Web::connect(server);
    let question = "GET /v1/gate/PerUser/ada?cost=0 HTTP/1.1\r\nHost: evil.example:8080\r\n";
    client.stream.send(format!("{question}{header}\r\n").as_bytes());
    client.answer().status
}

const BROWSERS_SEND: [&str; 8] = [
    "Origin: http://evil.example:8080\r\n",
    "Sec-Fetch-Site: same-origin\r\n",
    "sec-fetch-mode: cors\r\n",
    "Sec-CH-UA: \"x\"\r\n",
    "Accept-Language:\r\n",
    "Referer: http://evil.example:8080/\r\n",
    "Cookie: a=b\r\n",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n",
];

#[test]
fn a_page_that_says_it_is_a_proxy_is_none() {
    let (_folder, _time, server) = open(|_| ());
    for proxies_send in
        ["X-Forwarded-For: x\r\n", "X-Forwarded-Uri: /\r\nX-Forwarded-Method: GET\r\n"]
    {
        assert_eq!(status_for_page(&server, proxies_send), 204, "a proxy that passes nothing on");
        for browsers_send in BROWSERS_SEND {
            let status = status_for_page(&server, &[browsers_send, proxies_send].concat());
            assert_eq!(status, 421, "{proxies_send:?} {browsers_send:?}");
        }
    }
    assert_eq!(status_for_page(&server, ""), 421, "nothing tells of a proxy");
    let mut client = Web::connect(&server);
    let foreign = "X-Forwarded-For: x\r\nOrigin: http://evil.example\r\n";
    assert_eq!(client.ask("GET", "/v1/gate/PerUser/ada", foreign, "").status, 403, "at localhost");
}

#[test]
fn a_trusted_proxy_may_pass_on_what_browsers_sent() {
    let trust = |network: &str| {
        let network = network.parse().unwrap();
        open(|settings: &mut Settings| settings.http.trusted_proxies = vec![network])
    };
    let all = [&BROWSERS_SEND[..], &["X-Forwarded-For: 192.0.2.1\r\n"]].concat().concat();
    let (_folder, _time, server) = trust("127.0.0.1/32");
    assert_eq!(status_for_page(&server, &all), 204);
    assert_eq!(status_for_page(&server, &BROWSERS_SEND.concat()), 421, "no proxy sends so little");
    let (_folder, _time, server) = trust("10.0.0.0/8");
    assert_eq!(status_for_page(&server, &all), 421, "it comes from somewhere else");
}

#[test]
fn everything_is_counted_once() {
    let (_folder, _time, server) = open(|settings| {
        settings.http.connections = 3;
        settings.workers = std::num::NonZeroUsize::new(1);
    });
    let mut clients: Vec<_> = (0..3).map(|_| Web::connect(&server)).collect();
    for client in &mut clients {
        client.post("/v1/spend", r#"{"limit":"PerUser","id":"ada"}"#);
    }
    let mut refused = Web::connect(&server);
    assert_eq!(refused.stream.read_to_end(), b"");
    clients[0].post("/v1/spend", "{");
    clients[0].get("/nowhere");
    let batch = r#"{"transactions":[
        {"op":"spend","limit":"PerUser","id":"bob"},
        {"op":"check","limit":"PerUser","id":"ada"},
        {"op":"spend","limit":"Nobodys","id":"ada"}]}"#;
    assert_eq!(clients[0].post("/v1/batch", batch).status, 200);
    clients[0].stream.send(request("GET", "/", "bad header\r\n", "").as_bytes());
    clients[0].stream.read_to_end();
    clients.remove(0);
    let counts = || server.stats().doors["http"].counts;
    wait_until("the first client is gone", || counts().connections <= 2);
    let counts = counts();
    assert_eq!((counts.requests, counts.allowed, counts.denied, counts.malformed), (4, 3, 2, 3));
    assert_eq!((counts.accepted, counts.refused, counts.dropped), (3, 1, 0));
}

#[test]
fn what_people_read_is_the_time_of_the_wall_clock() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", LIMITS));
    settings.http.x_ratelimit = XRateLimit::Unix;
    // The server was started an hour late, and then its wall clock was put right.
    let server = start(&settings, StandingTime::with_wall(NOW_SECS - 3600, NOW_SECS));
    let mut client = Web::connect(&server);
    let reset = (NOW_SECS + 90).to_string();
    let page = client.post("/v1/spend", r#"{"limit":"PerKey","id":"ada"}"#);
    assert_eq!(page.field("x-ratelimit-reset"), Some(&*reset));
    assert_eq!(page.field("date"), Some("Tue, 14 Nov 2023 22:13:20 GMT"));
    let page = client.get("/v1/gate/PerKey/bob");
    assert_eq!(page.field("x-ratelimit-reset"), Some(&*reset));
    // Of one ask that is written as a transaction, the other way is taken.
    let page = client.post("/v1/spend", r#"{"asks":[{"limit":"PerKey","id":"lin"}]}"#);
    assert_eq!(page.field("x-ratelimit-reset"), Some(&*reset));
    #[expect(clippy::cast_precision_loss, reason = "it is a whole number of seconds")]
    let now = NOW_SECS as f64;
    assert_eq!(server.stats().at.to_bits(), now.to_bits());
}
