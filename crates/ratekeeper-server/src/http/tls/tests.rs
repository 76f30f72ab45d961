use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::{PEM_BYTES_MAX, Reloading, TlsError, TlsFiles, client_name};
use crate::http::tokens::Tokens;
use crate::reading::Place;
use crate::with_causes;

/// A certificate and its key, as PEM.
#[derive(Clone)]
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

    fn sign(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "somebody");
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { cert, key: key.serialize_pem() }
    }
}

/// A folder that is gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("ratekeeper-tls-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn files(&self, pair: &Pair, client_ca: Option<&str>) -> TlsFiles {
        TlsFiles {
            cert: self.write("cert.pem", &pair.cert),
            key: self.write("key.pem", &pair.key),
            client_ca: client_ca.map(|text| self.write("ca.pem", text)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn client(trusted: &str, own: Option<&Pair>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(der(trusted)).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![der(&pair.cert)], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    Arc::new(config)
}

/// Lets the two talk until both are content, or until one is not.
fn handshake(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
) -> Result<(ServerConnection, ClientConnection), rustls::Error> {
    let mut server = ServerConnection::new(server).unwrap();
    let mut client = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    while client.wants_write() || server.wants_write() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &*bytes;
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &*bytes;
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    assert!(!server.is_handshaking() && !client.is_handshaking());
    Ok((server, client))
}

#[test]
fn a_client_that_knows_the_authority_comes_in_and_speaks_http_2() {
    let folder = Folder::new("plain");
    let authority = Authority::new();
    let files = folder.files(&authority.sign(&["localhost"]), None);
    let (server, _) = handshake(load(&files).unwrap(), client(&authority.cert, None)).unwrap();
    assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
    assert!(server.peer_certificates().is_none());
    let stranger = client(&Authority::new().cert, None);
    assert!(handshake(load(&files).unwrap(), stranger).is_err());
}

#[test]
fn with_a_client_authority_every_client_needs_a_certificate_of_it() {
    let folder = Folder::new("clients");
    let (authority, clients) = (Authority::new(), Authority::new());
    let files = folder.files(&authority.sign(&["localhost"]), Some(&clients.cert));
    let ask = |own: Option<&Pair>| {
        handshake(load(&files).unwrap(), client(&authority.cert, own)).map(|(server, _)| {
            let chain = server.peer_certificates().unwrap();
            client_name(&chain[0])
        })
    };
    let shop = clients.sign(&["shop.internal", "other.internal"]);
    assert_eq!(ask(Some(&shop)).unwrap(), "cert:shop.internal");
    assert!(ask(None).is_err());
    assert!(ask(Some(&authority.sign(&["shop.internal"]))).is_err(), "signed by another");
}

#[test]
fn a_certificate_without_a_dns_name_is_named_by_its_digest() {
    let authority = Authority::new();
    let [first, second] = [0, 1].map(|_| client_name(&der(&authority.sign(&[]).cert)));
    assert!(first.starts_with("cert:sha256:") && first.len() == 12 + 16, "{first}");
    assert_ne!(first, second);
    assert!(client_name(&der(&authority.sign(&["192.0.2.1"]).cert)).starts_with("cert:sha256:"));
    assert_eq!(client_name(&CertificateDer::from(vec![1, 2, 3])), "cert:sha256:039058c6f2c0cb49");
}

#[test]
fn nobody_with_a_certificate_is_called_like_a_token_or_the_server() {
    let authority = Authority::new();
    for name in ["ops", "ratekeeper", "anybody"] {
        let name = client_name(&der(&authority.sign(&[name]).cert));
        let tokens = Tokens::parse(&format!("{name} admin 0123456789abcdef"), "tokens.txt");
        assert!(tokens.is_err(), "no token is called `{name}`");
    }
}

fn reload(tls: &Reloading) -> Result<(), TlsError> {
    tls.apply(&tls.files().read(&Place::default())?)
}

fn open(files: TlsFiles) -> Reloading {
    let texts = files.read(&Place::default()).unwrap();
    Reloading::new(files, &texts).unwrap()
}

fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    files.parse(&files.read(&Place::default())?)
}

#[test]
fn the_next_connection_sees_a_certificate_that_was_replaced() {
    let folder = Folder::new("reload");
    let (old, new) = (Authority::new(), Authority::new());
    let files = folder.files(&old.sign(&["localhost"]), None);
    let stamp = files.stamp(&Place::default());
    let tls = open(files);
    let is_known_by =
        |authority: &Authority| handshake(tls.config(), client(&authority.cert, None)).is_ok();
    assert!(is_known_by(&old) && !is_known_by(&new));
    folder.files(&new.sign(&["localhost"]), None);
    assert_ne!(tls.files().stamp(&Place::default()), stamp);
    assert!(is_known_by(&old), "nothing changes before a reload");
    reload(&tls).unwrap();
    assert!(is_known_by(&new) && !is_known_by(&old));
}

#[test]
fn a_bad_file_never_replaces_a_good_one() {
    let folder = Folder::new("bad");
    let authority = Authority::new();
    let pair = authority.sign(&["localhost"]);
    let tls = open(folder.files(&pair, Some(&authority.cert)));
    for (name, text) in [("cert.pem", ""), ("key.pem", "x"), ("ca.pem", "-----BEGIN CERT")] {
        folder.write(name, text);
        assert!(reload(&tls).is_err(), "{name}");
        let client = client(&authority.cert, Some(&pair));
        assert!(handshake(tls.config(), client).is_ok(), "{name}");
        folder.files(&pair, Some(&authority.cert));
    }
    reload(&tls).unwrap();
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_path() {
    let folder = Folder::new("faults");
    let authority = Authority::new();
    let (pair, other) = (authority.sign(&["localhost"]), authority.sign(&["localhost"]));
    let cut = |text: &str| text[..text.len() / 2].to_owned();
    let garbled = pair.cert.replacen("MII", "M!!", 1);
    let large = " ".repeat(PEM_BYTES_MAX + 1);
    let hollow = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let hollow_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let cases = [
        ("cert.pem", "", "there is no certificate in"),
        ("cert.pem", &*pair.key, "there is no certificate in"),
        ("cert.pem", &cut(&pair.cert), "the certificate in"),
        ("cert.pem", &garbled, "is not base64"),
        ("cert.pem", hollow, "cannot be used"),
        ("cert.pem", &large, "it is larger than"),
        ("cert.pem", &other.cert, "does not belong to the certificate"),
        ("key.pem", &*other.key, "does not belong to the certificate"),
        ("key.pem", &*pair.cert, "there is no private key in"),
        ("key.pem", &cut(&pair.key), "`-----END ..`, is missing"),
        ("key.pem", hollow_key, "the private key in"),
        ("ca.pem", "none", "there is no certificate of the client CA in"),
        ("ca.pem", hollow, "cannot be used"),
    ];
    for (name, text, words) in cases {
        let files = folder.files(&pair, Some(&authority.cert));
        let path = folder.write(name, text);
        let error = with_causes(&load(&files).err().unwrap());
        assert!(error.contains(words), "{name}: {error}\nexpected {words}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
    let files = TlsFiles { key: folder.0.join("none"), ..folder.files(&pair, None) };
    let error = with_causes(&load(&files).err().unwrap());
    assert!(
        error.starts_with("reading the private key from") && error.contains("none: "),
        "{error}"
    );
}
