//! Where a request goes: whose limits count.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;

/// Any number will do. It is fixed so that the same origins have the same keys every time.
const SEED: u64 = 0x0419_1a5e;
/// The longest text of an origin; the rest is left out.
const TEXT_BYTES_MAX: usize = 160;

/// Where a request goes: scheme, host and port. Each origin has budgets of its own.
///
/// An origin that is not known is empty. Requests without one share their budgets, too.
///
/// ```
/// use ratekeeper_tracker::Origin;
///
/// let origin = Origin::of("https://api.example.com/v1/things?page=2");
/// assert_eq!(origin.to_string(), "https://api.example.com");
/// assert_eq!(origin, Origin::of("HTTPS://user@API.example.com:443"));
/// assert_ne!(origin, Origin::of("http://api.example.com"));
/// ```
#[derive(Clone, Copy, Default)]
pub struct Origin<'r> {
    scheme: &'r str,
    authority: &'r str,
}

impl<'r> Origin<'r> {
    /// The origin of a URL; what stands behind host and port does not matter.
    pub fn of(url: &'r str) -> Self {
        // Byte by byte: both are short, and a search has to be prepared.
        let colon = url.bytes().position(|byte| byte == b':').unwrap_or(url.len());
        let (scheme, rest) = url.split_at(colon);
        let Some(rest) = rest.strip_prefix("://") else { return Self::default() };
        let end = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b'#' | b'\\'));
        Self::new(scheme, &rest[..end.unwrap_or(rest.len())])
    }

    /// The origin of a scheme and a host, which may have a port.
    pub const fn new(scheme: &'r str, authority: &'r str) -> Self {
        Self { scheme, authority }
    }

    /// Whether nothing is known of it.
    pub const fn is_empty(&self) -> bool {
        self.authority.is_empty()
    }

    /// The host, as it is written.
    pub fn host(&self) -> &'r str {
        self.host_and_port().0
    }

    /// Whether both are written the same, which is quickly seen.
    #[inline]
    pub(crate) fn is_written(&self, scheme: &str, authority: &str) -> bool {
        self.authority == authority && self.scheme == scheme
    }

    /// The scheme and what names host and port, as they are written.
    pub(crate) const fn written(&self) -> (&'r str, &'r str) {
        (self.scheme, self.authority)
    }

    /// The same for all ways to write it.
    pub(crate) fn key(&self) -> u64 {
        let (host, port) = self.host_and_port();
        let mut hasher = FixedState::with_seed(SEED).build_hasher();
        for byte in self.scheme.bytes().chain([b':']).chain(host.bytes()) {
            hasher.write_u8(byte.to_ascii_lowercase());
        }
        hasher.write_u64(port.map_or(u64::MAX, u64::from));
        hasher.finish()
    }

    /// The host, and its port if one is written or the scheme has one.
    fn host_and_port(&self) -> (&'r str, Option<u16>) {
        let named = self.authority.rsplit_once('@').map_or(self.authority, |(_, named)| named);
        let (host, port) = match named.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                (host, port.parse().ok())
            }
            _ => (named, None),
        };
        (host.strip_suffix('.').unwrap_or(host), port.or_else(|| self.usual_port()))
    }

    fn usual_port(&self) -> Option<u16> {
        let is = |scheme: &str| self.scheme.eq_ignore_ascii_case(scheme);
        match () {
            () if is("https") || is("wss") => Some(443),
            () if is("http") || is("ws") => Some(80),
            () => None,
        }
    }
}

impl PartialEq for Origin<'_> {
    fn eq(&self, other: &Self) -> bool {
        let ((host, port), (other_host, other_port)) =
            (self.host_and_port(), other.host_and_port());
        port == other_port
            && host.eq_ignore_ascii_case(other_host)
            && self.scheme.eq_ignore_ascii_case(other.scheme)
    }
}

impl Eq for Origin<'_> {}

impl std::fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        let (host, port) = self.host_and_port();
        let text = format!("{}://{host}", self.scheme);
        text.chars().take(TEXT_BYTES_MAX).try_for_each(|c| f.write_char(c.to_ascii_lowercase()))?;
        match port.filter(|_| port != self.usual_port()) {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Origin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What stands before the host is somebody's password.
        write!(f, "Origin({self})")
    }
}

#[cfg(test)]
mod tests;
