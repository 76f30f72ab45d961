//! Denials that are remembered, so that a flood on one bucket does not reach Redis.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tollgate::Moment;
use tollgate::algorithm::book::{self, Action, Book, BucketCell, Gcra};
use tollgate::algorithm::gcra::{Outcome, Verdict};
use tollgate::store::{Fingerprint, MemoryStore, Question, Secret, Store as _};

/// How much memory they take at most: enough for 300,000.
const DENIALS_BYTES: usize = 16 << 20;

/// Buckets that are known to be empty. While one is, nobody need ask for it: a denial changes
/// nothing, and nobody but a refund, a reset or a new limit makes it end earlier. Of these we hear
/// as long as the connection stands by which the denial came; all are forgotten when it is lost.
pub(super) struct Denials {
    /// What buckets are found by.
    pub(super) secret: Secret,
    cells: ArcSwap<MemoryStore<Gcra>>,
    book: ArcSwap<Book>,
    /// How often something was forgotten. What was under way meanwhile may be out of date.
    forgotten: AtomicU64,
}

impl Denials {
    pub(super) fn new() -> io::Result<Self> {
        let book = Arc::new(Book::default());
        let cells = MemoryStore::new(&book, DENIALS_BYTES)?;
        Ok(Self {
            secret: Secret::random(),
            cells: ArcSwap::from_pointee(cells),
            book: ArcSwap::new(book),
            forgotten: AtomicU64::new(0),
        })
    }

    /// Forgets what is known of one bucket, or of all.
    pub(super) fn forget(&self, name: Option<&[u8]>) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        match name {
            Some(name) => {
                self.cells.load().learn(self.secret.fingerprint(name), None, Moment::EPOCH);
            }
            // Where the system gives no memory, they stay until they end by themselves.
            None => {
                if let Ok(cells) = MemoryStore::new(&self.book.load(), DENIALS_BYTES) {
                    self.cells.store(Arc::new(cells));
                }
            }
        }
    }

    /// The answer to an ask whose bucket is known to be empty.
    pub(super) fn find(
        &self,
        bucket: Fingerprint,
        ask: &book::Ask,
        now: Moment,
    ) -> Option<Outcome> {
        let is_spend =
            matches!(ask.action, Action::CheckAndSpend | Action::CheckOnly | Action::SpendOnly);
        if !is_spend || ask.cost == 0 {
            return None;
        }
        let ask = book::Ask { action: Action::CheckOnly, ..*ask };
        let mut outcome = [Outcome::default()];
        self.cells.load().decide(&[Question { bucket, ask, joined: false }], &mut outcome, now);
        let [outcome] = outcome;
        (outcome.verdict == Verdict::Deny).then_some(outcome)
    }

    /// Remembers a bucket, unless something was forgotten since `forgotten` was read.
    pub(super) fn remember(&self, name: &[u8], cell: BucketCell, forgotten: u64, now: Moment) {
        if self.forgotten() != forgotten {
            return;
        }
        let (cells, bucket) = (self.cells.load(), self.secret.fingerprint(name));
        cells.learn(bucket, Some(cell), now);
        // It may have been this one, just before it was remembered.
        if self.forgotten() != forgotten {
            cells.learn(bucket, None, now);
        }
    }

    /// Brings over to new rules what is remembered.
    pub(super) fn carry_over(&self, at: Moment) {
        self.cells.load().carry_over(&[], at);
    }

    /// How often something was forgotten.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::SeqCst)
    }

    /// Knows these rules from now on.
    pub(super) fn install(&self, book: &Arc<Book>) {
        self.book.store(Arc::clone(book));
        self.cells.load().install(book);
    }
}
