//! What every proxy promises.

use ratekeeper::Nanos;

use crate::proxy::Proxy;
use crate::stage::{BURST, EMISSION, POLICY, Stage};
use crate::visitor::{Answer, look, look_from, send};

/// The burst passes and is told how much is left, the next is denied and told how long to wait,
/// and waiting so long helps, but not a nanosecond less.
pub(crate) fn the_burst_passes_and_later_more(stage: &Stage, proxy: &Proxy) {
    for left in (0..BURST).rev() {
        let answer = look(proxy.address);
        assert_eq!((answer.status, &*answer.body), (200, "page"), "{left} left: {answer:?}");
        assert_eq!(answer.field("RateLimit-Policy"), Some(POLICY));
        let expected = format!("\"RequestsPerIPAddress\";r={left};t=1");
        assert_eq!(answer.field("RateLimit"), Some(&*expected));
        assert_eq!(answer.field("Retry-After"), None);
    }
    let answer = look(proxy.address);
    assert_denied(&answer);
    stage.time.pass(Nanos::new(EMISSION.get() - 1));
    assert_denied(&look(proxy.address));
    stage.time.pass(Nanos::new(1));
    assert_eq!(look(proxy.address).status, 200);
    assert_denied(&look(proxy.address));
    // As long as Retry-After says, there are as many as come back in that time.
    stage.time.pass(Nanos::new(1_000_000_000));
    let passed = (0..BURST).filter(|_| look(proxy.address).status == 200).count();
    assert_eq!(passed, 10);
    assert_eq!(stage.page.asked().len(), BURST + 1 + 10, "who is denied does not reach the page");
}

fn assert_denied(answer: &Answer) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(answer.field("Retry-After"), Some("1"));
    assert_eq!(answer.field("RateLimit"), Some("\"RequestsPerIPAddress\";r=0;t=1"));
    assert_eq!(answer.field("RateLimit-Policy"), Some(POLICY));
    assert!(!answer.body.is_empty());
}

/// Method, path, header and body reach the page, whatever they are; its answer comes back as it
/// is, and none of it changes what the gate is asked.
pub(crate) fn the_page_hears_everything(stage: &Stage, proxy: &Proxy) {
    let request = "POST /a%20b?cost=0&denied=401 HTTP/1.1\r\nHost: example.org\r\nOrigin: https://elsewhere.example\r\n\
                   Sec-Fetch-Site: cross-site\r\nAuthorization: Bearer of-the-page\r\n\
                   X-Forwarded-For: 10.1.2.3, nonsense\r\nContent-Type: text/plain\r\n\
                   Content-Length: 5\r\nConnection: close\r\n\r\nhello";
    let answer = send(1, proxy.address, request);
    assert_eq!((answer.status, &*answer.body), (200, "page"), "{answer:?}");
    let asked = stage.page.asked().pop().unwrap();
    assert!(asked.starts_with("POST /a%20b?cost=0&denied=401 HTTP/1."), "{asked}");
    assert!(asked.contains("Authorization: Bearer of-the-page\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\nhello"), "{asked}");
    let forbidden = "GET /forbidden HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n";
    let answer = send(1, proxy.address, forbidden);
    assert_eq!((answer.status, &*answer.body), (403, "no"), "the page's own answer");
    assert!(answer.field("RateLimit").unwrap().contains("r=18"), "{answer:?}");
}

/// What one address spends, another does not lack.
pub(crate) fn each_address_has_its_bucket(proxy: &Proxy) {
    let passed =
        |host: u8| (0..=BURST).filter(|_| look_from(host, proxy.address).status == 200).count();
    assert_eq!((passed(1), passed(2)), (BURST, BURST));
    assert_eq!(look_from(1, proxy.address).status, 429);
}

/// Questions, one after another, take one connection, whatever is answered.
pub(crate) fn one_connection_suffices(stage: &Stage, proxy: &Proxy) {
    let statuses: Vec<u16> = (0..BURST + 5).map(|_| look(proxy.address).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 5);
    assert_eq!(stage.connections(), 1);
}

pub(crate) fn nobody_passes_without_the_gate(stage: &mut Stage, proxy: &Proxy) {
    assert_eq!(look(proxy.address).status, 200);
    stage.close_gate();
    let answer = look(proxy.address);
    assert_eq!((answer.status, answer.field("RateLimit")), (503, None));
    assert_eq!(stage.page.asked().len(), 1, "who does not pass does not reach the page");
    stage.open_gate();
    assert_eq!(look(proxy.address).status, 200, "nothing has to be restarted");
}

pub(crate) fn everybody_passes_without_the_gate(stage: &mut Stage, proxy: &Proxy) {
    for _ in 0..=BURST {
        look(proxy.address);
    }
    assert_eq!(look(proxy.address).status, 429);
    stage.close_gate();
    let posted = "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 5\r\n\
                  Connection: close\r\n\r\nhello";
    let answer = send(1, proxy.address, posted);
    assert_eq!((answer.status, &*answer.body), (200, "page"));
    assert_eq!(answer.field("RateLimit"), None, "nothing is known");
    let asked = stage.page.asked();
    assert!(asked.last().unwrap().ends_with("\r\n\r\nhello"), "{asked:?}");
    stage.open_gate();
    let answer = look(proxy.address);
    assert!(answer.field("RateLimit").unwrap().contains("r=19"), "it is asked again: {answer:?}");
}
