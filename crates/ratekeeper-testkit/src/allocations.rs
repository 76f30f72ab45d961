//! Counting allocations, for tests of what should make none.
//!
//! A test program makes [`Counting`] its global allocator; then [`during`] counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting for each thread how often it is asked.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on with the call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on with the call.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How often this thread allocates during `work`. Nothing is counted unless [`Counting`] is the
/// global allocator, which [`assert_counted`] makes sure of.
pub fn during(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// Makes sure that an allocation is seen.
///
/// # Panics
///
/// If it is not.
pub fn assert_counted() {
    let seen = during(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(seen, 1, "`Counting` is not the global allocator");
}
