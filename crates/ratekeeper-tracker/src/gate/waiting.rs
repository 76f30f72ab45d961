//! Who waits, and how they are told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ratekeeper_time::Moment;
use tokio::sync::oneshot;

use super::{Core, Refused, SendPermit};

type Answer = Result<SendPermit, Refused>;

/// How somebody who waits is told.
pub(crate) enum End {
    /// A task that waits for it.
    Task(oneshot::Sender<Answer>),
    /// A function that is called.
    Callback(Box<dyn FnOnce(Answer) + Send>),
}

impl End {
    /// Whether nobody wants to hear it any more.
    #[cfg(feature = "sharing")]
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Task(sender) if sender.is_closed())
    }

    /// Never call it with the lock held: a permit that nobody takes is given back, which takes it.
    pub(crate) fn tell(self, answer: Answer) {
        match self {
            // Who went away just now leaves the permit to be dropped, and so to the next.
            Self::Task(sender) => drop(sender.send(answer)),
            Self::Callback(callback) => {
                // What is wrong with one must not end the task that serves all.
                if catch_unwind(AssertUnwindSafe(|| callback(answer))).is_err() {
                    tracing::error!("a callback that was handed a permit panicked");
                }
            }
        }
    }
}

/// Somebody in the line of a bucket.
pub(crate) struct Waiter {
    pub(crate) since: Moment,
    pub(crate) deadline: Moment,
    pub(crate) end: End,
}

/// What is to be told to whom, when the lock is free again.
pub(crate) struct Told {
    pub(crate) end: End,
    pub(crate) answer: Answer,
}

/// A task's wait for its turn. Dropped before that, it leaves the line.
pub(crate) struct Waiting {
    pub(super) core: Arc<Core>,
    pub(super) number: u64,
    pub(super) receiver: oneshot::Receiver<Answer>,
    pub(super) is_told: bool,
}

impl Future for Waiting {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = std::task::ready!(Pin::new(&mut self.receiver).poll(context));
        self.is_told = true;
        let answer = answer.unwrap_or(Err(Refused::Closed));
        match &answer {
            Ok(permit) => tracing::debug!(waited = %permit.waited(), "it is its turn"),
            Err(refused) => tracing::debug!(%refused, "it waited in vain"),
        }
        Poll::Ready(answer)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_told {
            return;
        }
        // Closed first: whoever tells it something from here on is told that nobody listens.
        self.receiver.close();
        self.core.leave(self.number);
    }
}
