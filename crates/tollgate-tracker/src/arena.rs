//! Values in numbered slots, where a number that was handed out never means something else later.

/// Where a value is. It finds nothing once the value was removed, whatever took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot {
    index: u32,
    serial: u32,
}

/// Values that are added and removed in any order, each in constant time.
#[derive(Clone, Debug)]
pub(crate) struct Arena<T> {
    cells: Vec<Cell<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Cell<T> {
    serial: u32,
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
    pub(crate) fn insert(&mut self, value: T) -> Option<Slot> {
        if let Some(index) = self.free.pop() {
            let cell = self.cells.get_mut(index as usize)?;
            cell.value = Some(value);
            return Some(Slot { index, serial: cell.serial });
        }
        let index = u32::try_from(self.cells.len()).ok()?;
        self.cells.push(Cell { serial: 0, value: Some(value) });
        Some(Slot { index, serial: 0 })
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let cell = self.cells.get_mut(slot.index as usize)?;
        if cell.serial != slot.serial {
            return None;
        }
        let value = cell.value.take()?;
        cell.serial = cell.serial.wrapping_add(1);
        self.free.push(slot.index);
        Some(value)
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&T> {
        let cell = self.cells.get(slot.index as usize)?;
        if cell.serial == slot.serial { cell.value.as_ref() } else { None }
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let cell = self.cells.get_mut(slot.index as usize)?;
        if cell.serial == slot.serial { cell.value.as_mut() } else { None }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.cells.iter_mut().filter_map(|cell| cell.value.as_mut())
    }
}
