//! What the door locks with: tokens and certificates, which can be read again while it is open.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use rustls::ServerConfig;
use tollgate_protocol::resp::{Gatekeeper, Pass};

use super::tls::{Reloading, TlsError, TlsFiles};
use super::tokens::{TOKEN_CHARS_MAX, Tokens, TokensError, digest};
use crate::files::{ReadError, Stamp, Text};
use crate::reading::Place;
use crate::settings::{HttpSettings, Role, SecretText};

/// The tokens and certificates in force.
pub(crate) struct Keys {
    tokens_file: Option<PathBuf>,
    tokens_text: Option<SecretText>,
    tokens: ArcSwapOption<Tokens>,
    /// How often they were read again.
    tokens_read: AtomicU64,
    tls: Option<Reloading>,
    /// Whether every client has a certificate.
    pub(super) has_client_ca: bool,
    /// What the files looked like before they were read at the start.
    loaded_stamp: Stamp,
}

/// What was read of the files, and is not in force yet.
pub(crate) struct ReadKeys {
    tokens: Result<Option<Arc<Tokens>>, KeysError>,
    tls: Result<Option<Arc<ServerConfig>>, TlsError>,
}

/// Why tokens or certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum KeysError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{has} is set and {lacks} is not: https needs both")]
    Half { has: &'static str, lacks: &'static str },
    #[error("http.client_ca is set, but no certificate: set http.tls_cert and http.tls_key too")]
    ClientCaAlone,
    #[error(
        "tokens are both in the environment and in a file: unset TOLLGATE_TOKENS or http.tokens"
    )]
    TwoLists,
}

impl Keys {
    /// Reads what the settings name. Refuses what cannot be used.
    pub(crate) fn open(settings: &HttpSettings, place: &Place) -> Result<Self, KeysError> {
        let tls = match (&settings.tls_cert, &settings.tls_key, &settings.client_ca) {
            (Some(cert), Some(key), client_ca) => Some(TlsFiles {
                cert: cert.clone(),
                key: key.clone(),
                client_ca: client_ca.clone(),
            }),
            (Some(_), None, _) => {
                return Err(KeysError::Half { has: "http.tls_cert", lacks: "http.tls_key" });
            }
            (None, Some(_), _) => {
                return Err(KeysError::Half { has: "http.tls_key", lacks: "http.tls_cert" });
            }
            (None, None, Some(_)) => return Err(KeysError::ClientCaAlone),
            (None, None, None) => None,
        };
        if settings.tokens.is_some() && settings.tokens_text.is_some() {
            return Err(KeysError::TwoLists);
        }
        let tls_stamp = tls.as_ref().map(|tls| tls.stamp(place));
        let tokens_stamp = Stamp::of(settings.tokens.as_deref().into_iter(), place);
        let keys = Self {
            tokens_file: settings.tokens.clone(),
            tokens_text: settings.tokens_text.clone(),
            tokens: ArcSwapOption::empty(),
            tokens_read: AtomicU64::new(0),
            tls: tls.map(|files| Reloading::new(files, place)).transpose()?,
            has_client_ca: settings.client_ca.is_some(),
            loaded_stamp: match tls_stamp {
                Some(tls_stamp) => tokens_stamp.and(tls_stamp),
                None => tokens_stamp,
            },
        };
        keys.tokens.store(keys.read_tokens(place)?);
        Ok(keys)
    }

    /// What the files say now. It is said at `place` which of them is looked at.
    pub(crate) fn read(&self, place: &Place) -> ReadKeys {
        let tls = self.tls.as_ref().map(|tls| tls.files().load(place)).transpose();
        ReadKeys { tokens: self.read_tokens(place), tls }
    }

    /// Puts in force what was read. What is wrong with one leaves it as it was.
    pub(crate) fn apply(&self, read: ReadKeys) -> Result<(), KeysError> {
        let tokens = read.tokens.map(|tokens| {
            self.tokens.store(tokens);
            // Behind them: who sees that they were read sees what they are.
            self.tokens_read.fetch_add(1, Ordering::Release);
        });
        let tls = read.tls.map(|config| {
            if let (Some(tls), Some(config)) = (&self.tls, config) {
                tls.apply(config);
            }
        });
        tokens.and(tls.map_err(KeysError::from))
    }

    fn read_tokens(&self, place: &Place) -> Result<Option<Arc<Tokens>>, KeysError> {
        let tokens = match (&self.tokens_file, &self.tokens_text) {
            (Some(path), _) => {
                place.is(path);
                let text = Text::read_regular("tokens", path)?;
                let source = text.source();
                Tokens::parse(source.text, source.name)?
            }
            (None, Some(SecretText(text))) => Tokens::parse_inline(text, "TOLLGATE_TOKENS")?,
            (None, None) => return Ok(None),
        };
        Ok(Some(Arc::new(tokens)))
    }

    pub(crate) fn loaded_stamp(&self) -> Stamp {
        self.loaded_stamp.clone()
    }

    /// What the files look like now.
    pub(crate) fn stamp(&self, place: &Place) -> Stamp {
        let tokens = Stamp::of(self.tokens_file.as_deref().into_iter(), place);
        match &self.tls {
            Some(tls) => tokens.and(tls.files().stamp(place)),
            None => tokens,
        }
    }

    pub(super) fn tokens(&self) -> Guard<Option<Arc<Tokens>>> {
        self.tokens.load()
    }

    /// Whether nobody is asked for a proof of who it is.
    pub(super) fn is_open(&self) -> bool {
        !self.has_client_ca && self.tokens().is_none()
    }

    /// What the next connection is secured with, if it is to be.
    pub(super) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(Reloading::config)
    }

    pub(crate) fn has_tokens(&self) -> bool {
        self.tokens_file.is_some() || self.tokens_text.is_some()
    }
}

/// Other doors have the same tokens. Only their digests are kept with connections.
impl Gatekeeper for Keys {
    fn admit(&self, token: &[u8]) -> Option<Pass> {
        (token.len() <= TOKEN_CHARS_MAX).then(|| digest(token)).and_then(|mark| self.pass(mark))
    }

    fn renew(&self, pass: Pass) -> Option<Pass> {
        if pass.as_of == self.tokens_read.load(Ordering::Acquire) {
            return Some(pass);
        }
        self.pass(pass.mark)
    }
}

impl Keys {
    fn pass(&self, mark: [u8; 32]) -> Option<Pass> {
        let as_of = self.tokens_read.load(Ordering::Acquire);
        let tokens = self.tokens.load();
        let (_, role) = tokens.as_ref()?.role_of_digest(&mark)?;
        Some(Pass { may_decide: role.may(Role::Decide), mark, as_of })
    }
}
