//! A request with room for a key: copied as it is, with digits written into the room.

/// What stands for the key in texts that people type.
pub(crate) const HOLE: &str = "{key}";

/// The bytes of a request. Every key has as many digits as any other, so a request always has the
/// same length, and lengths that stand in it are always right.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Where the keys begin.
    holes: Vec<usize>,
    /// How many digits a key has.
    digits: usize,
}

impl Template {
    /// An empty one, for so many keys.
    pub(crate) fn new(keys: u64) -> Self {
        let digits = keys.saturating_sub(1).checked_ilog10().unwrap_or(0) + 1;
        let digits = usize::try_from(digits).unwrap_or(1);
        Self { bytes: Vec::new(), holes: Vec::new(), digits }
    }

    /// Goes on with these bytes.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Goes on with this text, with room for a key wherever it says `{key}`.
    pub(crate) fn text(mut self, text: &str) -> Self {
        for (index, part) in text.split(HOLE).enumerate() {
            if index > 0 {
                self.holes.push(self.bytes.len());
                self.bytes.extend(std::iter::repeat_n(b'0', self.digits));
            }
            self.bytes.extend_from_slice(part.as_bytes());
        }
        self
    }

    /// How many bytes `text` takes.
    pub(crate) fn length(&self, text: &str) -> usize {
        let holes = text.matches(HOLE).count();
        text.len() - holes * HOLE.len() + holes * self.digits
    }

    /// Whether this is a request, of one that has no room for a key.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        self.holes.is_empty() && self.bytes == bytes
    }

    /// Appends the request for `key`.
    pub(crate) fn write(&self, key: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        for hole in &self.holes {
            write_digits(key, &mut out[start + hole..][..self.digits]);
        }
    }
}

/// Writes the last digits of a number, as many as there is room for.
pub(crate) fn write_digits(mut number: u64, room: &mut [u8]) {
    for digit in room.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

#[cfg(test)]
mod tests;
