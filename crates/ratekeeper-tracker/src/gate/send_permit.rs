//! A permit: one request may be sent.

use std::sync::Arc;

use ratekeeper_time::Nanos;

use super::Core;
#[cfg(feature = "sharing")]
use crate::share::SharedToken;
use crate::{Reservation, Response, headers};

/// Stands for one request that may be sent.
///
/// Say [`sent`](Self::sent) right before it is, and [`track`](Self::track) when there is an
/// answer. One that is dropped before it was sent is given back, and the next in line goes. One
/// that is dropped after that, because the answer never came, counts as spent.
#[must_use = "a permit that is dropped is given back"]
pub struct SendPermit {
    core: Arc<Core>,
    /// None where so many are in flight that no more are tracked.
    reservation: Option<Reservation>,
    #[cfg(feature = "sharing")]
    token: Option<SharedToken>,
    waited: Nanos,
    is_sent: bool,
}

/// What became of a permit.
pub(super) enum Settled<'a, 'h> {
    Answered { status: u16, said: &'a headers::Said<'h>, body: Option<&'a [u8]> },
    GivenBack,
    Lost,
}

impl SendPermit {
    pub(super) fn new(core: Arc<Core>, reservation: Option<Reservation>, waited: Nanos) -> Self {
        Self {
            core,
            reservation,
            #[cfg(feature = "sharing")]
            token: None,
            waited,
            is_sent: false,
        }
    }

    #[cfg(feature = "sharing")]
    pub(crate) fn with_token(mut self, token: SharedToken) -> Self {
        self.token = Some(token);
        self
    }

    /// The request is sent now. If the permit is dropped from here on, it counts as spent.
    pub fn sent(&mut self) {
        self.is_sent = true;
        if let Some(reservation) = &self.reservation {
            self.core.sent(reservation);
        }
    }

    /// How long it took to get it.
    pub const fn waited(&self) -> Nanos {
        self.waited
    }

    /// The answer came: learns what it says about limits. Whether the API refused the request
    /// because of a limit, so that it may be sent again with another permit.
    ///
    /// The body is looked at only where the answer refuses the request, as with status 429.
    pub fn track<'h, H>(mut self, response: Response<'_, H>) -> bool
    where
        H: IntoIterator<Item = (&'h str, &'h [u8])>,
    {
        // Read before the lock is taken: a header may be long.
        let said = headers::read(response.fields.into_iter(), self.core.now());
        let (status, body) = (response.status, response.body);
        self.settle(&Settled::Answered { status, said: &said, body })
    }

    /// The request was sent before anybody asked.
    #[cfg(feature = "reqwest")]
    pub(super) fn sent_already(mut self) -> Self {
        self.is_sent = true;
        self
    }

    fn settle(&mut self, how: &Settled<'_, '_>) -> bool {
        let reservation = self.reservation.take();
        #[cfg(feature = "sharing")]
        if let Some(token) = self.token.take() {
            self.core.settle_token(token, matches!(how, Settled::GivenBack));
        }
        reservation.is_some_and(|reservation| self.core.settle(reservation, how))
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        let how = if self.is_sent { Settled::Lost } else { Settled::GivenBack };
        self.settle(&how);
    }
}

impl std::fmt::Debug for SendPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = f.debug_struct("SendPermit");
        all.field("waited", &self.waited).field("is_sent", &self.is_sent).finish_non_exhaustive()
    }
}
