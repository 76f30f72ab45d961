//! HTTP over TLS, with real certificates.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Clock;
use ratekeeper_server::Server;
use ratekeeper_server::settings::{Role, Settings};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::http_frames::{HEADERS, get, hello, read_frame};
use crate::support::{Folder, PATIENCE, Stream, settings, start, wait_until};

const GATE: &str = "/v1/gate/LoginsPerUser/ada";
const TIME: Duration = Duration::from_millis(300);

/// A certificate and its key, as PEM.
struct Pair {
    cert: String,
    key: String,
}

struct Authority {
    cert: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap().pem();
        Self { cert, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> Pair {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { cert, key: key.serialize_pem() }
    }
}

/// A server with a certificate of `authority`.
fn open(
    folder: &Folder,
    authority: &Authority,
    change: impl FnOnce(&mut Settings),
) -> (Settings, Server) {
    let mut settings = settings();
    let pair = authority.sign("localhost");
    settings.http.tls_cert = Some(folder.write("cert.pem", &pair.cert));
    settings.http.tls_key = Some(folder.write("key.pem", &pair.key));
    change(&mut settings);
    let server = start(&settings, Arc::new(Clock::start()));
    (settings, server)
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Connects, but says nothing before the first write or read.
fn connect(server: &Server, authority: &Authority, own: Option<&Pair>, protocol: &str) -> Tls {
    let mut roots = RootCertStore::empty();
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    roots.add(der(&authority.cert)).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(Pair { cert, key }) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![der(cert)], key).unwrap()
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(session, Stream::connect(server, "http").0)
}

/// Asks over HTTP/1.1; the answer's first line, or nothing if there is none.
fn ask(tls: &mut Tls, method: &str, path: &str) -> Option<String> {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    tls.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tls.read_exact(&mut byte).ok()?;
        answer.push(byte[0]);
    }
    let text = String::from_utf8(answer).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |it| it.parse().unwrap())];
    tls.read_exact(&mut body).ok()?;
    text.lines().next().map(str::to_owned)
}

fn passes(tls: &mut Tls) -> bool {
    ask(tls, "GET", GATE).is_some_and(|line| line.starts_with("HTTP/1.1 204"))
}

#[test]
fn https_works_over_both_versions_of_http() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let (settings, server) = open(&folder, &authority, |_| ());
    let mut one = connect(&server, &authority, None, "http/1.1");
    assert!(passes(&mut one) && passes(&mut one));
    assert_eq!(one.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let mut two = connect(&server, &authority, None, "h2");
    two.write_all(&[hello(&[]), get(1, GATE)].concat()).unwrap();
    let answer = std::iter::from_fn(|| read_frame(&mut two)).find(|it| it.kind == HEADERS);
    // `:status: 204` is the ninth entry of the table that both know.
    assert_eq!(answer.unwrap().payload[0], 0x89);
    assert_eq!(two.conn.alpn_protocol(), Some(&b"h2"[..]));
    // Nobody who does not trust us gets to ask.
    let mut stranger = connect(&server, &Authority::new(), None, "http/1.1");
    assert_eq!(ask(&mut stranger, "GET", GATE), None);
    drop((one, two, stranger));
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn clients_need_a_certificate_where_an_authority_is_set() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let clients = Authority::new();
    let ca = folder.write("ca.pem", &clients.cert);
    let (_settings, server) = open(&folder, &authority, |settings| {
        settings.http.client_ca = Some(ca);
        settings.http.client_role = Role::Decide;
        // Others can reach it: a certificate is a key.
        settings.http.listen = Some("0.0.0.0:0".parse().unwrap());
        settings.http.allow = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let own = clients.sign("app.internal");
    let mut known = connect(&server, &authority, Some(&own), "http/1.1");
    assert!(passes(&mut known));
    let mut status = |method, path| ask(&mut known, method, path).unwrap();
    assert!(status("GET", "/v1/limits").contains(" 403 "), "decide is not read");
    assert!(status("DELETE", "/v1/overrides/LoginsPerUser/ada").contains(" 403 "));
    let forged = Authority::new().sign("app.internal");
    for stranger in [None, Some(&forged)] {
        let mut stranger = connect(&server, &authority, stranger, "http/1.1");
        assert_eq!(ask(&mut stranger, "GET", GATE), None);
    }
}

#[test]
fn a_new_certificate_is_seen_by_the_next_connection() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let (_settings, server) = open(&folder, &authority, |_| ());
    let mut old = connect(&server, &authority, None, "http/1.1");
    assert!(passes(&mut old));
    let next = Authority::new();
    let pair = next.sign("localhost");
    folder.write("cert.pem", &pair.cert);
    assert!(server.reload().is_err(), "the key is not that of the certificate");
    assert!(passes(&mut connect(&server, &authority, None, "http/1.1")), "the old one goes on");
    folder.write("key.pem", &pair.key);
    server.reload().unwrap();
    assert!(passes(&mut connect(&server, &next, None, "http/1.1")));
    assert!(!passes(&mut connect(&server, &authority, None, "http/1.1")));
    assert!(passes(&mut old), "who is connected stays so");
}

#[test]
fn half_a_handshake_is_not_waited_for() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let (_settings, server) = open(&folder, &authority, |settings| {
        settings.http.header_time = TIME;
    });
    let mut tls = connect(&server, &authority, None, "http/1.1");
    let mut hello = Vec::new();
    tls.conn.write_tls(&mut hello).unwrap();
    tls.sock.write_all(&hello[..hello.len() / 2]).unwrap();
    let mut said = Vec::new();
    tls.sock.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"");
    // Whoever has shaken hands and says nothing is not waited for either.
    let mut silent = connect(&server, &authority, None, "http/1.1");
    while silent.conn.is_handshaking() {
        silent.conn.complete_io(&mut silent.sock).unwrap();
    }
    let mut said = Vec::new();
    let _ = silent.read_to_end(&mut said);
    assert_eq!(said, b"");
    drop((tls, silent));
    let counts = || server.stats().doors["http"].counts;
    wait_until("nobody is connected", || counts().connections == 0);
    assert_eq!(counts().dropped, 2);
    assert!(passes(&mut connect(&server, &authority, None, "http/1.1")));
}

#[test]
fn plain_http_to_a_tls_port_is_closed_cleanly() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let (_settings, server) = open(&folder, &authority, |_| ());
    let mut plain = Stream::connect(&server, "http");
    plain.0.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.send(format!("GET {GATE} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    // An alert of TLS, and the end: not an error.
    let said = plain.read_to_end();
    assert!(said.len() < 16, "{said:?}");
    drop(plain);
    let counts = || server.stats().doors["http"].counts;
    wait_until("nobody is connected", || counts().connections == 0);
    assert_eq!(counts().malformed, 1);
    assert!(passes(&mut connect(&server, &authority, None, "http/1.1")));
}
