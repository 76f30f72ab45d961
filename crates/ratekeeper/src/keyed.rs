//! The front for doors whose clients name their own keys: decaying averages, quotas, and buckets whose rules
//! come with the asks.
//!
//! ```
//! use ratekeeper::algorithm::average::{Average, Outcome, Rule};
//! use ratekeeper::{Keyed, Moment};
//!
//! let averages = Keyed::<Average>::new(1 << 20)?;
//! let rule = Rule::new(22.0, 20.0, true)?;
//! let question = averages.question(&[b"ws ip=10.0.0.1"], rule);
//! let mut outcomes = [Outcome::default()];
//! averages.decide(&[question], &mut outcomes, Moment::from_nanos(0));
//! assert!(!outcomes[0].over);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};

use crate::Moment;
use crate::algorithm::Algorithm;
use crate::limiter::AlreadyShared;
use crate::store::saved::{Kept, Reader, RestoreError, Saved, Writer};
use crate::store::shared::{BucketNames, SharedStore, Visit};
use crate::store::{Fingerprint, Held, Holding, MemoryStore, Question, Seal, Secret, Store};

/// Buckets of one algorithm, each under a key that is any bytes.
///
/// Any number of threads may ask at once. Unlike a [`Limiter`](crate::Limiter) it knows no names:
/// every ask brings its own rule.
pub struct Keyed<A: Algorithm<Book = ()>> {
    store: MemoryStore<A>,
    seal: Seal,
    /// What decides in place of `store`, if the buckets are shared.
    shared: OnceLock<Arc<dyn SharedStore<A>>>,
}

impl<A: Algorithm<Book = ()>> Keyed<A> {
    /// Buckets that never take more than about `memory` bytes. Fails where the system will not
    /// reserve them.
    pub fn new(memory: usize) -> io::Result<Self> {
        Self::with_secret(memory, Secret::random())
    }

    /// Buckets that are kept under a secret of the caller's choice.
    pub fn with_secret(memory: usize, secret: Secret) -> io::Result<Self> {
        Ok(Self::of(MemoryStore::new(&Arc::new(()), memory)?, secret))
    }

    /// Times may step back from now on, as recorded ones do: a bucket stays until memory is full.
    pub fn expect_steps_back(&self) {
        self.store.expect_steps_back();
    }

    fn of(store: MemoryStore<A>, secret: Secret) -> Self {
        Self { store, seal: secret.seal(), shared: OnceLock::new() }
    }

    /// Has the buckets decided by `store`, which others share. They are then asked through
    /// [`decide_wherever`](Self::decide_wherever); [`decide`](Self::decide) asks this process's
    /// memory alone. Refuses a second store.
    pub fn share(&self, store: Arc<dyn SharedStore<A>>) -> Result<(), AlreadyShared> {
        self.shared.set(store).map_err(|_| AlreadyShared)
    }

    /// Whether answers may have to be waited for; only then need questions have names.
    pub fn waits(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Answers every question wherever the buckets are: in memory at once, and then their names do
    /// not matter; in a store that is shared as soon as that answers.
    pub async fn decide_wherever(
        &self,
        questions: &[Question<A>],
        names: &BucketNames,
        outcomes: &mut [A::Outcome],
        now: Moment,
    ) {
        match self.shared.get() {
            None => self.decide(questions, outcomes, now),
            Some(_) if questions.is_empty() => {}
            Some(shared) => {
                let local = &self.store;
                shared.decide(Visit { local, questions, names, outcomes, now }).await;
            }
        }
    }

    /// An ask of the bucket under a key. A key has one or more parts; where one ends and the next
    /// begins makes a difference.
    #[inline]
    pub fn question(&self, key: &[&[u8]], ask: A::Ask) -> Question<A> {
        Question { bucket: self.fingerprint(key), ask, joined: false }
    }

    /// What the bucket under a key is kept under, for a caller that keeps something else beside it.
    #[inline]
    pub fn fingerprint(&self, key: &[&[u8]]) -> Fingerprint {
        self.seal.fingerprint_of_parts(key)
    }

    /// Answers every question, in order, as [`Store::decide`] says.
    #[inline]
    pub fn decide(&self, questions: &[Question<A>], outcomes: &mut [A::Outcome], now: Moment) {
        self.store.decide(questions, outcomes, now);
    }

    /// Saves every bucket that is not idle at `at`, as one section, while asks go on. Fails where
    /// `to` does.
    ///
    /// Each bucket is saved as it was at one moment during the call. What is saved includes the
    /// secret that fingerprints are keyed by, so nobody else should be able to read it.
    pub fn save<W: Write>(&self, to: &mut Writer<W>, at: Moment) -> io::Result<Saved>
    where
        A: Kept,
    {
        let before = to.written();
        to.begin(A::SECTION);
        to.secret(self.seal.secret())?;
        let buckets = to.cells(&self.store, at)?;
        to.end()?;
        Ok(Saved { buckets, bytes: to.written().saturating_sub(before) })
    }

    /// The buckets that were saved in the section `from` has found. They never take more than about
    /// `memory` bytes; if more were saved, those that matter least are forgotten, and counted.
    /// Refuses what is damaged, and then restores nothing.
    ///
    /// A [`Moment`] has to mean the same as when they were saved.
    pub fn restore<R: Read>(
        memory: usize,
        from: &mut Reader<R>,
        at: Moment,
    ) -> Result<Self, RestoreError>
    where
        A: Kept,
    {
        from.begin(A::SECTION)?;
        let secret = from.secret()?;
        let store = from.cells(&Arc::new(()), memory, at)?;
        from.end()?;
        Ok(Self::of(store, secret))
    }

    /// What each owner of buckets holds now, and what became of its buckets for want of memory.
    pub fn holdings(&self) -> Vec<Holding> {
        self.store.holdings()
    }

    /// How many buckets are in memory, and what was lost for want of it.
    pub fn held(&self) -> Held {
        self.store.held()
    }
}
