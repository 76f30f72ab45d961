//! A pass: one request may be sent.

use std::sync::Arc;

use tollgate::Nanos;

use super::Core;
#[cfg(feature = "sharing")]
use crate::share::Token;
use crate::{Permit, Response, headers};

/// Stands for one request that may be sent.
///
/// Say [`sent`](Self::sent) right before it is, and [`track`](Self::track) when there is an
/// answer. One that is dropped before it was sent is given back, and the next in line goes. One
/// that is dropped after that, because the answer never came, counts as spent.
#[must_use = "a pass that is dropped is given back"]
pub struct Pass {
    core: Arc<Core>,
    /// None where so many are in flight that no more are tracked.
    permit: Option<Permit>,
    #[cfg(feature = "sharing")]
    token: Option<Token>,
    waited: Nanos,
    is_sent: bool,
}

/// What became of a pass.
pub(super) enum Settled<'a, 'h> {
    Answered { status: u16, said: &'a headers::Said<'h>, body: Option<&'a [u8]> },
    GivenBack,
    Lost,
}

impl Pass {
    pub(super) fn new(core: Arc<Core>, permit: Option<Permit>, waited: Nanos) -> Self {
        Self {
            core,
            permit,
            #[cfg(feature = "sharing")]
            token: None,
            waited,
            is_sent: false,
        }
    }

    #[cfg(feature = "sharing")]
    pub(crate) fn with_token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// The request is sent now. If the pass is dropped from here on, it counts as spent.
    pub fn sent(&mut self) {
        self.is_sent = true;
        if let Some(permit) = &self.permit {
            self.core.sent(permit);
        }
    }

    /// How long it took to get it.
    pub const fn waited(&self) -> Nanos {
        self.waited
    }

    /// The answer came: learns what it says about limits.
    ///
    /// The body is looked at only where the answer refuses the request, as with status 429.
    pub fn track<'h, H>(mut self, response: Response<'_, H>)
    where
        H: IntoIterator<Item = (&'h str, &'h [u8])>,
    {
        // Read before the lock is taken: a header may be long.
        let said = headers::read(response.fields.into_iter(), self.core.now());
        let (status, body) = (response.status, response.body);
        self.settle(&Settled::Answered { status, said: &said, body });
    }

    fn settle(&mut self, how: &Settled<'_, '_>) {
        let permit = self.permit.take();
        #[cfg(feature = "sharing")]
        if let Some(token) = self.token.take() {
            self.core.settle_token(token, matches!(how, Settled::GivenBack));
        }
        if let Some(permit) = permit {
            self.core.settle(permit, how);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let how = if self.is_sent { Settled::Lost } else { Settled::GivenBack };
        self.settle(&how);
    }
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = f.debug_struct("Pass");
        all.field("waited", &self.waited).field("is_sent", &self.is_sent).finish_non_exhaustive()
    }
}
