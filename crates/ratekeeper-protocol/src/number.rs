//! Whole numbers as text, several digits at a time, with what stands behind them.
//!
//! With `itoa`, number by number, a reply to `THROTTLE` in a pipeline takes 19 % more instructions.

/// The least number that is written the long way.
const SHORT_END: u64 = 100_000_000;
/// Eight of the digit zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Appends the digits of a number.
#[inline]
pub(crate) fn write(number: u64, out: &mut Vec<u8>) {
    match short(number) {
        Some((digits, count)) => push(&digits.to_le_bytes(), count, out),
        None => write_long(number, out),
    }
}

/// Appends the first `count` bytes of a text. All of it, and then some are cut off again: a copy of
/// known length is no call.
#[inline]
pub(crate) fn push<const N: usize>(text: &[u8; N], count: usize, out: &mut Vec<u8>) {
    let end = out.len().saturating_add(count);
    out.extend_from_slice(text);
    out.truncate(end);
}

/// What stands behind a number: up to eight bytes.
#[derive(Clone, Copy)]
pub(crate) struct End {
    /// The first in the lowest byte.
    bytes: u64,
    count: usize,
}

impl End {
    pub(crate) const fn new(text: &[u8]) -> Self {
        assert!(text.len() <= 8, "it is too long");
        let (mut bytes, mut rest) = (0, text);
        while let Some((last, before)) = rest.split_last() {
            (bytes, rest) = (bytes << 8 | *last as u64, before);
        }
        Self { bytes, count: text.len() }
    }
}

/// Appends the digits of a number and what stands behind it, which takes half of what both take
/// one after the other.
#[inline]
pub(crate) fn write_with(number: u64, end: End, out: &mut Vec<u8>) {
    if let Some((text, count)) = short_with(number, end) {
        push(&text, count, out);
    } else {
        write_long(number, out);
        out.extend(end.bytes.to_le_bytes().into_iter().take(end.count));
    }
}

/// The digits of a number that has at most eight, what stands behind it, and how many bytes that is.
/// The bytes behind are zero.
#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "there is one digit at least, and eight at most"
)]
pub(crate) fn short_with(number: u64, end: End) -> Option<([u8; 16], usize)> {
    if number >= SHORT_END {
        return None;
    }
    let (digits, bits) = eight_digits(number);
    // In two steps: all bits at once are more than a shift can be.
    let first = digits | end.bytes << (bits - 8) << 8;
    let second = end.bytes >> (64 - bits);
    let text = u128::from(first) | u128::from(second) << 64;
    Some((text.to_le_bytes(), (bits >> 3) as usize + end.count))
}

/// Eight digits at a time, from the last.
#[inline(never)]
fn write_long(number: u64, out: &mut Vec<u8>) {
    write(number.div_euclid(SHORT_END), out);
    let last = ones(number.rem_euclid(SHORT_END));
    out.extend_from_slice(&(last | ZEROS).to_le_bytes());
}

/// The digits of a number that has at most eight, the first in the lowest byte, and how many they
/// are. The bytes behind them are zero.
#[inline]
pub(crate) fn short(number: u64) -> Option<(u64, usize)> {
    if number >= SHORT_END {
        return None;
    }
    let (digits, bits) = eight_digits(number);
    Some((digits, (bits >> 3) as usize))
}

/// The digits of a number below [`SHORT_END`], the first in the lowest byte, and how many bits they
/// take.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "no more than seven digits are cut off")]
fn eight_digits(number: u64) -> (u64, u32) {
    let ones = ones(number);
    // The last digit stays, also if it is a zero.
    let zeros = (ones | 1 << 56).trailing_zeros() & !7;
    ((ones | ZEROS) >> zeros, 64 - zeros)
}

/// The values of all eight digits of a number below [`SHORT_END`], the first in the lowest byte.
///
/// A number is cut in halves until each has one digit, all halves at once. A product with a
/// fraction of two to the 20 or 10 is a quotient that is exact for numbers so small.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "no part leaves its own bits")]
fn ones(number: u64) -> u64 {
    let high = number / 10_000;
    let fours = high | (number - high * 10_000) << 32;
    let high = (fours * 10_486) >> 20 & 0x0000_007f_0000_007f;
    let twos = high | (fours - high * 100) << 16;
    let high = (twos * 103) >> 10 & 0x000f_000f_000f_000f;
    high | (twos - high * 10) << 8
}

#[cfg(test)]
mod tests;
