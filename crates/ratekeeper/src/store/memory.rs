//! The store in this process's memory.

mod room;
mod walk;

use std::convert::identity;
use std::io;
use std::sync::Arc;

use smallvec::SmallVec;

use super::hints::Hints;
use super::prefetch;
use super::shard_memory::{ShardMemory, Slot};
use super::shares::Shares;
use super::sync::{Guard, Lock};
use super::table::{Place, SLOTS_MIN, ShardTable, Tally};
use super::{Fingerprint, Question, Store};
use crate::Moment;
use crate::algorithm::{Algorithm, Change};

/// The least memory a store can be given.
pub const MEMORY_MIN: usize = 1 << 20;
/// How much of the memory one shard gets; what a growing shard moves in one go.
const SHARD_BYTES: usize = 1 << 21;
const SHARDS_MIN: usize = 16;
const SHARDS_MAX: usize = 4096;
/// How many questions ahead the memory of a bucket is asked for. Asking for that of a whole batch at
/// once takes longer.
const AHEAD: usize = 8;
const CACHE_LINE_BYTES: usize = 64;
/// How many cache lines behind that of a key's home are asked for, if it is asked for alone: it often
/// stands a slot or two behind.
const LINES_BEHIND: usize = 1;
/// The same for one of a batch, which has the time to look farther. With more lines a processor has more
/// under way than it keeps count of, and waits.
const BATCH_LINES_BEHIND: usize = 2;
/// How many asks of one transaction are kept on the stack; a limiter allows no more.
const INLINE: usize = 256;

/// Buckets in memory, for any number of threads.
///
/// All memory it will ever use is reserved when it is made, and taken from the system only as
/// keys come. When all of it is taken, each owner of keys has a share: `store/shares.rs` says how large
/// that is, and `store/table/search.rs` which key is forgotten for a new one.
pub struct MemoryStore<A: Algorithm> {
    shards: Box<[Shard<A>]>,
    hints: Hints<A>,
    shares: Arc<Shares>,
}

/// On cache lines of its own, so that shards do not disturb each other. What every ask needs is in
/// the first.
#[repr(align(128))]
struct Shard<A: Algorithm>(Lock<Inside<A>>);

#[repr(C)]
struct Inside<A: Algorithm> {
    book: Arc<A::Book>,
    table: ShardTable<A>,
    /// Cells may be under rules that have successors.
    is_stale: bool,
}

/// All that is in one cache line; the lock stands before what it guards.
#[cfg(not(feature = "shuttle"))]
const _: () = {
    use crate::algorithm::book::Gcra;
    let lock = size_of::<Lock<Inside<Gcra>>>() - size_of::<Inside<Gcra>>();
    let table = std::mem::offset_of!(Inside<Gcra>, table);
    assert!(lock + table + ShardTable::<Gcra>::HOT_BYTES <= CACHE_LINE_BYTES);
};

/// What a store holds, and what became of keys for want of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many keys are in memory, also those that may be forgotten for free.
    pub keys: usize,
    /// How much memory they take.
    pub bytes: usize,
    /// How much memory keys can take.
    pub bytes_max: usize,
    /// What was lost.
    pub tally: Tally,
}

impl<A: Algorithm> MemoryStore<A> {
    /// A store that never takes more than about `memory` bytes. Fails where the system will not
    /// reserve them.
    pub fn new(book: &Arc<A::Book>, memory: usize) -> io::Result<Self> {
        let memory = memory.max(MEMORY_MIN);
        let count = (memory / SHARD_BYTES).clamp(SHARDS_MIN, SHARDS_MAX).next_power_of_two();
        let slots = (memory / count / ShardMemory::<A>::SLOT_BYTES).max(SLOTS_MIN);
        let first = ShardMemory::reserve(count, slots)?;
        let shares = Arc::new(Shares::new(count * ShardTable::<A>::keys_max(slots)));
        let shard = |number| Shard::new(book, first.of_shard(number), slots, &shares);
        let store = Self {
            shards: (0..count).map(shard).collect(),
            hints: Hints::new(first, count),
            shares,
        };
        for (number, shard) in store.shards.iter().enumerate() {
            store.hints.tell(number, &shard.0.lock().table);
        }
        Ok(store)
    }

    /// Times may step back from now on, as recorded ones do. Then a bucket stays until memory is full:
    /// at an earlier moment one that is full now was not, and its absence would change the answer.
    pub fn expect_steps_back(&self) {
        for shard in &self.shards {
            shard.0.lock().table.expect_steps_back();
        }
    }

    /// What it holds now.
    pub fn held(&self) -> Held {
        let mut held = Held::default();
        for shard in &self.shards {
            let inside = shard.0.lock();
            let tally = inside.table.tally();
            held.keys += inside.table.len();
            held.bytes += inside.table.len() * ShardMemory::<A>::SLOT_BYTES;
            held.bytes_max += inside.table.capacity_max() * ShardMemory::<A>::SLOT_BYTES;
            held.tally.evicted += tally.evicted;
            held.tally.tokens_forgiven += tally.tokens_forgiven;
            held.tally.turned_away += tally.turned_away;
        }
        held
    }

    /// What `look` makes of a bucket as it is. It holds a lock, so it should take little time.
    pub fn look<T>(
        &self,
        bucket: Fingerprint,
        look: impl FnOnce(&A::Book, Option<A::Cell>) -> T,
    ) -> T {
        let inside = self.shard_of(bucket).0.lock();
        match inside.table.find(bucket.get()) {
            Place::At(slot) => look(&inside.book, Some(inside.table.cell(slot))),
            Place::Absent => look(&inside.book, None),
        }
    }

    /// [`Store::decide`] for one question, unless the book is another than whoever asks goes by.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "returned through memory it takes half as long again")]
    pub(crate) fn decide_if<T>(
        &self,
        question: &Question<A>,
        now: Moment,
        is_current: impl FnOnce(&A::Book) -> bool,
        tell: impl Fn(A::Outcome) -> T,
    ) -> Option<T> {
        let inside = self.shard_of(question.bucket).0.lock();
        let is_current = is_current(&inside.book);
        is_current.then(|| self.answer(inside, question, now, ShardTable::slot_of, tell))
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Copies all buckets of a shard in place of what `to` held, to be read by the book it returns.
    /// Nothing else is done while the lock is held.
    pub(super) fn copy_shard(&self, shard: usize, to: &mut Vec<(u128, A::Cell)>) -> Arc<A::Book> {
        to.clear();
        let inside = self.shards[shard].0.lock();
        to.extend(inside.table.cells());
        Arc::clone(&inside.book)
    }

    /// Whether a shard, one like the other, has memory for so many buckets.
    pub(super) fn fits(&self, buckets: usize) -> bool {
        self.shards.first().is_some_and(|shard| shard.0.lock().table.fits(buckets))
    }

    /// Puts a bucket back that was saved, one of about `expected` in its shard. Refuses one that is
    /// there already.
    pub(super) fn put_back(
        &self,
        bucket: Fingerprint,
        cell: A::Cell,
        expected: usize,
        now: Moment,
    ) -> bool {
        let key = bucket.get();
        let mut inside = self.shard_of(bucket).0.lock();
        let Inside { table, book, .. } = &mut *inside;
        if table.find(key) != Place::Absent {
            return false;
        }
        table.expect(expected);
        table.put_back(book, key, cell, now);
        self.hints.tell(self.shard(bucket.upper()), table);
        drop(inside);
        self.keep_shares();
        true
    }

    /// Asks for all that a decision on a bucket needs, on its own.
    #[inline]
    pub(crate) fn touch_one(&self, question: &Question<A>) {
        self.touch(question.bucket.upper(), LINES_BEHIND);
    }

    /// Asks for the memory of a bucket that will be asked for as one of a batch, at this place in it,
    /// if it is one of the first: for these there would be nothing to do meanwhile.
    #[inline]
    pub(crate) fn expect(&self, place: usize, bucket: Fingerprint) {
        if place < AHEAD {
            self.touch(bucket.upper(), BATCH_LINES_BEHIND);
        }
    }

    /// [`Store::decide`] for a batch whose buckets were [expected](Self::expect).
    pub(crate) fn decide_expected(
        &self,
        questions: &[Question<A>],
        outcomes: &mut [A::Outcome],
        now: Moment,
    ) {
        debug_assert_eq!(questions.len(), outcomes.len());
        let touch =
            |question: &Question<A>| self.touch(question.bucket.upper(), BATCH_LINES_BEHIND);
        let mut place = 0;
        while let (Some(question), Some(outcome)) = (questions.get(place), outcomes.get_mut(place))
        {
            let mut next = place + 1;
            if let Some(ahead) = questions.get(place + AHEAD) {
                touch(ahead);
            }
            if questions.get(next).is_some_and(|next| next.joined) {
                next += questions[next..].iter().take_while(|question| question.joined).count();
                let ahead = questions.iter().take(next + AHEAD).skip(place + 1 + AHEAD);
                ahead.for_each(touch);
                self.transact(&questions[place..next], &mut outcomes[place..next], now);
            } else {
                let inside = self.shard_of(question.bucket).0.lock();
                *outcome = self.answer(inside, question, now, ShardTable::slot_soon, identity);
            }
            place = next;
        }
    }

    #[inline]
    fn touch(&self, upper: u64, lines: usize) {
        let shard = self.shard(upper);
        prefetch::to_write(std::ptr::from_ref(&self.shards[shard]).addr());
        let address = self.hints.address(shard, upper);
        prefetch::to_write(address);
        for line in 1..=lines {
            prefetch::to_read(address + line * CACHE_LINE_BYTES);
        }
    }

    #[inline]
    fn shard_of(&self, bucket: Fingerprint) -> &Shard<A> {
        &self.shards[self.shard(bucket.upper())]
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are not so many shards")]
    fn shard(&self, upper: u64) -> usize {
        upper as usize & (self.shards.len() - 1)
    }

    /// Decides a transaction over several buckets.
    fn transact(&self, questions: &[Question<A>], outcomes: &mut [A::Outcome], now: Moment) {
        // Filled where they stand: one that is collected is copied, with all its room.
        let mut shards: SmallVec<[usize; INLINE]> = SmallVec::new();
        shards.extend(questions.iter().map(|question| self.shard(question.bucket.upper())));
        // Everyone locks in this order, so nobody waits in a circle.
        shards.sort_unstable();
        shards.dedup();
        let mut locked: SmallVec<[Guard<'_, Inside<A>>; INLINE]> = SmallVec::new();
        locked.extend(shards.iter().map(|&shard| self.shards[shard].0.lock()));
        let position = |question: &Question<A>| {
            shards.binary_search(&self.shard(question.bucket.upper())).unwrap_or_default()
        };

        let mut changes: SmallVec<[Change<A::Cell>; INLINE]> = SmallVec::new();
        let (mut vetoed, mut is_new) = (false, false);
        for (question, outcome) in questions.iter().zip(&mut *outcomes) {
            let (change, place);
            (*outcome, change, place) = locked[position(question)].decide(question, now);
            vetoed |= A::vetoes(&question.ask, outcome);
            is_new |= place == Place::Absent;
            changes.push(change);
        }
        if is_new {
            let asked = questions.iter().zip(&mut *outcomes).zip(&mut changes);
            vetoed = room::make_room_for_all(asked, &mut locked, position, vetoed, now);
        }
        for (question, &change) in questions.iter().zip(&changes) {
            let (inside, key) = (&mut locked[position(question)], question.bucket.get());
            if vetoed && matches!(change, Change::Put(_)) {
                // Nothing is taken, but it was asked: if by a new rule, it has that from now on.
                inside.carry_over(question, now);
            } else if !vetoed || matches!(change, Change::Mark(_)) {
                // Another change may have moved it since it was found.
                let place = inside.table.find(key);
                inside.apply(key, place, change, now);
            }
        }
        for (shard, inside) in shards.iter().zip(&locked) {
            self.hints.tell(*shard, &inside.table);
        }
        drop(locked);
        self.keep_shares();
    }

    /// Decides a transaction over this one bucket. An ask that is denied changes nothing by
    /// itself, so there is nothing to take back.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "returned through memory it takes half as long again")]
    fn answer<T>(
        &self,
        inside: Guard<'_, Inside<A>>,
        question: &Question<A>,
        now: Moment,
        find: impl FnOnce(&ShardTable<A>, u128) -> Option<Slot<'_, A>>,
        tell: impl Fn(A::Outcome) -> T,
    ) -> T {
        let slot = find(&inside.table, question.bucket.get());
        // Each on its own, for the same reason.
        match slot.and_then(|slot| renew(&slot, &inside.book, question, now)) {
            Some(outcome) => tell(outcome),
            None => tell(self.answer_any(inside, Question { ..*question }, now)),
        }
    }

    /// The way of every ask, under the lock that is held already.
    #[inline(never)]
    #[expect(clippy::needless_pass_by_value, reason = "a reference keeps it in memory for others")]
    fn answer_any(
        &self,
        mut inside: Guard<'_, Inside<A>>,
        question: Question<A>,
        now: Moment,
    ) -> A::Outcome {
        let (outcome, change, place) = inside.decide(&question, now);
        let found = match place {
            Place::Absent => inside.room_for(&question, &outcome, &change, std::iter::empty, now),
            Place::At(_) => None,
        };
        let Some(found) = found else {
            inside.apply(question.bucket.get(), place, change, now);
            return outcome;
        };
        let outcome = match found {
            Ok(room) => {
                inside.put_new(&question, change, room, now);
                self.hints.tell(self.shard(question.bucket.upper()), &inside.table);
                outcome
            }
            Err(away) => {
                inside.count_turned_away(&question, &change);
                away
            }
        };
        drop(inside);
        self.keep_shares();
        outcome
    }
}

impl<A: Algorithm> Store<A> for MemoryStore<A> {
    fn decide(&self, questions: &[Question<A>], outcomes: &mut [A::Outcome], now: Moment) {
        let first = questions.iter().take(AHEAD).enumerate();
        first.for_each(|(place, question)| self.expect(place, question.bucket));
        self.decide_expected(questions, outcomes, now);
    }

    fn install(&self, book: &Arc<A::Book>) {
        // All shards have the same, so this takes the time of one comparison.
        let before = self.book();
        let differ = A::differ(&before, book);
        for shard in &self.shards {
            let mut inside = shard.0.lock();
            inside.is_stale |= differ;
            inside.book = Arc::clone(book);
        }
        self.shares.expire();
        self.keep_shares();
    }

    fn carry_over(&self, moved: &[Question<A>], at: Moment) {
        // Before the others: what has an override now was not for a moment under a default that
        // came at the same time.
        for question in moved {
            self.shard_of(question.bucket).0.lock().carry_over(question, at);
        }
        for shard in &self.shards {
            let mut inside = shard.0.lock();
            if std::mem::take(&mut inside.is_stale) {
                let Inside { table, book, .. } = &mut *inside;
                table.rewrite(book, |cell| A::carry_over(book, cell, None, at));
            }
        }
    }
}

impl<A: Algorithm> Shard<A> {
    fn new(
        book: &Arc<A::Book>,
        memory: ShardMemory<A>,
        slots: usize,
        shares: &Arc<Shares>,
    ) -> Self {
        let (book, table) = (Arc::clone(book), ShardTable::new(memory, slots, Arc::clone(shares)));
        Self(Lock::new(Inside { book, table, is_stale: false }))
    }
}

/// The answer where nothing has to be made, moved or looked up again.
#[inline(always)]
#[expect(clippy::inline_always, reason = "returned through memory it takes half as long again")]
fn renew<A: Algorithm>(
    slot: &Slot<'_, A>,
    book: &A::Book,
    question: &Question<A>,
    now: Moment,
) -> Option<A::Outcome> {
    let (outcome, renewed) = A::renew(book, slot.cell(), &question.ask, now)?;
    slot.set_cell(renewed);
    Some(outcome)
}

impl<A: Algorithm> Inside<A> {
    /// The answer, what is to become of the cell, and where it is.
    fn decide(
        &mut self,
        question: &Question<A>,
        now: Moment,
    ) -> (A::Outcome, Change<A::Cell>, Place) {
        let key = question.bucket.get();
        let place = self.table.find(key);
        let cell = match place {
            Place::At(slot) => Some(self.table.cell(slot)),
            Place::Absent => None,
        };
        let (outcome, change) = A::decide(&self.book, cell, &question.ask, now);
        (outcome, change, place)
    }

    #[inline]
    fn apply(&mut self, key: u128, place: Place, change: Change<A::Cell>, now: Moment) {
        match (change, place) {
            (Change::Put(cell) | Change::Mark(cell), Place::At(slot)) => {
                self.table.set_cell(&self.book, slot, cell);
            }
            (Change::Put(cell), Place::Absent) => {
                self.table.insert(&self.book, key, cell, now);
            }
            (Change::Remove, Place::At(slot)) => self.table.remove(&self.book, slot),
            (Change::Keep, _) | (Change::Remove | Change::Mark(_), Place::Absent) => {}
        }
    }

    fn carry_over(&mut self, question: &Question<A>, at: Moment) {
        if let Place::At(slot) = self.table.find(question.bucket.get()) {
            let cell = self.table.cell(slot);
            let cell = A::carry_over(&self.book, cell, Some(&question.ask), at);
            self.table.set_cell(&self.book, slot, cell);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
