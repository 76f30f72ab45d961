//! What was received and not taken yet.

/// How much room there is at first, in bytes.
const ROOM_BYTES: usize = 1 << 14;
/// How long an answer can be, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How much of a strange answer is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

/// Bytes that come in behind and are taken from the front.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self { bytes: vec![0; ROOM_BYTES], begin: 0, end: 0 }
    }
}

impl Input {
    /// What was received.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// Where to put what comes next; nothing if an answer is longer than there may be.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        if self.end == self.bytes.len() {
            if self.end >= ANSWER_BYTES_MAX {
                return None;
            }
            self.bytes.resize(2 * self.end, 0);
        }
        Some(&mut self.bytes[self.end..])
    }

    /// So much was put there.
    pub(crate) fn grow(&mut self, length: usize) {
        self.end = (self.end + length).min(self.bytes.len());
    }

    /// So much was taken.
    pub(crate) fn skip(&mut self, length: usize) {
        self.begin = (self.begin + length).min(self.end);
    }

    pub(crate) fn clear(&mut self) {
        self.begin = 0;
        self.end = 0;
    }

    /// The beginning of it, for people.
    pub(crate) fn shown(&self) -> String {
        let bytes = self.bytes();
        bytes[..bytes.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
    }
}

#[cfg(test)]
mod tests;
