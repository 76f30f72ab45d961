//! Sending again what the API refused.

/// How often a refused request is sent again, where nothing else is set.
pub const RETRIES_DEFAULT: u32 = 2;
/// Methods that do no more twice than once.
#[cfg(any(feature = "tower", feature = "reqwest"))]
const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];

/// How often a request is sent again that the API refused because of a limit.
///
/// Each time it waits for its turn like any other, behind the refusal. All its waits together are no
/// longer than the deadline of the gate's [`Strategy`](super::Strategy). If its turn does not come
/// by then, or it was refused too often, the caller has the API's refusal as it came. With
/// [`Strategy::SendAnyway`](super::Strategy::SendAnyway) nothing is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often at most.
    pub times: u32,
    /// Which requests.
    pub methods: RetryMethods,
}

/// Which requests are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryMethods {
    /// `GET`, `HEAD`, `OPTIONS`, `TRACE`, `PUT` and `DELETE`: to send them twice does no more than
    /// to send them once.
    Idempotent,
    /// Every request, for APIs that are known not to have begun what they refuse.
    All,
}

impl Retry {
    /// Nothing is sent again.
    pub const NEVER: Self = Self { times: 0, methods: RetryMethods::Idempotent };

    /// Whether a request that was sent again so often may be once more.
    #[cfg(any(feature = "tower", feature = "reqwest"))]
    pub(super) fn allows(self, method: &str, retries: u32) -> bool {
        let is_one = match self.methods {
            RetryMethods::Idempotent => IDEMPOTENT.contains(&method),
            RetryMethods::All => true,
        };
        is_one && retries < self.times
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { times: RETRIES_DEFAULT, methods: RetryMethods::Idempotent }
    }
}
