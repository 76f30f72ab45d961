//! Asking over https: whom the client trusts, and what it shows of itself.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::program::{Ran, file, run};
use crate::server::Server;

/// The paths of a certificate and of its key.
struct Pair {
    cert: String,
    key: String,
}

struct Authority {
    cert: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap().pem();
        Self { cert: file(&format!("{name}.pem"), &cert), issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> Pair {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        let cert = file(&format!("{name}.pem"), &cert);
        Pair { cert, key: file(&format!("{name}.key"), &key.serialize_pem()) }
    }
}

fn ask(server: &Server, args: &[&str]) -> Ran {
    let url = server.url().replace("http:", "https:");
    run(&[&["ask", "--url", &url, "LoginsPerUser", "ada"], args].concat())
}

#[test]
fn a_server_is_trusted_by_who_signed_its_certificate() {
    let (ours, other) = (Authority::new("https-ca"), Authority::new("https-other"));
    let Pair { cert, key } = ours.sign("https-server");
    let server = Server::start(&["--http-tls-cert", &cert, "--http-tls-key", &key]);
    server.logged(&format!("curl --cacert CA.pem https://{}/v1/spend", server.address("http")));
    server.logged("--ca CA.pem LoginsPerUser ada");
    let ran = ask(&server, &["--ca", &ours.cert, "--times", "2"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for args in [&["--ca", &other.cert][..], &[]] {
        let ran = ask(&server, args);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{args:?}");
        assert!(ran.stderr.contains("does --ca say who signed"), "{}", ran.stderr);
    }
    // To speak in the clear is no answer either.
    let ran = run(&["ask", "--url", &server.url(), "LoginsPerUser", "ada"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(server.stop().success());
}

#[test]
fn a_client_shows_its_certificate_where_one_is_wanted() {
    let ours = Authority::new("mutual-ca");
    let Pair { cert, key } = ours.sign("mutual-server");
    let client = ours.sign("mutual-client");
    let args = ["--http-tls-cert", &cert, "--http-tls-key", &key, "--http-client-ca", &ours.cert];
    let server = Server::start(&args);
    server.logged("curl --cacert CA.pem --cert CERT.pem --key KEY.pem https://");
    let shown = ["--ca", &ours.cert, "--cert", &client.cert, "--key", &client.key];
    let ran = ask(&server, &shown);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = ask(&server, &["--ca", &ours.cert]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("show one with --cert FILE and --key FILE"), "{}", ran.stderr);
    let stranger = Authority::new("shows-stranger-ca").sign("shows-stranger");
    let shown = ["--ca", &ours.cert, "--cert", &stranger.cert, "--key", &stranger.key];
    let ran = ask(&server, &shown);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("refuses the certificate that is shown"), "{}", ran.stderr);
    assert!(server.stop().success());
}

#[test]
fn files_that_cannot_be_used_are_told() {
    let ours = Authority::new("files-ca");
    let (one, two) = (ours.sign("files-one"), ours.sign("files-two"));
    let empty = file("files-empty.pem", "nothing\n");
    for (args, part) in [
        (&["--ca", "/nonexistent.pem"][..], "reading certificates from /nonexistent.pem"),
        (&["--ca", &empty], "has no certificate"),
        (&["--ca", &ours.cert, "--cert", &one.cert, "--key", &empty], "has no private key"),
        (&["--ca", &ours.cert, "--cert", &one.cert, "--key", &two.key], "using the certificate"),
    ] {
        let url = ["ask", "--url", "https://127.0.0.1:9", "L", "a"];
        let ran = run(&[&url[..], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
        assert!(ran.stderr.contains(part), "{part:?} is not in {}", ran.stderr);
    }
}
