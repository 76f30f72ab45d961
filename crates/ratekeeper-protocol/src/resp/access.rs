//! Who may do what, where tokens are asked for.

/// Knows the tokens of a server.
pub trait Gatekeeper: Send + Sync + 'static {
    /// What a token is good for; nothing if there is no such token.
    fn admit(&self, token: &[u8]) -> Option<Pass>;

    /// The same for a token that was shown before: it may be good for something else by now, or for
    /// nothing. This is asked with every read, so it is quick where nothing has changed.
    fn renew(&self, pass: Pass) -> Option<Pass>;
}

/// What became of a token that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Whether it suffices to spend, check, refund and reset.
    pub may_decide: bool,
    /// What the gatekeeper knows the token by; not the token itself, which nobody keeps.
    pub mark: [u8; 32],
    /// When this was true, in whatever way the gatekeeper counts.
    pub as_of: u64,
}
