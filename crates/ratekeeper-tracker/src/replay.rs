//! Bodies that were read in part and are handed on as if they had not been.
//!
//! What a refusal says of limits is in its body, and the caller wants to read that body too.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::{BODY_BYTES_MAX, Profile};

/// How long is waited for the body of a refusal before it is handed on as it comes.
pub const BODY_WAIT_MAX: Duration = Duration::from_secs(5);
/// The most frames that are read ahead; a body that comes in smaller pieces is not an API's.
const FRAMES_MAX: usize = 1_024;

pin_project! {
    /// A body whose beginning may have been read already. It yields the same frames.
    #[derive(Debug)]
    pub struct Replayed<B: Body> {
        read: VecDeque<Frame<Bytes>>,
        failed: Option<B::Error>,
        is_at_end: bool,
        #[pin]
        rest: B,
    }
}

impl<B: Body> Replayed<B> {
    /// A body of which nothing has been read.
    pub(crate) fn untouched(rest: B) -> Self {
        Self { read: VecDeque::new(), failed: None, is_at_end: false, rest }
    }

    /// Reads the beginning of a body: all of it, unless it is longer than
    /// [`BODY_BYTES_MAX`], or takes longer than [`BODY_WAIT_MAX`]. Also says what it was, if that
    /// is all.
    pub(crate) async fn read(rest: B) -> (Self, Option<Vec<u8>>)
    where
        B: Unpin,
    {
        let mut body = Self::untouched(rest);
        let mut bytes = Vec::new();
        let reading = async {
            while bytes.len() <= BODY_BYTES_MAX && body.read.len() < FRAMES_MAX {
                let next =
                    std::future::poll_fn(|context| Pin::new(&mut body.rest).poll_frame(context));
                match next.await {
                    Some(Ok(frame)) => {
                        let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
                        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                        body.read.push_back(frame);
                    }
                    Some(Err(error)) => {
                        body.failed = Some(error);
                        break;
                    }
                    None => {
                        body.is_at_end = true;
                        break;
                    }
                }
            }
        };
        // What was read by then is kept either way.
        let _ = tokio::time::timeout(BODY_WAIT_MAX, reading).await;
        let whole = body.is_at_end.then_some(bytes);
        (body, whole)
    }
}

impl<B: Body> Body for Replayed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if let Some(frame) = this.read.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(error) = this.failed.take() {
            *this.is_at_end = true;
            return Poll::Ready(Some(Err(error)));
        }
        if *this.is_at_end {
            return Poll::Ready(None);
        }
        let frame = std::task::ready!(this.rest.poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
        }))
    }

    fn is_end_stream(&self) -> bool {
        let none_is_left = self.read.is_empty() && self.failed.is_none();
        none_is_left && (self.is_at_end || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        if self.is_at_end {
            return SizeHint::with_exact(read);
        }
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
            hint.set_upper(upper);
        }
        hint
    }
}

/// Whether the body of a response may say something of limits.
pub(crate) fn may_speak(profile: &Profile, status: u16) -> bool {
    status == 429 || status == 403 && profile.forbidden_is_limited
}

#[cfg(test)]
mod tests;
