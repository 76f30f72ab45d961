//! Room for what comes one by one and stays where it is.

use std::sync::OnceLock;

/// How many places come into being at a time.
const CHUNK: usize = 1 << 10;
const CHUNKS: usize = 1 << 6;

/// A row of [`Shelf::PLACES`] places, each of which is filled once. Whoever looks waits for nobody,
/// and memory is only taken for places near those that are filled.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    chunks: [OnceLock<Box<[OnceLock<T>]>>; CHUNKS],
}

impl<T> Shelf<T> {
    /// How many places there are.
    pub(super) const PLACES: usize = CHUNK * CHUNKS;

    /// What is in a place.
    #[inline]
    pub(super) fn find(&self, place: usize) -> Option<&T> {
        self.chunks.get(place / CHUNK)?.get()?.get(place % CHUNK)?.get()
    }

    /// What is in a place, which is what `make` makes if it was empty. None where there is no such
    /// place.
    pub(super) fn find_or_put(&self, place: usize, make: impl FnOnce() -> T) -> Option<&T> {
        let chunk = self.chunks.get(place / CHUNK)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        Some(chunk.get(place % CHUNK)?.get_or_init(make))
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }
}
