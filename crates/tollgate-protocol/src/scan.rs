//! Looking for bytes, eight at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// Where a byte stands first.
#[inline]
pub(crate) fn position(byte: u8, bytes: &[u8]) -> Option<usize> {
    let same = eight_of(byte);
    first(bytes, |eight| zeros(eight ^ same))
}

/// Whether there is a byte below `bound`, which is at most 128, or one that is `byte`.
#[inline]
pub(crate) fn has_below_or(bound: u8, byte: u8, bytes: &[u8]) -> bool {
    let (least, same) = (eight_of(bound), eight_of(byte));
    let hits = |eight: u64| eight.wrapping_sub(least) & !eight & HIGHS | zeros(eight ^ same);
    first(bytes, hits).is_some()
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
    let last = rest.iter().rev().fold(0, |last: u64, byte| last << 8 | u64::from(*byte));
    let found = hits(last);
    Some(place(found))
        .filter(|place| found != 0 && *place < rest.len())
        .map(|it| at.wrapping_add(it))
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
mod tests {
    use tollgate_testkit::random::Random;

    use super::*;

    /// Bytes of few kinds, so that what is looked for is there now and then, next to what is
    /// nearly the same.
    fn some(random: &mut Random) -> Vec<u8> {
        const KINDS: [u8; 9] = [0, 9, b'\n', 0x0b, b' ', b'!', 0x8a, 0xa0, 0xff];
        (0..random.index(40))
            .filter_map(|_| KINDS.get(random.index(KINDS.len())).copied())
            .collect()
    }

    #[test]
    fn what_is_found_is_what_a_plain_search_finds() {
        let mut random = Random::new(1);
        for _ in 0..100_000 {
            let bytes = some(&mut random);
            for byte in [0, b'\n', b' ', 0xa0, 0xff] {
                let plain = bytes.iter().position(|it| *it == byte);
                assert_eq!(position(byte, &bytes), plain, "{bytes:?}");
                let plain = bytes.iter().any(|it| *it < b'!' || *it == byte);
                assert_eq!(has_below_or(b'!', byte, &bytes), plain, "{bytes:?}");
            }
        }
    }
}
