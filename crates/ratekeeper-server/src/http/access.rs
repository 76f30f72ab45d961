//! Whether a request may go on: a pure function of what it brought.
//!
//! Where neither tokens nor client certificates are asked for, the door listens on loopback only
//! and whoever reaches it has every role. But a browser reaches it for any page that it shows, so
//! there and wherever the browser itself brings the proof, foreign pages are refused.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::tokens::{Tokens, bearer};
use crate::settings::Role;
use crate::transport::ListenError;

/// The name of whoever comes where nobody needs one.
pub(crate) const ANYBODY: &str = "anybody";

/// What the door asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guards<'a> {
    /// The tokens, if there are any.
    pub(crate) tokens: Option<&'a Tokens>,
    /// Whether every connection has to have a certificate.
    pub(crate) client_certificates: bool,
}

/// What a request brought, as far as it matters for access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    /// What its route needs.
    pub(crate) needed: Role,
    /// The name and the role of the client's certificate, if the connection has one.
    pub(crate) certificate: Option<(&'a str, Role)>,
    /// `Authorization`
    pub(crate) authorization: Option<&'a [u8]>,
    /// `Origin`
    pub(crate) origin: Option<&'a [u8]>,
    /// `Sec-Fetch-Site`
    pub(crate) fetch_site: Option<&'a [u8]>,
    /// The host of the target or `:authority`, or else `Host`.
    pub(crate) host: Option<&'a [u8]>,
    /// Whether it came over TLS.
    pub(crate) is_tls: bool,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who<'a> {
    /// Of the token or the certificate.
    pub(crate) name: &'a str,
    pub(crate) proof: Proof,
}

/// How it is known who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Not at all, and nobody wants to know.
    None,
    /// By a token.
    Token,
    /// By a certificate.
    Certificate,
}

/// Why a request may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A page may have given this name to our address, to be taken for one of ours.
    #[error(
        "without tokens this server answers only as localhost or by its address: ask \
         http://127.0.0.1, let your proxy send such a Host, or list it in http.trusted_proxies"
    )]
    Misdirected,
    #[error("a token is needed here: send `Authorization: Bearer TOKEN`")]
    NoToken,
    #[error("no token of this server is like the one that was sent: see the tokens file")]
    WrongToken,
    #[error(
        "a browser may change nothing without a token: configure tokens (http.tokens) and send \
         one, or use the command line"
    )]
    BrowserWithoutToken,
    #[error(
        "this came from a page of another origin: ask from this server's own page, or from a \
         program; a proxy that passes on other people's requests should be in \
         http.trusted_proxies, remove what browsers send, or send a token"
    )]
    ForeignPage,
    #[error(
        "this needs the role `{}`, and the token or certificate has `{}`: use another",
        needed.name(), has.name()
    )]
    Role { needed: Role, has: Role },
}

impl Refusal {
    /// The status of the answer.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Misdirected => 421,
            Self::NoToken | Self::WrongToken => 401,
            Self::BrowserWithoutToken | Self::ForeignPage | Self::Role { .. } => 403,
        }
    }

    /// The `WWW-Authenticate` that goes with it.
    pub(crate) const fn challenge(self) -> Option<&'static str> {
        match self {
            Self::NoToken => Some("Bearer"),
            Self::WrongToken => Some("Bearer error=\"invalid_token\""),
            _ => None,
        }
    }
}

/// Who asks, or why it may not go on.
pub(crate) fn admit<'a>(guards: Guards<'a>, caller: &Caller<'a>) -> Result<Who<'a>, Refusal> {
    if guards.tokens.is_none() && !guards.client_certificates {
        return admit_anybody(caller);
    }
    let (who, role) = identify(guards, caller)?;
    // Only a page that was given a token can send it. A certificate the browser sends for any.
    let is_ambient = who.proof == Proof::Certificate;
    if caller.is_foreign_page() && (is_ambient || caller.needed == Role::Admin) {
        return Err(Refusal::ForeignPage);
    }
    if role.may(caller.needed) {
        Ok(who)
    } else {
        Err(Refusal::Role { needed: caller.needed, has: role })
    }
}

/// Refuses to show an HTTP door to others who need no token and no certificate. A list of
/// networks does not suffice: every browser and every service in them would have every role.
pub(crate) fn check_exposure(
    address: SocketAddr,
    has_tokens: bool,
    has_client_ca: bool,
) -> Result<(), ListenError> {
    let is_guarded = has_tokens || has_client_ca;
    if is_guarded || address.ip().to_canonical().is_loopback() {
        Ok(())
    } else {
        Err(ListenError::Unguarded { address })
    }
}

fn admit_anybody<'a>(caller: &Caller<'a>) -> Result<Who<'a>, Refusal> {
    if !caller.host.is_some_and(is_local) {
        return Err(Refusal::Misdirected);
    }
    if caller.is_foreign_page() {
        return Err(Refusal::ForeignPage);
    }
    if caller.is_browser() && caller.needed == Role::Admin {
        return Err(Refusal::BrowserWithoutToken);
    }
    Ok(Who { name: ANYBODY, proof: Proof::None })
}

/// Who it is by token or certificate. With both, whichever suffices; a wrong token is refused
/// also beside a good certificate, as whoever sent it expects it to count.
fn identify<'a>(guards: Guards<'a>, caller: &Caller<'a>) -> Result<(Who<'a>, Role), Refusal> {
    let by_token = match (guards.tokens, caller.authorization.and_then(bearer)) {
        (Some(tokens), Some(token)) => Some(tokens.role_of(token).ok_or(Refusal::WrongToken)?),
        _ => None,
    };
    let by_token = by_token.map(|(name, role)| (Who { name, proof: Proof::Token }, role));
    let certificate = caller.certificate.filter(|_| guards.client_certificates);
    let by_certificate =
        certificate.map(|(name, role)| (Who { name, proof: Proof::Certificate }, role));
    let suffices = |(_, role): &(Who<'_>, Role)| role.may(caller.needed);
    let either = by_token.or(by_certificate);
    by_token.filter(suffices).or(by_certificate.filter(suffices)).or(either).ok_or(Refusal::NoToken)
}

impl Caller<'_> {
    /// Whether a browser sent it, for a page or for an address that was typed there.
    fn is_browser(&self) -> bool {
        self.origin.is_some() || self.fetch_site.is_some_and(|site| site != b"none")
    }

    /// Whether a browser sent it for a page that is not ours. Another port is another page.
    fn is_foreign_page(&self) -> bool {
        let is_other_site = self.fetch_site.is_some_and(|site| site != b"same-origin");
        self.is_browser() && (is_other_site || self.origin.is_some_and(|it| !self.is_own(it)))
    }

    fn is_own(&self, origin: &[u8]) -> bool {
        // A browser that says itself that it is the same origin has compared the schemes. A proxy
        // in front of us may have taken https away.
        let is_https = self.is_tls
            || self.fetch_site == Some(b"same-origin") && origin.starts_with(b"https://");
        let (scheme, port) = if is_https { ("https://", 443) } else { ("http://", 80) };
        let theirs = origin.strip_prefix(scheme.as_bytes()).and_then(Place::parse);
        let ours = self.host.and_then(Place::parse);
        match (theirs, ours) {
            (Some(theirs), Some(ours)) => {
                theirs.host.eq_ignore_ascii_case(ours.host)
                    && theirs.port.unwrap_or(port) == ours.port.unwrap_or(port)
            }
            _ => false,
        }
    }
}

/// A host, with its brackets if it has any, and its port.
#[derive(Clone, Copy)]
struct Place<'a> {
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Place<'a> {
    fn parse(authority: &'a [u8]) -> Option<Self> {
        let text = str::from_utf8(authority).ok()?;
        let host_end = if text.starts_with('[') { text.find(']')? + 1 } else { 0 };
        let port_start = text.get(host_end..)?.find(':').map(|colon| host_end + colon);
        let (host, port) = match port_start {
            None => (text, None),
            Some(colon) => (text.get(..colon)?, Some(port(text.get(colon + 1..)?)?)),
        };
        let is_rest_empty = host_end == 0 || host.len() == host_end;
        let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#']);
        (is_rest_empty && is_host).then_some(Self { host, port })
    }
}

/// Digits only: `parse` alone would also take a sign.
fn port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Whether no foreign name server can have led here: the name is an address, or one that every
/// browser resolves to its own machine.
fn is_local(authority: &[u8]) -> bool {
    let Some(Place { host, .. }) = Place::parse(authority) else { return false };
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address: Option<IpAddr> = match inside {
        Some(inside) => inside.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::from),
    };
    let ends_with = |end: &str| {
        let start = host.len().checked_sub(end.len()).and_then(|start| host.get(start..));
        start.is_some_and(|it| it.eq_ignore_ascii_case(end))
    };
    address.is_some() || host.eq_ignore_ascii_case("localhost") || ends_with(".localhost")
}
