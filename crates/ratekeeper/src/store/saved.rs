//! State that outlives the process: what was spent, as bytes of one file.
//!
//! This is the pure half: it writes to anything that takes bytes and reads from anything that has
//! them. Where the file is, and when it is written, is the business of the caller. A file has any
//! number of sections, each the whole state of one [`Limiter`](crate::Limiter) or
//! [`Keyed`](crate::Keyed):
//!
//! ```
//! use ratekeeper::algorithm::quota::Quota;
//! use ratekeeper::limits::{Limits, Source};
//! use ratekeeper::store::saved::{Reader, Section, Writer};
//! use ratekeeper::{Keyed, Limiter, Moment};
//!
//! let text = "A: {burst: 50, count: 50, period: 1h}";
//! let limits = Limits::parse(&Source { name: "limits.yaml", text }, None)?;
//! let (memory, now) = (1 << 20, Moment::from_nanos(0));
//! let limiter = Limiter::with_memory(limits.clone(), memory)?;
//! let quotas = Keyed::<Quota>::new(memory)?;
//! limiter.spend("A", "ada", 20, now)?;
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file)?;
//! limiter.save(&mut writer, now)?;
//! quotas.save(&mut writer, now)?;
//! writer.finish()?;
//!
//! let (mut limiter, mut quotas) = (None, None);
//! let mut reader = Reader::new(file.as_slice())?;
//! while let Some(section) = reader.next_section()? {
//!     match section {
//!         Section::Limits => {
//!             limiter = Some(Limiter::restore(limits.clone(), memory, &mut reader, now)?);
//!         }
//!         Section::Quotas => quotas = Some(Keyed::<Quota>::restore(memory, &mut reader, now)?),
//!         Section::Averages | Section::InlineRules | Section::Clocks => {} // Passed over.
//!     }
//! }
//! // Only now has everything been checked.
//! let limiter = limiter.ok_or("it was saved")?;
//! assert_eq!(limiter.check("A", "ada", 0, now)?.remaining, 30);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The format
//!
//! Numbers are little-endian. `sum` is the CRC-32 of everything before it but other sums, so that
//! every frame vouches for all that came before: no bit can flip, and nothing can be left out or
//! change places, without being noticed at the end of the frame, before any of it is used.
//!
//! ```text
//! file   = "ratekeep", version: u32, sum: u32, frame ..
//! frame  = mark: u8, length: u32, length bytes, sum: u32
//! mark   = 0 the end | 1 to 5 a section begins: limits, averages, quotas, clocks, inline rules
//!          | 255 it goes on
//! ```
//!
//! The bytes of a section are records, none of which is cut in two by a frame:
//!
//! ```text
//! limits   = secret, rules, rule ids, defaults, names, cells
//! averages = secret, cells
//! quotas   = secret, cells
//! inline   = secret, cells
//! clocks   = buckets: u64, wall: u64
//! secret   = u128
//! rules    = count: u32, (burst: u64, step: u64, rate: u64, successor: u32) ..
//! rule ids = count: u32, (name, scope: u8, rule: u32) ..
//! defaults = count: u32, (name, rule: u32) ..
//! names    = count: u32, (name, start: u128, default: u32, own, own) ..   overrides, and lapsed ones
//! own      = count: u32, (fingerprint: u128, rule: u32) ..
//! name     = length: u16, UTF-8
//! cells    = shards: u32, (count: u64, (fingerprint: u128, cell) ..) ..
//! ```
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

mod cells;
mod clocks;
mod reader;
mod writer;

pub use cells::Kept;
pub use clocks::SavedClocks;
pub use reader::Reader;
pub use writer::Writer;

use std::io;

use crate::algorithm::book::BookFull;

/// Which format this writes, and the only one it reads.
pub const VERSION: u32 = 6;
/// How long a frame can be: what is held in memory at a time.
pub const FRAME_BYTES_MAX: usize = 1 << 18;

const MAGIC: [u8; 8] = *b"ratekeep";
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>();
const FRAME_HEADER_BYTES: usize = 1 + size_of::<u32>();
const SUM_BYTES: usize = size_of::<u32>();

/// What a section is the state of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The [`SavedClocks`] of whoever saved.
    Clocks,
    /// A [`Limiter`](crate::Limiter).
    Limits,
    /// A [`Keyed`](crate::Keyed) of averages.
    Averages,
    /// A [`Keyed`](crate::Keyed) of quotas.
    Quotas,
    /// A [`Keyed`](crate::Keyed) of buckets whose rules came with their asks.
    InlineRules,
}

/// What a frame is to its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Begin(Section),
    More,
    End,
}

impl Mark {
    const fn byte(self) -> u8 {
        match self {
            Self::End => 0,
            Self::Begin(Section::Limits) => 1,
            Self::Begin(Section::Averages) => 2,
            Self::Begin(Section::Quotas) => 3,
            Self::Begin(Section::Clocks) => 4,
            Self::Begin(Section::InlineRules) => 5,
            Self::More => u8::MAX,
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::End),
            1 => Some(Self::Begin(Section::Limits)),
            2 => Some(Self::Begin(Section::Averages)),
            3 => Some(Self::Begin(Section::Quotas)),
            4 => Some(Self::Begin(Section::Clocks)),
            5 => Some(Self::Begin(Section::InlineRules)),
            u8::MAX => Some(Self::More),
            _ => None,
        }
    }
}

/// What was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// How many buckets: those that are not full.
    pub buckets: u64,
    /// How many bytes the section takes.
    pub bytes: u64,
}

/// Why state was not restored.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum RestoreError {
    #[error("reading saved state")]
    Read(#[source] io::Error),
    #[error("the saved state is damaged, at or before byte {at}: {what}")]
    Damaged { at: u64, what: &'static str },
    #[error("the saved state is of version {found}; this program reads version {VERSION} only")]
    Version { found: u32 },
    #[error("the saved state has no {wanted:?} at this place")]
    Section { wanted: Section },
    #[error("reserving {memory} bytes for what was saved")]
    Memory { memory: usize, source: io::Error },
    #[error("making limits ready in place of those that were saved")]
    Book(#[from] BookFull),
}

impl RestoreError {
    /// Whether it is the bytes that are wrong: reading them again will not help.
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Version { .. } | Self::Section { .. })
    }
}

#[cfg(test)]
mod tests;
