//! Bringing the id of an ask to its one spelling allocates nothing, whatever the id is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tollgate::limits::{IdBuffer, IdFormat};

/// The system's allocator, counting for each thread how often it is asked.
struct Counting;

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

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn the_count_sees_an_allocation() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn no_id_allocates() {
    let names: Vec<_> = (0..100).rev().map(|n| format!("HOST{n}.example.com")).collect();
    let set = format!("007:{}", names.join(","));
    for (format, id) in [
        (IdFormat::Any, "anybody"),
        (IdFormat::IpAddress, "10.0.0.1"),
        (IdFormat::IpAddress, "2001:0DB8::1"),
        (IdFormat::IpAddress, "::ffff:10.0.0.1"),
        (IdFormat::Ipv6Range, "2001:0DB8::1"),
        (IdFormat::RegId, "0012345678"),
        (IdFormat::RegIdDomain, "12:example.com"),
        (IdFormat::RegIdDomain, "0012:Example.COM"),
        (IdFormat::RegIdFqdnSet, &set),
    ] {
        let count = allocations(|| {
            format.canonical(id, &mut IdBuffer::new()).map(str::len).unwrap();
        });
        assert_eq!(count, 0, "{format} {id}");
    }
}

#[test]
fn no_refusal_allocates() {
    for format in IdFormat::ALL {
        for id in ["", "x y", "1:x", "1:example.nosuch", "2001:db8::/47", &"x".repeat(600)] {
            let count = allocations(|| {
                let _ = format.canonical(id, &mut IdBuffer::new()).is_ok();
            });
            assert_eq!(count, 0, "{format} {id}");
        }
    }
}
