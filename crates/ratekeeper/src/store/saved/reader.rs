//! From frames to sections, of whatever bytes there are.

use std::io::Read;

use super::{
    FRAME_BYTES_MAX, FRAME_HEADER_BYTES, HEADER_BYTES, MAGIC, Mark, RestoreError, SUM_BYTES,
    Section, VERSION,
};

/// Reads saved state, a frame at a time. What a frame holds is only looked at once its sum has
/// been found right, and memory is only taken for bytes that are there.
pub struct Reader<R: Read> {
    input: R,
    sum: crc32fast::Hasher,
    /// What is in the last frame that was read.
    frame: Vec<u8>,
    /// How much of it was looked at.
    read: usize,
    mark: Mark,
    /// How many bytes were read from `input`.
    at: u64,
    /// The section that was found and that nobody has begun to read.
    found: Option<Section>,
    /// Whether the frame belongs to a section that was found before.
    is_inside: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read. Refuses what is not saved state, or of another version.
    pub fn new(input: R) -> Result<Self, RestoreError> {
        let mut reader = Self {
            input,
            sum: crc32fast::Hasher::new(),
            frame: Vec::new(),
            read: 0,
            mark: Mark::End,
            at: 0,
            found: None,
            is_inside: false,
        };
        reader.check_header()?;
        reader.next_frame()?;
        if reader.mark == Mark::More {
            return Err(reader.damage("it begins in the middle of a section"));
        }
        Ok(reader)
    }

    /// The next section, or none if that was all. What was not read of the section before is
    /// passed over, and checked all the same. Refuses what is damaged.
    pub fn next_section(&mut self) -> Result<Option<Section>, RestoreError> {
        self.found = None;
        while self.is_inside {
            self.next_frame()?;
            self.is_inside = self.mark == Mark::More;
        }
        let Mark::Begin(section) = self.mark else {
            let more = self.fetch(1)?;
            return if more == 0 { Ok(None) } else { Err(self.damage("it goes on after its end")) };
        };
        (self.found, self.is_inside) = (Some(section), true);
        Ok(self.found)
    }

    /// Begins to read the section that was found, which has to be this one.
    pub(crate) fn begin(&mut self, wanted: Section) -> Result<(), RestoreError> {
        let is_found = self.found.take() == Some(wanted);
        if is_found { Ok(()) } else { Err(RestoreError::Section { wanted }) }
    }

    /// Makes sure that the section has nothing more.
    pub(crate) fn end(&mut self) -> Result<(), RestoreError> {
        if self.has_more()? { Err(self.damage("a section has too much")) } else { Ok(()) }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, RestoreError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, RestoreError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RestoreError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, RestoreError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, RestoreError> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&str, RestoreError> {
        let len = self.u16()?;
        let at = self.at;
        let text = std::str::from_utf8(self.bytes(len.into())?);
        text.map_err(|_| RestoreError::Damaged { at, what: "a name is not text" })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let at = self.at;
        let bytes = self.bytes(N)?.first_chunk().copied();
        bytes.ok_or(RestoreError::Damaged { at, what: CUT })
    }

    /// The next `count` bytes, all in one frame.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&[u8], RestoreError> {
        if count > 0 && !self.has_more()? {
            return Err(self.damage("a section has too little"));
        }
        let end = self.read.saturating_add(count);
        let range = std::mem::replace(&mut self.read, end)..end;
        let at = self.at;
        self.frame.get(range).ok_or(RestoreError::Damaged { at, what: CUT })
    }

    /// Whether there is more of this section, in this frame or the next.
    fn has_more(&mut self) -> Result<bool, RestoreError> {
        while self.is_inside && self.read >= self.frame.len() {
            self.next_frame()?;
            self.is_inside = self.mark == Mark::More;
        }
        Ok(self.is_inside)
    }

    /// What is wrong with what was read last.
    pub(crate) fn damage(&self, what: &'static str) -> RestoreError {
        RestoreError::Damaged { at: self.at, what }
    }

    fn check_header(&mut self) -> Result<(), RestoreError> {
        self.fetch(HEADER_BYTES.saturating_add(SUM_BYTES))?;
        if !self.frame.starts_with(&MAGIC) {
            return Err(self.damage("it does not begin as saved state does"));
        }
        self.check_sum(HEADER_BYTES)?;
        let version = self.frame.last_chunk().copied();
        match version.map(u32::from_le_bytes) {
            Some(VERSION) => Ok(()),
            found => Err(RestoreError::Version { found: found.unwrap_or_default() }),
        }
    }

    fn next_frame(&mut self) -> Result<(), RestoreError> {
        self.fetch(FRAME_HEADER_BYTES)?;
        let header = self.frame.split_first().and_then(|(mark, rest)| {
            Some((*mark, usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?))
        });
        let Some((mark, length)) = header else {
            return Err(self.damage(ENDS_EARLY));
        };
        let Some(mark) = Mark::from_byte(mark).filter(|_| length <= FRAME_BYTES_MAX) else {
            return Err(self.damage("a frame has a header that no frame has"));
        };
        self.sum.update(&self.frame);
        self.fetch(length.saturating_add(SUM_BYTES))?;
        (self.mark, self.read) = (mark, 0);
        // Not even a caller that goes on after an error shall see what is in it.
        self.check_sum(length).inspect_err(|_| self.frame.clear())
    }

    /// Compares the sum of all so far with the one behind the `length` bytes that were fetched, and
    /// leaves those.
    fn check_sum(&mut self, length: usize) -> Result<(), RestoreError> {
        let Some((bytes, sum)) = self.frame.split_at_checked(length) else {
            return Err(self.damage(ENDS_EARLY));
        };
        self.sum.update(bytes);
        let Some(sum) = sum.first_chunk().map(|sum| u32::from_le_bytes(*sum)) else {
            return Err(self.damage(ENDS_EARLY));
        };
        self.frame.truncate(length);
        if sum != self.sum.clone().finalize() {
            return Err(self.damage("what is written there is not what was saved"));
        }
        Ok(())
    }

    /// Reads up to `count` bytes in place of the frame, and tells how many there were.
    fn fetch(&mut self, count: usize) -> Result<usize, RestoreError> {
        self.frame.clear();
        let mut input = self.input.by_ref().take(count as u64);
        let read = input.read_to_end(&mut self.frame).map_err(RestoreError::Read)?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }
}

const ENDS_EARLY: &str = "it ends early";
const CUT: &str = "a frame ends in the middle of something";
