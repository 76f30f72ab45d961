//! Denials that are remembered, so that a flood on one bucket does not reach Redis.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use ratekeeper::Moment;
use ratekeeper::algorithm::Algorithm;
use ratekeeper::algorithm::book::{self, Book, Gcra};
use ratekeeper::algorithm::gcra::{Outcome, Verdict};
use ratekeeper::algorithm::inline_rule::{self, InlineCell, InlineGcra};
use ratekeeper::algorithm::tokens::Action;
use ratekeeper::store::{Fingerprint, MemoryStore, Seal, Secret, Store as _};

use crate::node::Heard;

/// How much memory those of one kind take at most: enough for 390,000 buckets of limits, or for 260,000 keys
/// whose rules come with the asks.
const DENIALS_BYTES: usize = 16 << 20;

/// Buckets that are known to be empty. While one is, nobody need ask for it: a denial changes
/// nothing, and nobody but a refund, a reset or a new limit makes it end earlier. All are forgotten
/// when nobody hears of these any more, and none is remembered.
pub(super) struct Denials<A: Tokens> {
    /// What buckets are found by.
    pub(super) seal: Seal,
    cells: ArcSwap<MemoryStore<A>>,
    /// Those that `cells` has. Whoever replaces one of the two holds it.
    book: Mutex<Arc<A::Book>>,
    /// How many connections hear what changes.
    listening: AtomicUsize,
    /// How often something was forgotten: all of them, and those of a part of all buckets. What was
    /// under way meanwhile may be out of date.
    all_forgotten: AtomicU64,
    forgotten: Box<[AtomicU64]>,
}

/// How many parts of all buckets are told apart where something was forgotten.
const PARTS: usize = 1024;

#[cfg(test)]
mod tests;

/// An algorithm whose denials end by themselves.
pub(super) trait Tokens: Algorithm<Outcome = Outcome, Book: Default> {
    /// Whether it asks for tokens; and the ask that only looks whether they are there.
    fn look(ask: &Self::Ask) -> Option<Self::Ask>;

    /// Whether a bucket that is known is one that the ask is decided by.
    fn is_known(_cell: &Self::Cell, _ask: &Self::Ask) -> bool {
        true
    }
}

fn is_spend(action: Action, cost: u64) -> bool {
    !matches!(action, Action::Refund | Action::Reset) && cost > 0
}

impl Tokens for Gcra {
    fn look(ask: &book::Ask) -> Option<book::Ask> {
        let look = book::Ask { action: Action::CheckOnly, ..*ask };
        is_spend(ask.action, ask.cost).then_some(look)
    }
}

impl Tokens for InlineGcra {
    fn look(ask: &inline_rule::Ask) -> Option<inline_rule::Ask> {
        let look = inline_rule::Ask { action: Action::CheckOnly, ..*ask };
        is_spend(ask.action, ask.cost).then_some(look)
    }

    /// By another rule tokens come back at another rate, from when Redis hears of that rule on.
    fn is_known(cell: &InlineCell, ask: &inline_rule::Ask) -> bool {
        cell.rule() == ask.rule
    }
}

impl<A: Tokens> Denials<A> {
    pub(super) fn new() -> io::Result<Self> {
        let book = Arc::new(A::Book::default());
        let cells = MemoryStore::new(&book, DENIALS_BYTES)?;
        Ok(Self {
            seal: Secret::random().seal(),
            cells: ArcSwap::from_pointee(cells),
            book: Mutex::new(book),
            listening: AtomicUsize::new(0),
            all_forgotten: AtomicU64::new(0),
            forgotten: (0..PARTS).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Forgets what is over.
    pub(super) fn hear(&self, heard: Heard<'_>) {
        match heard {
            Heard::Changed(name) => self.forget(name),
            Heard::Began => {
                self.forget_all();
                self.listening.fetch_add(1, Ordering::SeqCst);
            }
            Heard::Ended => {
                self.listening.fetch_sub(1, Ordering::SeqCst);
                self.forget_all();
            }
        }
    }

    /// Forgets what is known of one bucket.
    pub(super) fn forget(&self, name: &[u8]) {
        let bucket = self.seal.fingerprint(name);
        self.part(bucket).fetch_add(1, Ordering::SeqCst);
        self.cells.load().learn(bucket, None, Moment::EPOCH);
    }

    fn forget_all(&self) {
        let book = self.book.lock();
        self.all_forgotten.fetch_add(1, Ordering::SeqCst);
        // Where the system gives no memory, they stay until they end by themselves.
        if let Ok(cells) = MemoryStore::new(&book, DENIALS_BYTES) {
            self.cells.store(Arc::new(cells));
        }
    }

    fn part(&self, bucket: Fingerprint) -> &AtomicU64 {
        &self.forgotten[usize::try_from(bucket.get() >> 64).unwrap_or_default() % PARTS]
    }

    /// The answer to an ask whose bucket is known to be empty.
    pub(super) fn find(&self, bucket: Fingerprint, ask: &A::Ask, now: Moment) -> Option<Outcome> {
        let look = A::look(ask)?;
        let outcome = self.cells.load().look(bucket, |book, cell| {
            let cell = cell.filter(|cell| A::is_known(cell, ask))?;
            Some(A::decide(book, Some(cell), &look, now).0)
        })?;
        (outcome.verdict == Verdict::Deny).then_some(outcome)
    }

    /// Remembers a bucket, unless something of it was forgotten since `forgotten` was read, or
    /// nobody would hear of it.
    pub(super) fn remember(&self, name: &[u8], cell: A::Cell, forgotten: u64, now: Moment) {
        let bucket = self.seal.fingerprint(name);
        if self.listening.load(Ordering::SeqCst) == 0 || self.forgotten(bucket) != forgotten {
            return;
        }
        let cells = self.cells.load();
        cells.learn_newest(bucket, cell, now);
        // It may have been this one, just before it was remembered.
        if self.forgotten(bucket) != forgotten {
            cells.learn(bucket, None, now);
        }
    }

    /// How often something was forgotten that may be of this bucket.
    pub(super) fn forgotten(&self, bucket: Fingerprint) -> u64 {
        // Both only grow, so the sum is the same only if both are.
        let all = self.all_forgotten.load(Ordering::SeqCst);
        all.wrapping_add(self.part(bucket).load(Ordering::SeqCst))
    }
}

impl Denials<Gcra> {
    /// Brings over to new rules what is remembered.
    pub(super) fn carry_over(&self, at: Moment) {
        self.cells.load().carry_over(&[], at);
    }

    /// Knows these rules from now on.
    pub(super) fn install(&self, book: &Arc<Book>) {
        let mut known = self.book.lock();
        let cells = self.cells.load();
        if book.has_lost_since(&known) {
            // Under their numbers there may soon be other rules.
            self.all_forgotten.fetch_add(1, Ordering::SeqCst);
            cells.remove_where(Moment::EPOCH, |cell, _| book.rule(cell.rule()).is_none());
        }
        *known = Arc::clone(book);
        cells.install(book);
    }
}
