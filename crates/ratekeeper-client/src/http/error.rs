//! Why a server gave no answer over HTTP, or refused.

use std::fmt;
use std::io;
use std::path::PathBuf;

use ratekeeper::Nanos;
use ratekeeper_console::{shown, shown_lines};
use rustls::AlertDescription;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::http::StatusCode;

use super::{Place, Url};

/// How much of a strange answer is shown.
const SHOWN_CHARS_MAX: usize = 100;

/// Why there is no answer, or none that was hoped for.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum HttpError {
    #[error(
        "no server answers at {url}: start one with `ratekeeper serve`, or say where it is with --url"
    )]
    Unreachable { url: Url, source: io::Error },
    #[error(
        "{url} did not answer within {timeout}: is it a Ratekeeper server? --timeout waits longer"
    )]
    Slow { url: Url, timeout: Nanos },
    #[error("making a secure connection to {url} (does --ca say who signed its certificate?)")]
    Tls { url: Url, source: io::Error },
    #[error(
        "{url} wants to see a certificate of the client: show one with --cert FILE and --key FILE"
    )]
    WantsCertificate { url: Url, source: io::Error },
    #[error(
        "{url} refuses the certificate that is shown with --cert: it is not signed by whom the \
         server trusts (`http.client_ca` there), or it is no longer valid"
    )]
    RefusesCertificate { url: Url, source: io::Error },
    #[error("talking to {url} (is it http:// or https://?)")]
    Talk { url: Url, source: io::Error },
    #[error("what answers at {url} is no Ratekeeper server of this version: {path} got {reply}")]
    Strange { url: Url, path: String, reply: String },
    #[error("{problem}")]
    Refused { problem: Box<Problem>, is_busy: bool },
    #[error("{problem}\n  help: {}", token_help(*had_token))]
    NotAllowed { problem: Box<Problem>, had_token: bool },
    #[error(
        "{problem}\n  help: raise --http-body-bytes on the server, or import the file in parts"
    )]
    TooLong { problem: Box<Problem> },
    #[error("reading {what} from {}", path.display())]
    Read { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{} has no {what}", path.display())]
    Empty { what: &'static str, path: PathBuf },
    #[error("using the certificate {} and its key", path.display())]
    Certificate { path: PathBuf, source: rustls::Error },
    #[error(
        "no certificates of this system were found: say with --ca FILE who signed the certificate of \
         the server"
    )]
    NoAuthorities,
    #[error("the token has characters that no header can hold")]
    Token,
    #[error("writing the request")]
    Body(#[source] serde_json::Error),
}

/// What a server says is wrong (RFC 9457).
#[derive(Debug, Deserialize)]
pub struct Problem {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    field: Option<String>,
    #[serde(default)]
    rule: Option<String>,
}

/// What a server answered.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) is_problem: bool,
    pub(super) body: Vec<u8>,
}

impl HttpError {
    pub(super) fn new(place: &Place, error: ureq::Error) -> Self {
        let url = place.url.clone();
        let source = match error {
            ureq::Error::Timeout(_) => return Self::Slow { url, timeout: place.timeout },
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
                return Self::Unreachable { url, source: error.into_io() };
            }
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Pem(_) => {
                return Self::Tls { url, source: error.into_io() };
            }
            error => error.into_io(),
        };
        if let Some(error) = source.get_ref().and_then(|inner| inner.downcast_ref()) {
            let shows_one = place.tls.own.is_some();
            return match refused_certificate(error) {
                true if shows_one => Self::RefusesCertificate { url, source },
                true => Self::WantsCertificate { url, source },
                false => Self::Tls { url, source },
            };
        }
        match source.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable => Self::Unreachable { url, source },
            io::ErrorKind::TimedOut => Self::Slow { url, timeout: place.timeout },
            _ => Self::Talk { url, source },
        }
    }

    /// Whether the client could not reach the server, got no answer, or was told to come back later.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::WantsCertificate { .. }
                | Self::RefusesCertificate { .. }
                | Self::Slow { .. }
                | Self::Tls { .. }
                | Self::Talk { .. }
                | Self::Strange { .. }
                | Self::Refused { is_busy: true, .. }
        )
    }
}

impl Reply {
    /// What it says, if it is JSON of that shape.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Whether the server broke off because of what the client showed of itself, or did not show.
fn refused_certificate(error: &rustls::Error) -> bool {
    let rustls::Error::AlertReceived(alert) = error else { return false };
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::DecryptError
    )
}

fn token_help(had_token: bool) -> &'static str {
    if had_token {
        "the token was sent; the server's tokens file says which there are, and their roles"
    } else {
        "give a token with RATEKEEPER_TOKEN in the environment, or --token-file FILE"
    }
}

/// What is wrong, and below it where, and what would be right.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_lines(self.detail.as_deref().unwrap_or(&self.title)))?;
        if let Some(field) = &self.field {
            write!(f, "\n  field: {}", shown(field))?;
        }
        if let Some(rule) = &self.rule {
            write!(f, "\n  expected: {}", shown(rule))?;
        }
        match self.field.as_deref() {
            // What is a field to the server is an argument here.
            Some(field) if field.ends_with("lower") => f.write_str("\n  help: --lower says so"),
            _ => Ok(()),
        }
    }
}

/// The status, and how the answer begins.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.body);
        let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        let more = if shown.len() < text.len() { ".." } else { "" };
        write!(f, "{} with `{}{more}`", self.status.as_u16(), shown.escape_debug())
    }
}
