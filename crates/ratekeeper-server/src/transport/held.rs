//! Answers that are held back until what came to others is read.
//!
//! A client that sleeps is woken by the first answer, which takes longer than writing it. So where
//! buckets are in memory, short answers wait until all connections that had something to read had
//! their turn: who is woken finds the others too.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

/// Longer answers than this are written at once: waking the client is little beside them, and many
/// connections may hold theirs back.
const HELD_BYTES_MAX: usize = 16 << 10;
/// How many buffers for them a worker keeps.
const SPARES_MAX: usize = 256;

/// Empty buffers for answers that are held back.
#[derive(Default)]
pub(super) struct Spares(RefCell<Vec<Vec<u8>>>);

impl Spares {
    /// The answers in a buffer of their own, if they may wait.
    pub(super) fn hold(&self, answers: &[u8]) -> Option<Vec<u8>> {
        if !(1..=HELD_BYTES_MAX).contains(&answers.len()) {
            return None;
        }
        let mut held = self.0.borrow_mut().pop().unwrap_or_default();
        held.reserve_exact(answers.len());
        held.extend_from_slice(answers);
        Some(held)
    }

    pub(super) fn put_back(&self, mut held: Vec<u8>) {
        let mut spares = self.0.borrow_mut();
        if spares.len() < SPARES_MAX {
            held.clear();
            spares.push(held);
        }
    }
}

/// Waits until all tasks that are ready have had their turn. Unlike tokio's `yield_now` it does not ask
/// the system each time who else is.
pub(super) async fn behind_the_others() {
    let mut is_behind = false;
    poll_fn(|context| {
        if is_behind {
            return Poll::Ready(());
        }
        is_behind = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
