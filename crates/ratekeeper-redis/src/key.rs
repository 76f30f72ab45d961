//! The names of things in Redis, and which slot of a cluster they belong to.

/// Servers publish the key of a bucket here when it was given tokens that time did not give it, so
/// that whoever remembers a denial forgets it.
pub const CHANGED_CHANNEL: &str = "ratekeeper:changed";

/// How many slots a cluster has.
pub const SLOTS: usize = 16_384;

/// What is kept under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `ratekeeper:{6:ada}`: the bucket of a named limit, or of a key that is asked by rules.
    Bucket,
    /// `ratekeeper:average:{..}`: a decaying average.
    Average,
    /// `ratekeeper:quota:{..}`: a quota with a lifetime.
    Quota,
}

impl Kind {
    const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Bucket => b"ratekeeper:{",
            Self::Average => b"ratekeeper:average:{",
            Self::Quota => b"ratekeeper:quota:{",
        }
    }

    /// The key that Redis knows `name` by. What is in braces decides the slot.
    pub fn key(self, name: &[u8]) -> Vec<u8> {
        [self.prefix(), name, b"}"].concat()
    }

    /// The name that `key` was made of.
    pub fn name(self, key: &[u8]) -> Option<&[u8]> {
        key.strip_prefix(self.prefix())?.strip_suffix(b"}")
    }
}

/// The slot of a key: that of what stands in its first braces, if anything does.
pub fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % 16_384
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|&byte| byte == b'}') {
        Some(close) if close > 0 => &inside[..close],
        _ => key,
    }
}

/// CRC-16 in the variant that Redis Cluster is defined by (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16, &byte: &u8| crc << 8 ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)];
    bytes.iter().fold(0, step)
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut index: u16 = 0;
    while index < 256 {
        let mut crc = index << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests;
