//! The busiest ids of a limit, in memory that does not grow: a Space-Saving sketch.
//!
//! So many ids are counted as there is room for. Whoever comes when there is none takes the place of
//! the id that was counted least, and begins with its count, which is kept as the error. So a count is
//! never too low, at most its error too high, and whoever made more than `1 / SKETCH_IDS` of all asks
//! is there.
//!
//! Whoever comes once would only push out others of their kind, so they wait at first: the least count
//! bounds how often they came, also with this ask. Only who comes again, before what is known of it is
//! forgotten, takes a place.
//! Where there are many ids, most asks are of one that comes once: a look at its mark is all they take.

use std::collections::HashMap;

use hashbrown::HashTable;

/// How many ids a sketch counts.
pub(crate) const SKETCH_IDS: usize = 128;
/// How much of an id is kept. Longer ones are cut, and end in `…`.
pub(crate) const ID_TEXT_BYTES_MAX: usize = 128;

const CUT: &str = "…";

/// How many words there are for marks. With more of them, fewer would be taken for somebody else.
const MARK_WORDS: usize = 512;
/// Of fewer than this who were not counted it is not worth while to forget that they came.
const STRANGERS_MIN: usize = 256;

/// Places are kept in a byte.
const _: () = assert!(SKETCH_IDS <= 1 << 8 && ID_TEXT_BYTES_MAX < 1 << 8);

/// Who asked most often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sketch {
    asks: u64,
    ids: Vec<Id>,
    /// From a key to its place in `ids`.
    places: HashTable<u8>,
    /// How often each was counted, the least first.
    counts: Vec<u64>,
    /// Whose count that is: its place in `ids`.
    ranked: Vec<u8>,
    /// The marks of all that are counted, and of who came since they were made: two bits each, where
    /// its key says, which may be others' too.
    marks: Vec<u64>,
    /// How many came since then who were not counted.
    strangers: usize,
}

#[derive(Clone, Debug)]
struct Id {
    key: u128,
    /// How much of its count may be others'.
    error: u64,
    /// Its place in `counts`.
    rank: u8,
    length: u8,
    text: [u8; ID_TEXT_BYTES_MAX],
}

impl Sketch {
    /// Counts an ask of the id with this key. Its text is needed only if it is new here.
    ///
    /// Keys are fingerprints, so their bits are as good as a hash.
    pub(crate) fn count<'a>(&mut self, key: u128, text: impl FnOnce() -> &'a str) {
        self.asks += 1;
        let is_full = self.ids.len() == SKETCH_IDS;
        // Without a mark it did not come since the least count rose, and so less often than that.
        if is_full && !self.mark(key) {
            self.strangers += 1;
            return;
        }
        self.count_marked(key, text);
    }

    /// Counts an ask of an id that may be counted already, or has to be from now on.
    fn count_marked<'a>(&mut self, key: u128, text: impl FnOnce() -> &'a str) {
        let found = self.places.find(hash(key), |place| self.ids[usize::from(*place)].key == key);
        let place = match found.copied() {
            Some(place) => usize::from(place),
            None if self.ids.len() < SKETCH_IDS => self.add(key, text()),
            None => self.replace_least(key, text()),
        };
        self.raise(place);
    }

    /// An id that was not counted yet, behind all others.
    fn add(&mut self, key: u128, text: &str) -> usize {
        let place = self.ids.len();
        for id in &mut self.ids {
            id.rank += 1;
        }
        let mut id = Id { key, error: 0, rank: 0, length: 0, text: [0; ID_TEXT_BYTES_MAX] };
        id.write(text);
        self.ids.push(id);
        self.counts.insert(0, 0);
        self.ranked.insert(0, short(place));
        self.index(key, place);
        place
    }

    fn replace_least(&mut self, key: u128, text: &str) -> usize {
        let place = usize::from(self.ranked[0]);
        let id = &mut self.ids[place];
        let old = self.places.find_entry(hash(id.key), |other| usize::from(*other) == place);
        if let Ok(old) = old {
            old.remove();
        }
        self.strangers += 1;
        // Who is gone keeps its mark: it came as often as the least count says.
        id.key = key;
        id.error = self.counts[0];
        id.write(text);
        self.index(key, place);
        place
    }

    /// Marks a key. Returns whether it was marked.
    #[inline]
    fn mark(&mut self, key: u128) -> bool {
        let (word, bits) = place_of_mark(key);
        let word = &mut self.marks[word];
        let was = *word & bits == bits;
        *word |= bits;
        was
    }

    fn index(&mut self, key: u128, place: usize) {
        if self.places.is_empty() {
            // Room for all, and as much again: so removing and inserting never makes it grow.
            self.places.reserve(2 * SKETCH_IDS, |_| 0);
            self.marks.resize(MARK_WORDS, 0);
        }
        self.mark(key);
        let ids = &self.ids;
        self.places.insert_unique(hash(key), short(place), |it| hash(ids[usize::from(*it)].key));
    }

    /// One more: the id changes places with the last of those that were counted as often as it,
    /// and the counts stay in order.
    fn raise(&mut self, place: usize) {
        let rank = usize::from(self.ids[place].rank);
        let count = self.counts[rank];
        // Whoever is ahead of all others is often alone with its count.
        let last = match self.counts.get(rank + 1) {
            Some(next) if *next == count => self.last_of(rank),
            _ => rank,
        };
        let other = usize::from(self.ranked[last]);
        self.ranked.swap(rank, last);
        self.ids[other].rank = short(rank);
        self.ids[place].rank = short(last);
        self.counts[last] = count + 1;
        if last == 0 {
            self.forget_who_came();
        }
    }

    /// The least count has risen: nobody who is not counted came as often any more. Marks that are kept
    /// for longer are never wrong; they have somebody take a place that need not have.
    fn forget_who_came(&mut self) {
        if self.strangers < STRANGERS_MIN {
            return;
        }
        self.strangers = 0;
        self.marks.fill(0);
        for place in 0..self.ids.len() {
            self.mark(self.ids[place].key);
        }
    }

    /// The last place in `counts` of those that were counted as often as the one there.
    fn last_of(&self, rank: usize) -> usize {
        let counts = &self.counts[rank..];
        rank + counts.partition_point(|other| *other == counts[0]) - 1
    }

    /// What it knows, to be read and added to what others know.
    pub(crate) fn summary(&self) -> Summary {
        let counted = |id: &Id| {
            let count = self.counts[usize::from(id.rank)];
            (id.key, Counted { id: id.text().to_owned(), count, error: id.error })
        };
        let is_full = self.ids.len() == SKETCH_IDS;
        Summary {
            asks: self.asks,
            unlisted: self.counts.first().filter(|_| is_full).copied().unwrap_or(0),
            ids: self.ids.iter().map(counted).collect(),
        }
    }

    /// How much memory it takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<Id>()
            + self.places.allocation_size()
            + self.counts.capacity() * size_of::<u64>()
            + self.ranked.capacity()
            + self.marks.capacity() * size_of::<u64>()
    }
}

impl Id {
    fn write(&mut self, text: &str) {
        let (kept, cut) = if text.len() <= ID_TEXT_BYTES_MAX {
            (text, "")
        } else {
            (&text[..text.floor_char_boundary(ID_TEXT_BYTES_MAX - CUT.len())], CUT)
        };
        let length = kept.len() + cut.len();
        self.text[..kept.len()].copy_from_slice(kept.as_bytes());
        self.text[kept.len()..length].copy_from_slice(cut.as_bytes());
        self.length = short(length);
    }

    fn text(&self) -> &str {
        // What is written there is whole characters.
        str::from_utf8(&self.text[..usize::from(self.length)]).unwrap_or_default()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "half of the bits are enough")]
const fn hash(key: u128) -> u64 {
    key as u64
}

/// Of the other half: in which word, and which bits of it.
#[expect(clippy::cast_possible_truncation, reason = "so few bits are left")]
const fn place_of_mark(key: u128) -> (usize, u64) {
    let half = (key >> 64) as u64;
    let word = ((half as u128 * MARK_WORDS as u128) >> 64) as usize;
    (word, 1 << (half % 64) | 1 << (half / 64 % 64))
}

#[expect(clippy::cast_possible_truncation, reason = "asserted of what is the most")]
const fn short(place: usize) -> u8 {
    place as u8
}

/// An id and how often it was counted: at least `count - error` times, at most `count` times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) id: String,
    pub(crate) count: u64,
    pub(crate) error: u64,
}

/// What one sketch knows, or several together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) asks: u64,
    /// How often an id that is not there was counted at most.
    unlisted: u64,
    ids: HashMap<u128, Counted>,
}

impl Summary {
    /// Adds what another sketch knows of other asks. Who is in one of them only may have been
    /// counted by the other too, as often as those it does not list.
    ///
    /// Nobody is left out: an id that made more than its share of all asks made more than its
    /// share of some sketch's.
    pub(crate) fn add(&mut self, other: Self) {
        for (key, mine) in &mut self.ids {
            if !other.ids.contains_key(key) {
                mine.count += other.unlisted;
                mine.error += other.unlisted;
            }
        }
        for (key, theirs) in other.ids {
            let unlisted = self.unlisted;
            let absent = || Counted { id: theirs.id, count: unlisted, error: unlisted };
            let mine = self.ids.entry(key).or_insert_with(absent);
            mine.count += theirs.count;
            mine.error += theirs.error;
        }
        self.asks += other.asks;
        self.unlisted += other.unlisted;
    }

    /// The `most` that were counted most often, the busiest first.
    pub(crate) fn busiest(self, most: usize) -> Vec<Counted> {
        let mut ids: Vec<Counted> = self.ids.into_values().collect();
        ids.sort_unstable_by(|a, b| {
            b.count.cmp(&a.count).then(a.error.cmp(&b.error)).then_with(|| a.id.cmp(&b.id))
        });
        ids.truncate(most);
        ids
    }
}

#[cfg(test)]
mod tests;
