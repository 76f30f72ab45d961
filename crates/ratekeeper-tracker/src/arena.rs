//! Values in numbered slots, where a number that was handed out never means something else later.

use std::num::{NonZeroU32, NonZeroU64};

/// Where a value is. It finds nothing once the value was removed, whatever took its place.
///
/// The place is in its upper half, and in the lower a serial number that is never zero. One word
/// travels in a register, and so does one that may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(NonZeroU64);

impl Slot {
    /// The first place of all.
    pub(crate) const FIRST: Self = Self(NonZeroU64::MIN);

    fn new(index: u32, serial: NonZeroU32) -> Self {
        Self(NonZeroU64::from(serial) | u64::from(index) << 32)
    }

    const fn index(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// The same place for another value.
    fn next(self) -> Self {
        let serial = (self.0.get() & 0xffff_ffff) as u32;
        Self::new(self.index(), NonZeroU32::new(serial.wrapping_add(1)).unwrap_or(NonZeroU32::MIN))
    }
}

/// Values that are added and removed in any order, each in constant time.
#[derive(Clone, Debug)]
pub(crate) struct Arena<T> {
    cells: Vec<Cell<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Cell<T> {
    /// Of the value that is here, or of the next one.
    slot: Slot,
    value: Option<T>,
}

impl<T> Arena<T> {
    pub(crate) const fn new() -> Self {
        Self { cells: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len() - self.free.len()
    }

    /// Adds a value; nothing when all of the 2^32 numbers are taken.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> Option<Slot> {
        self.insert_with(|_| value)
    }

    /// Adds a value that knows where it is.
    #[inline]
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(Slot) -> T) -> Option<Slot> {
        if let Some(index) = self.free.pop() {
            let cell = self.cells.get_mut(index as usize)?;
            cell.value = Some(make(cell.slot));
            return Some(cell.slot);
        }
        let index = u32::try_from(self.cells.len()).ok()?;
        let slot = Slot::new(index, NonZeroU32::MIN);
        self.cells.push(Cell { slot, value: Some(make(slot)) });
        Some(slot)
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let cell = self.cells.get_mut(slot.index() as usize)?;
        if cell.slot != slot {
            return None;
        }
        let value = cell.value.take()?;
        cell.slot = slot.next();
        self.free.push(slot.index());
        Some(value)
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&T> {
        let cell = self.cells.get(slot.index() as usize)?;
        if cell.slot == slot { cell.value.as_ref() } else { None }
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let cell = self.cells.get_mut(slot.index() as usize)?;
        if cell.slot == slot { cell.value.as_mut() } else { None }
    }

    /// How many places there are, with values and without.
    pub(crate) fn places(&self) -> usize {
        self.cells.len()
    }

    /// The slot of the value at a place, if there is one.
    pub(crate) fn slot(&self, place: usize) -> Option<Slot> {
        self.cells.get(place).filter(|cell| cell.value.is_some()).map(|cell| cell.slot)
    }

    /// The slots of all values.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.cells.iter().filter(|cell| cell.value.is_some()).map(|cell| cell.slot).collect()
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = (Slot, T)> {
        self.cells.into_iter().filter_map(|cell| Some((cell.slot, cell.value?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.cells.iter().filter_map(|cell| cell.value.as_ref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.cells.iter_mut().filter_map(|cell| cell.value.as_mut())
    }
}

#[cfg(test)]
mod tests;
