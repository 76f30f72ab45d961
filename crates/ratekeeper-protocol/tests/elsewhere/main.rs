//! Doors whose buckets are elsewhere: what one read brought takes as few trips as its order allows,
//! and is answered as if its requests had come one by one.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod resp;
mod throttr;
mod udp;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use ratekeeper::Moment;
use ratekeeper::algorithm::Algorithm;
use ratekeeper::store::shared::{BucketNames, SharedStore, Visit, Visiting};
use ratekeeper::store::{MemoryStore, Question, Store as _};

/// A store that is a moment away, and counts who comes.
#[derive(Default)]
struct Elsewhere {
    visits: AtomicUsize,
}

impl Elsewhere {
    fn visits(&self) -> usize {
        self.visits.load(Ordering::Relaxed)
    }
}

impl<A: Algorithm> SharedStore<A> for Elsewhere
where
    Question<A>: Sync,
    A::Outcome: Send,
    MemoryStore<A>: Sync,
{
    fn decide<'a>(&'a self, visit: Visit<'a, A>) -> Visiting<'a> {
        assert!(!visit.questions.is_empty(), "nobody travels with nothing to ask");
        assert_eq!(visit.questions.len(), visit.names.len(), "every bucket has a name");
        self.visits.fetch_add(1, Ordering::Relaxed);
        let Visit { local, questions, outcomes, now, .. } = visit;
        let mut is_there = false;
        Box::pin(async move {
            std::future::poll_fn(|_| {
                let was_there = std::mem::replace(&mut is_there, true);
                if was_there { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            local.decide(questions, outcomes, now);
        })
    }

    fn install(&self, _: &Arc<A::Book>, _: Moment) {}

    fn carry_over(&self, _: &[Question<A>], _: &BucketNames, _: Moment) {}
}

/// What comes of it, and how many trips one after the other it took.
fn travel<T>(future: impl Future<Output = T>) -> (T, usize) {
    let (mut future, mut trips) = (pin!(future), 0);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => return (output, trips),
            Poll::Pending => trips += 1,
        }
    }
}
