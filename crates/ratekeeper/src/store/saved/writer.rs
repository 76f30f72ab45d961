//! From sections to frames.

use std::io::{self, Write};

use super::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, MAGIC, Mark, SUM_BYTES, Section, VERSION};

/// Writes saved state, a frame at a time.
///
/// It hands on few large pieces, so there is no need for a buffer below it. A file is whole only
/// after [`finish`](Self::finish); one that ends before that is refused as damaged.
pub struct Writer<W: Write> {
    out: W,
    sum: crc32fast::Hasher,
    /// With room for the header in front.
    frame: Vec<u8>,
    mark: Mark,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file. Fails where `out` does.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self {
            out,
            sum: crc32fast::Hasher::new(),
            frame: Vec::with_capacity(FRAME_BYTES_MAX.saturating_add(SUM_BYTES)),
            mark: Mark::End,
            written: 0,
        };
        writer.frame.extend_from_slice(&MAGIC);
        writer.frame.extend_from_slice(&VERSION.to_le_bytes());
        writer.send()?;
        Ok(writer)
    }

    /// Ends the file, and returns how many bytes it has. Fails where `out` does.
    pub fn finish(mut self) -> io::Result<u64> {
        self.mark = Mark::End;
        self.send_frame()?;
        self.out.flush()?;
        Ok(self.written)
    }

    /// How many bytes there are so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn begin(&mut self, section: Section) {
        self.mark = Mark::Begin(section);
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.send_frame()
    }

    pub(crate) fn u8(&mut self, value: u8) -> io::Result<()> {
        self.put(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> io::Result<()> {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> io::Result<()> {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> io::Result<()> {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u128(&mut self, value: u128) -> io::Result<()> {
        self.put(&value.to_le_bytes())
    }

    /// A number of things that follow.
    pub(crate) fn count(&mut self, count: usize) -> io::Result<()> {
        self.u32(u32::try_from(count).map_err(|_| too_much())?)
    }

    /// A text of at most 65,535 bytes.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.u16(u16::try_from(text.len()).map_err(|_| too_much())?)?;
        self.put(text.as_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// The next `bytes` bytes, all in one frame, to be written to; at most [`FRAME_BYTES_MAX`].
    pub(crate) fn room(&mut self, bytes: usize) -> io::Result<&mut [u8]> {
        let len = self.frame.len().max(FRAME_HEADER_BYTES);
        if len.saturating_add(bytes) > FRAME_BYTES_MAX {
            self.send_frame()?;
        }
        let start = self.frame.len().max(FRAME_HEADER_BYTES);
        self.frame.resize(start.saturating_add(bytes), 0);
        self.frame.get_mut(start..).ok_or_else(too_much)
    }

    fn send_frame(&mut self) -> io::Result<()> {
        let len = self.frame.len().max(FRAME_HEADER_BYTES);
        self.frame.resize(len, 0);
        let body = u32::try_from(len.saturating_sub(FRAME_HEADER_BYTES)).map_err(|_| too_much())?;
        if let Some((mark, rest)) = self.frame.split_first_mut()
            && let Some(length) = rest.first_chunk_mut()
        {
            *mark = self.mark.byte();
            *length = body.to_le_bytes();
        }
        self.mark = Mark::More;
        self.send()
    }

    /// Sends what there is, and the sum of all so far.
    fn send(&mut self) -> io::Result<()> {
        self.sum.update(&self.frame);
        // Not part of later sums: a sum over data and its own sum is the same whatever the data.
        self.frame.extend_from_slice(&self.sum.clone().finalize().to_le_bytes());
        self.out.write_all(&self.frame)?;
        self.written = self.written.saturating_add(self.frame.len() as u64);
        self.frame.clear();
        Ok(())
    }
}

fn too_much() -> io::Error {
    io::Error::other("more than saved state can hold")
}
