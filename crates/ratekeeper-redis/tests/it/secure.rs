//! TLS to Redis, with and without a certificate of our own; and hearing what others change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::gcra;
use ratekeeper::{Moment, Nanos};
use ratekeeper_redis::{Address, Ask, Failure, Heard, Link, PemFile, Rule, Tls, Visit};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::servers::{Blocking, GENEROUS, Single, directory, free_port, until};

/// Certificates of one authority, as files.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn new() -> Self {
        let directory = directory();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // One that is named like what it signs would seem to have signed itself.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(directory.join("ca.pem"), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let params = CertificateParams::new(names).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            std::fs::write(directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn pem(&self, name: &str) -> PemFile {
        let path = self.path(name);
        PemFile { text: std::fs::read(&path).unwrap(), path }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn ask(link: &Blocking) -> Result<(), Failure> {
    let rule = gcra::Rule::new(5, 1, Nanos::from_secs(60)).unwrap();
    let rule = Rule::new(&rule).unwrap();
    let (since, action) = (Moment::EPOCH, Action::CheckAndSpend);
    let ask =
        Ask { bucket: b"a", rule: &rule, since, action, is_shadow: false, cost: 1, joined: false };
    let mut answers = Vec::new();
    link.wait(link.link.gcra(&[ask], &Visit::within(GENEROUS), &mut answers));
    answers.remove(0).map(drop)
}

#[test]
fn tls_needs_the_authority_and_the_certificate_that_the_server_asks_for() {
    let (files, port) = (Files::new(), free_port());
    let _server = Single::with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &text(&files.path("server.pem")),
        "--tls-key-file",
        &text(&files.path("server.key")),
        "--tls-ca-cert-file",
        &text(&files.path("ca.pem")),
    ]);
    let url = format!("rediss://localhost:{port}");
    let open =
        |tls: Tls| Blocking::with(|| Link::open(&url.parse::<Address>().unwrap(), &tls).unwrap());
    let authority = Some(files.pem("ca.pem"));
    let client = Some((files.pem("client.pem"), files.pem("client.key")));
    let link = open(Tls { authority: authority.clone(), client });
    assert_eq!(ask(&link), Ok(()));
    let failure = ask(&open(Tls { authority, client: None })).unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
    let failure = ask(&open(Tls::default())).unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
}

#[test]
fn a_refund_by_one_server_is_heard_by_all_who_listen() {
    let server = Single::start();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = Blocking::with(|| {
        let heard = Arc::clone(&heard);
        let note = move |word: Heard<'_>| match word {
            Heard::Began => heard.lock().unwrap().push(None),
            Heard::Changed(bucket) => heard.lock().unwrap().push(Some(bucket.to_vec())),
            Heard::Ended => {}
        };
        let address: Address = server.url().parse().unwrap();
        Link::open_and_listen(&address, &Tls::default(), note).unwrap()
    });
    assert_eq!(ask(&listener), Ok(()));
    until("word of a new connection", || heard.lock().unwrap().contains(&None));
    let other = Blocking::open(&server.url());
    let rule = gcra::Rule::new(5, 1, Nanos::from_secs(60)).unwrap();
    let rule = Rule::new(&rule).unwrap();
    let give = |bucket, action| Ask {
        bucket,
        rule: &rule,
        since: Moment::EPOCH,
        action,
        is_shadow: false,
        cost: 1,
        joined: false,
    };
    other.gcra(&[give(b"a", Action::Refund), give(b"full", Action::Refund)], None);
    until("word of the refund", || heard.lock().unwrap().contains(&Some(b"a".to_vec())));
    assert!(!heard.lock().unwrap().contains(&Some(b"full".to_vec())), "nothing changed there");
}
