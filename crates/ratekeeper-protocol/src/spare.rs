//! Room for batches, which threads keep.

use std::cell::Cell;

use ratekeeper::Batch;

thread_local! {
    /// One for each thread rather than each connection, of which there are many more. Boxed, because
    /// it is moved in and out all the time.
    static SPARE: Cell<Option<Box<Batch>>> = const { Cell::new(None) };
}

/// Taken, not borrowed: while one waits for its answers, others come.
#[inline]
#[expect(clippy::unnecessary_box_returns, reason = "it is put back as it is")]
pub(crate) fn take() -> Box<Batch> {
    SPARE.take().unwrap_or_default()
}

#[inline]
pub(crate) fn put_back(batch: Box<Batch>) {
    SPARE.set(Some(batch));
}
