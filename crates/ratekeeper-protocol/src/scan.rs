//! Looking for bytes, eight at a time.
//!
//! Names and lines are short, so that a call of `memchr` takes longer than looking. With calls, and without the
//! plain `get` of the bucket door, a line of a pipeline takes 31 to 61 % more instructions.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// Where a byte stands first.
#[inline]
pub(crate) fn position(byte: u8, bytes: &[u8]) -> Option<usize> {
    let same = eight_of(byte);
    first(bytes, |eight| zeros(eight ^ same))
}

/// Where a byte stands first that is below `bound`, which is at most 128.
#[inline]
pub(crate) fn below(bound: u8, bytes: &[u8]) -> Option<usize> {
    let least = eight_of(bound);
    first(bytes, |eight| eight.wrapping_sub(least) & !eight & HIGHS)
}

/// The longest text that bytes begin with. Looked at as a whole, they take far less than word by word.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> &str {
    let text = |bytes| str::from_utf8(bytes);
    text(bytes).unwrap_or_else(|wrong| {
        let valid = bytes.get(..wrong.valid_up_to()).map(text);
        valid.and_then(Result::ok).unwrap_or_default()
    })
}

/// The text that bytes are. Where they are a part of `text` that is known already.
#[inline]
pub(crate) fn text_in<'a>(text: &'a str, bytes: &'a [u8]) -> Option<&'a str> {
    let start = bytes.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    match text.get(start..start.wrapping_add(bytes.len())) {
        Some(part) => Some(part),
        None => str::from_utf8(bytes).ok(),
    }
}

/// What follows a beginning, if the text has it.
#[inline]
pub(crate) fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (begin, rest) = text.split_at_checked(prefix.len())?;
    is_same(begin.as_bytes(), prefix.as_bytes()).then_some(rest)
}

/// Whether two of the same length are the same. Most are so short that a call would take as long.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (Some(last), Some(other_last)) = (one.last_chunk::<8>(), other.last_chunk::<8>()) else {
        return one == other;
    };
    let mut eights = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    // Compared as numbers: as slices, they would be by a call.
    let number = |eight: &[u8; 8]| u64::from_le_bytes(*eight);
    last == other_last && eights.all(|(one, other)| number(one) == number(other))
}

/// The place of the first byte whose high bit `hits` sets, given eight bytes. Bits behind it do not
/// matter.
#[inline]
fn first(bytes: &[u8], hits: impl Fn(u64) -> u64) -> Option<usize> {
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut at = 0_usize;
    for eight in eights {
        let found = hits(u64::from_le_bytes(*eight));
        if found != 0 {
            return Some(at.wrapping_add(place(found)));
        }
        at = at.wrapping_add(eight.len());
    }
    // The last eight, of which some have been looked at and are no hits.
    if let Some(last) = bytes.last_chunk::<8>() {
        let found = hits(u64::from_le_bytes(*last));
        let at = bytes.len().wrapping_sub(last.len());
        return (found != 0).then(|| at.wrapping_add(place(found)));
    }
    let last = rest.iter().rev().fold(0, |last: u64, byte| last << 8 | u64::from(*byte));
    let found = hits(last);
    Some(place(found)).filter(|place| found != 0 && *place < rest.len())
}

#[inline]
fn place(found: u64) -> usize {
    (found.trailing_zeros() >> 3) as usize
}

/// The high bit of each byte that is zero, and perhaps of some behind the first of them.
#[inline]
fn zeros(eight: u64) -> u64 {
    eight.wrapping_sub(ONES) & !eight & HIGHS
}

#[inline]
fn eight_of(byte: u8) -> u64 {
    ONES.wrapping_mul(byte.into())
}

#[cfg(test)]
mod tests;
