//! What a client needs for https: who is trusted, and what it shows of itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use rustls::sign::CertifiedKey;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::HttpError;

/// Where systems keep the certificates of those who sign for everybody.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Files with certificates, as PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Who signs the certificates of servers; those that the system trusts if nothing is said.
    pub ca: Option<PathBuf>,
    /// The client's own certificate, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Reads the files. Refuses such as cannot be used.
    pub(super) fn load(&self) -> Result<TlsConfig, HttpError> {
        let provider = Arc::new(ring::default_provider());
        let ca = match &self.ca {
            Some(ca) => ca.as_path(),
            None => system_authorities().ok_or(HttpError::NoAuthorities)?,
        };
        let roots = RootCerts::from(certificates("certificates", ca)?);
        let own = match &self.own {
            Some((certificate, key)) => Some(own_certificate(certificate, key, &provider)?),
            None => None,
        };
        Ok(TlsConfig::builder()
            .root_certs(roots)
            .client_cert(own)
            .unversioned_rustls_crypto_provider(provider)
            .build())
    }
}

fn system_authorities() -> Option<&'static Path> {
    SYSTEM_AUTHORITIES.iter().map(Path::new).find(|path| path.exists())
}

fn own_certificate(
    path: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<ClientCert, HttpError> {
    let chain = certificates("a certificate", path)?;
    let text = read("the key", key)?;
    let missing = || HttpError::Empty { what: "private key", path: key.to_owned() };
    // The client that is used takes it for granted that the two belong together.
    let ders = chain.iter().map(|it| CertificateDer::from(it.der().to_vec())).collect();
    let der = PrivateKeyDer::from_pem_slice(&text).map_err(|_| missing())?;
    CertifiedKey::from_der(ders, der, provider)
        .map_err(|source| HttpError::Certificate { path: path.to_owned(), source })?;
    let key = PrivateKey::from_pem(&text).map_err(|_| missing())?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<Certificate<'static>>, HttpError> {
    let text = read(what, path)?;
    let found: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    let missing = HttpError::Empty { what: "certificate", path: path.to_owned() };
    if found.is_empty() { Err(missing) } else { Ok(found) }
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, HttpError> {
    std::fs::read(path).map_err(|source| HttpError::Read { what, path: path.to_owned(), source })
}
