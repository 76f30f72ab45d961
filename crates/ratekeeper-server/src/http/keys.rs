//! What the door locks with: tokens and certificates, which can be read again while it is open.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use ratekeeper_protocol::resp::{Gatekeeper, Pass};
use rustls::ServerConfig;

use super::tls::{Reloading, TlsError, TlsFiles, TlsTexts};
use super::tokens::{TOKEN_CHARS_MAX, Tokens, TokensError, digest};
use crate::files::{ReadError, Stamp, Text};
use crate::reading::{Place, Unread};
use crate::settings::{HttpSettings, Role, SecretText};

/// Where tokens and certificates are. Each of both is read on its own.
#[derive(Clone, Debug)]
pub(crate) struct KeyFiles {
    tokens: Option<PathBuf>,
    tls: Option<TlsFiles>,
}

/// The tokens and certificates in force.
pub(crate) struct Keys {
    files: KeyFiles,
    tokens_text: Option<SecretText>,
    tokens: ArcSwapOption<Tokens>,
    /// How often they were read again.
    tokens_read: AtomicU64,
    tls: Option<Reloading>,
    /// Whether every client has a certificate.
    pub(super) has_client_ca: bool,
}

/// Why tokens or certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum KeysError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{has} is set and {lacks} is not: https needs both")]
    Half { has: &'static str, lacks: &'static str },
    #[error("http.client_ca is set, but no certificate: set http.tls_cert and http.tls_key too")]
    ClientCaAlone,
    #[error(
        "tokens are both in the environment and in a file: unset RATEKEEPER_TOKENS or http.tokens"
    )]
    TwoLists,
}

impl KeyFiles {
    /// Those that the settings name. Refuses settings that contradict each other.
    pub(crate) fn new(settings: &HttpSettings) -> Result<Self, KeysError> {
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
        Ok(Self { tokens: settings.tokens.clone(), tls })
    }

    /// What the file of tokens says now, if there is one. It is said at `place` which file is looked at.
    pub(crate) fn read_tokens(&self, place: &Place) -> Result<Option<Text>, ReadError> {
        let Some(path) = &self.tokens else { return Ok(None) };
        place.is(path);
        Text::read_regular("tokens", path).map(Some)
    }

    /// What the files of certificates say now, if there are any.
    pub(crate) fn read_tls(&self, place: &Place) -> Result<Option<TlsTexts>, TlsError> {
        self.tls.as_ref().map(|tls| tls.read(place)).transpose()
    }

    /// What the file of tokens looks like now.
    pub(crate) fn tokens_stamp(&self, place: &Place) -> Stamp {
        Stamp::of(self.tokens.as_deref().into_iter(), place)
    }

    /// What the files of certificates look like now.
    pub(crate) fn tls_stamp(&self, place: &Place) -> Stamp {
        self.tls.as_ref().map(|tls| tls.stamp(place)).unwrap_or_default()
    }
}

impl Keys {
    /// Keys by what the files said. Refuses what cannot be used.
    pub(crate) fn new(
        settings: &HttpSettings,
        files: KeyFiles,
        tokens: Option<&Text>,
        tls: Option<&TlsTexts>,
    ) -> Result<Self, KeysError> {
        let secured = files.tls.clone().zip(tls);
        let secured = secured.map(|(files, texts)| Reloading::new(files, texts)).transpose()?;
        let keys = Self {
            files,
            tokens_text: settings.tokens_text.clone(),
            tokens: ArcSwapOption::empty(),
            tokens_read: AtomicU64::new(0),
            tls: secured,
            has_client_ca: settings.client_ca.is_some(),
        };
        keys.tokens.store(keys.parse_tokens(tokens)?);
        Ok(keys)
    }

    /// Keys by what the files say now.
    #[cfg(test)]
    pub(crate) fn open(settings: &HttpSettings) -> Result<Self, KeysError> {
        let (files, place) = (KeyFiles::new(settings)?, Place::default());
        let (tokens, tls) = (files.read_tokens(&place)?, files.read_tls(&place)?);
        Self::new(settings, files, tokens.as_ref(), tls.as_ref())
    }

    pub(crate) fn files(&self) -> &KeyFiles {
        &self.files
    }

    /// Puts the tokens of the file in force. If they are wrong, nothing changes.
    pub(crate) fn apply_tokens(&self, text: Option<&Text>) -> Result<(), KeysError> {
        self.tokens.store(self.parse_tokens(text)?);
        // Behind them: who sees that they were read sees what they are.
        self.tokens_read.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Puts the certificates of the files in force. If they are wrong, nothing changes.
    pub(crate) fn apply_tls(&self, texts: Option<&TlsTexts>) -> Result<(), KeysError> {
        let (Some(tls), Some(texts)) = (&self.tls, texts) else { return Ok(()) };
        Ok(tls.apply(texts)?)
    }

    fn parse_tokens(&self, text: Option<&Text>) -> Result<Option<Arc<Tokens>>, KeysError> {
        let tokens = match (text.map(Text::source), &self.tokens_text) {
            (Some(source), _) => Tokens::parse(source.text, source.name)?,
            (None, Some(SecretText(text))) => Tokens::parse_inline(text, "RATEKEEPER_TOKENS")?,
            (None, None) => return Ok(None),
        };
        Ok(Some(Arc::new(tokens)))
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
        self.files.tokens.is_some() || self.tokens_text.is_some()
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
