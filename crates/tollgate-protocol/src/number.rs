//! Whole numbers as text, several digits at a time.

/// The least number that is written the long way.
const SHORT_END: u64 = 100_000_000;
/// Eight of the digit zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Appends the digits of a number.
#[inline]
pub(crate) fn write(number: u64, out: &mut Vec<u8>) {
    match short(number) {
        Some((digits, count)) => {
            let end = out.len().saturating_add(count);
            // All eight, of which some are cut off again: a copy of known length is no call.
            out.extend_from_slice(&digits.to_le_bytes());
            out.truncate(end);
        }
        None => write_long(number, out),
    }
}

/// Eight digits at a time, from the last.
#[inline(never)]
fn write_long(number: u64, out: &mut Vec<u8>) {
    write(number.div_euclid(SHORT_END), out);
    let last = u32::try_from(number.rem_euclid(SHORT_END)).unwrap_or_default();
    out.extend_from_slice(&(ones(last) | ZEROS).to_le_bytes());
}

/// The digits of a number that has at most eight, the first in the lowest byte, and how many they
/// are. The bytes behind them are zero.
#[inline]
pub(crate) fn short(number: u64) -> Option<(u64, usize)> {
    let short = u32::try_from(number).ok().filter(|_| number < SHORT_END)?;
    Some(eight_digits(short))
}

/// The digits of a number below [`SHORT_END`], the first in the lowest byte, and how many they are.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "no more than eight digits are cut off")]
fn eight_digits(number: u32) -> (u64, usize) {
    let ones = ones(number);
    // The last digit stays, also if it is a zero.
    let zeros = (ones | 1 << 56).trailing_zeros() & !7;
    let count = 8 - (zeros >> 3) as usize;
    ((ones | ZEROS) >> zeros, count)
}

/// The values of all eight digits of a number below [`SHORT_END`], the first in the lowest byte.
///
/// A number is cut in halves until each has one digit, all halves at once. A product with a
/// fraction of two to the 20 or 10 is a quotient that is exact for numbers so small.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "no part leaves its own bits")]
fn ones(number: u32) -> u64 {
    let number = u64::from(number);
    let high = number / 10_000;
    let fours = high | (number - high * 10_000) << 32;
    let high = (fours * 10_486) >> 20 & 0x0000_007f_0000_007f;
    let twos = high | (fours - high * 100) << 16;
    let high = (twos * 103) >> 10 & 0x000f_000f_000f_000f;
    high | (twos - high * 10) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_written(number: u64) {
        let mut out = b"before ".to_vec();
        write(number, &mut out);
        assert_eq!(out, format!("before {number}").as_bytes());
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        (0..1_000_000).for_each(assert_written);
        (0..SHORT_END).step_by(9_973).for_each(assert_written);
        for power in (0..20).map(|digits| 10_u64.pow(digits)) {
            (power - 1..=power + 1).for_each(assert_written);
        }
        (0..64).map(|bit| u64::MAX >> bit).for_each(assert_written);
    }
}
