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

/// What this processor offers to load a cache line that is going to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteHint {
    /// The first Intel processors with 64 bits do not know PREFETCHW, and may end a program that has it.
    #[cfg_attr(any(not(target_arch = "x86_64"), miri), expect(dead_code, reason = "no hint here"))]
    has_prefetchw: bool,
}

impl WriteHint {
    /// Asks the processor.
    pub(super) fn detect() -> Self {
        Self { has_prefetchw: has_prefetchw() }
    }

    /// Starts loading the cache line at `address`, to be written. A line that another processor wrote last
    /// would otherwise be fetched twice: to be read, and then to be written.
    #[inline]
    #[cfg_attr(
        any(not(target_arch = "x86_64"), miri),
        expect(unused_variables, reason = "no hint")
    )]
    pub(super) fn to_write(self, address: usize) {
        // As an intrinsic it would be the hint above, unless compiled for newer processors only.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.has_prefetchw {
            #[expect(
                unsafe_code,
                reason = "part of what takes a sixth off batches with two threads"
            )]
            // SAFETY: the processor has PREFETCHW, which is a hint as the one above.
            unsafe {
                std::arch::asm!(
                    "prefetchw [{}]",
                    in(reg) address,
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
    }
}

/// Whether the processor says that it knows PREFETCHW.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_prefetchw() -> bool {
    use std::arch::x86_64::__cpuid;
    const LAST_LEAF: u32 = 0x8000_0000;
    const FEATURES: u32 = 0x8000_0001;
    const PREFETCHW: u32 = 1 << 8;
    __cpuid(LAST_LEAF).eax >= FEATURES && __cpuid(FEATURES).ecx & PREFETCHW != 0
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn has_prefetchw() -> bool {
    false
}
