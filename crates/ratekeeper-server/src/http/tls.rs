//! TLS: from PEM files to what connections are secured with, and again when the files change.

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};

use crate::files::Stamp;
use crate::reading::{Place, read_whole_file};

/// How large a file can be, which also bounds how many certificates it has.
pub(crate) const PEM_BYTES_MAX: usize = 1 << 20;

/// What the names of those begin with who come with a certificate.
const CERTIFICATE_PREFIX: &str = "cert:";
/// How many bytes of its digest name a certificate that has no name.
const NAME_BYTES: usize = 8;

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The server's certificate, and those that lead to the one that clients know.
    pub(crate) cert: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
    /// Who signs the certificates of clients. If this is set, every client needs one.
    pub(crate) client_ca: Option<PathBuf>,
}

/// Why connections cannot be secured with these files.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum TlsError {
    #[error("reading the {what} from {}", path.display())]
    Read { what: &'static str, path: PathBuf, source: io::Error },
    #[error("there is no {what} in {}: expected PEM, such as `-----BEGIN {label}-----`", path.display())]
    Missing { what: &'static str, label: &'static str, path: PathBuf },
    #[error("the {what} in {} is damaged: {why}", path.display())]
    Damaged { what: &'static str, path: PathBuf, why: &'static str },
    #[error("the {what} in {} cannot be used", path.display())]
    Unusable { what: &'static str, path: PathBuf, source: rustls::Error },
    #[error(
        "the key in {} does not belong to the certificate in {}, which must be the first there",
        key.display(), cert.display()
    )]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("preparing TLS")]
    Setup { source: rustls::Error },
}

/// What is read from a file: what to call it, and how PEM does.
#[derive(Clone, Copy)]
struct Kind {
    what: &'static str,
    label: &'static str,
}

const CERTIFICATE: Kind = Kind { what: "certificate", label: "CERTIFICATE" };
const KEY: Kind = Kind { what: "private key", label: "PRIVATE KEY" };
const CLIENT_CA: Kind = Kind { what: "certificate of the client CA", label: "CERTIFICATE" };

/// What was in the files, which is still to be parsed.
pub(crate) struct TlsTexts {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl TlsFiles {
    /// Reads the files. It is said at `place` which of them is looked at.
    pub(crate) fn read(&self, place: &Place) -> Result<TlsTexts, TlsError> {
        let client_ca = self.client_ca.as_deref();
        Ok(TlsTexts {
            cert: read(CERTIFICATE, &self.cert, place)?,
            key: read(KEY, &self.key, place)?,
            client_ca: client_ca.map(|path| read(CLIENT_CA, path, place)).transpose()?,
        })
    }

    /// What connections are secured with, by what was in the files.
    pub(crate) fn parse(&self, texts: &TlsTexts) -> Result<Arc<ServerConfig>, TlsError> {
        // Said here, so that it does not depend on what else is in the process.
        let provider = Arc::new(ring::default_provider());
        let key = self.certified_key(&provider, texts)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|source| TlsError::Setup { source })?;
        let builder = match (&self.client_ca, &texts.client_ca) {
            (Some(path), Some(text)) => {
                builder.with_client_cert_verifier(verifier(path, text, provider)?)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// What the files look like now.
    pub(crate) fn stamp(&self, place: &Place) -> Stamp {
        let client_ca = self.client_ca.as_deref();
        let paths = [Some(&*self.cert), Some(&*self.key), client_ca];
        Stamp::of(paths.into_iter().flatten(), place)
    }

    fn certified_key(
        &self,
        provider: &CryptoProvider,
        texts: &TlsTexts,
    ) -> Result<CertifiedKey, TlsError> {
        let chain = certificates(CERTIFICATE, &self.cert, &texts.cert)?;
        let key = private_key(&self.key, &texts.key)?;
        let unusable = |kind, path| move |source| unusable(kind, path, source);
        let key = provider.key_provider.load_private_key(key);
        let key = CertifiedKey::new(chain, key.map_err(unusable(KEY, &self.key))?);
        match key.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(key),
            Err(rustls::Error::InconsistentKeys(_)) => {
                Err(TlsError::Mismatch { cert: self.cert.clone(), key: self.key.clone() })
            }
            Err(source) => Err(unusable(CERTIFICATE, &self.cert)(source)),
        }
    }
}

/// TLS whose files can be read again while connections come.
pub(crate) struct Reloading {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
}

impl Reloading {
    /// Secures connections with what was in the files.
    pub(crate) fn new(files: TlsFiles, texts: &TlsTexts) -> Result<Self, TlsError> {
        let config = ArcSwap::new(files.parse(texts)?);
        Ok(Self { files, config })
    }

    /// What the next connection is secured with.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Where the files are.
    #[cfg(test)]
    pub(crate) fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Secures the next connection with what is in the files now. If that is wrong, nothing changes.
    pub(crate) fn apply(&self, texts: &TlsTexts) -> Result<(), TlsError> {
        self.config.store(self.files.parse(texts)?);
        Ok(())
    }
}

/// What to call whoever has this certificate: `cert:` and the first DNS name in it, else the beginning
/// of its digest. No token has a colon in its name, and the server has none, so in the audit nobody is
/// taken for another. The common name is not looked at: it has been out of use for names for two decades,
/// and nothing that reads certificates here knows it.
pub(crate) fn client_name(certificate: &CertificateDer<'_>) -> String {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok();
    let name = parsed.and_then(|it| it.valid_dns_names().next().map(str::to_owned));
    let name = name.unwrap_or_else(|| {
        let digest = Sha256::digest(certificate);
        let digits = digest.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}"));
        format!("sha256:{}", digits.collect::<Vec<_>>().concat())
    });
    format!("{CERTIFICATE_PREFIX}{name}")
}

fn verifier(
    path: &Path,
    text: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CLIENT_CA, path, text)? {
        roots.add(certificate).map_err(|source| unusable(CLIENT_CA, path, source))?;
    }
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    built.map_err(|error| unusable(CLIENT_CA, path, rustls::Error::General(error.to_string())))
}

fn certificates(
    kind: Kind,
    path: &Path,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| damaged(kind, path, &error))?;
    if certificates.is_empty() { Err(missing(kind, path)) } else { Ok(certificates) }
}

fn private_key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => missing(KEY, path),
        error => damaged(KEY, path, &error),
    })
}

fn read(kind: Kind, path: &Path, place: &Place) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { what: kind.what, path: path.to_owned(), source };
    place.is(path);
    read_whole_file(path, PEM_BYTES_MAX).map_err(failed)
}

fn missing(kind: Kind, path: &Path) -> TlsError {
    TlsError::Missing { what: kind.what, label: kind.label, path: path.to_owned() }
}

/// In words of our own: what the parser says may repeat a line of a key.
fn damaged(kind: Kind, path: &Path, error: &pem::Error) -> TlsError {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "its last line, `-----END ..`, is missing",
        pem::Error::IllegalSectionStart { .. } => "its first line, `-----BEGIN ..`, is not whole",
        pem::Error::Base64Decode(_) => "what stands between its first and last line is not base64",
        _ => "it is not PEM",
    };
    TlsError::Damaged { what: kind.what, path: path.to_owned(), why }
}

fn unusable(kind: Kind, path: &Path, source: rustls::Error) -> TlsError {
    TlsError::Unusable { what: kind.what, path: path.to_owned(), source }
}
