//! Asking the processor for memory before it is needed.
//!
//! A decision on one of many keys costs what a load from memory costs. A batch that asks for its
//! lines early waits for several together instead of one after another.
//!
//! Any address will do: one that is not mapped, or no longer, is ignored.

/// Starts loading the cache line at `address`, to be read.
#[inline]
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "no hint here"))]
pub(super) fn to_read(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: PREFETCHT0 is a hint that never faults and changes nothing that a program can
        // observe, whatever the address; the pointer is not dereferenced.
        #[expect(unsafe_code, reason = "batches at 10 million keys take half the time with it")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
        }
    }
}

/// Starts loading the cache line at `address`, to be written. One that another processor wrote last
/// would otherwise be fetched twice: to be read, and then to be written.
#[inline]
#[cfg_attr(
    any(not(target_arch = "x86_64"), miri),
    expect(unused_variables, reason = "no hint here")
)]
pub(super) fn to_write(address: usize) {
    // As an intrinsic it would be the hint above, unless compiled for newer processors only.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHW is a hint as the one above. A processor that does not know it does nothing,
    // or ends the program, as the first of Intel's with 64 bits may.
    #[expect(unsafe_code, reason = "part of what takes a sixth off batches with two threads")]
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}
