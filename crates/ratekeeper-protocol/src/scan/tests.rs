use ratekeeper_testkit::random::Random;

use super::*;

/// Bytes of few kinds, so that what is looked for is there now and then, next to what is
/// nearly the same.
fn some(random: &mut Random) -> Vec<u8> {
    const KINDS: [u8; 9] = [0, 9, b'\n', 0x0b, b' ', b'!', 0x8a, 0xa0, 0xff];
    (0..random.index(40)).filter_map(|_| KINDS.get(random.index(KINDS.len())).copied()).collect()
}

#[test]
fn what_follows_a_beginning_is_what_the_library_says() {
    for prefix in ["", "a", "abcdefg:", "abcdefgh:", "abcdefghijklmnopq:", "äbcdefgh"] {
        for text in ["", "a", "abcdefg:x", "abcdefgh:xyz", "abcdefghijklmnopq:ä", "äbcdefgh"] {
            assert_eq!(strip_prefix(text, prefix), text.strip_prefix(prefix), "{prefix} {text}");
        }
    }
}

#[test]
fn what_is_found_is_what_a_plain_search_finds() {
    let mut random = Random::new(1);
    for _ in 0..100_000 {
        let bytes = some(&mut random);
        for byte in [0, b'\n', b' ', 0xa0, 0xff] {
            let plain = bytes.iter().position(|it| *it == byte);
            assert_eq!(position(byte, &bytes), plain, "{bytes:?}");
        }
        for bound in [0, 1, b'!', 128] {
            let plain = bytes.iter().position(|it| *it < bound);
            assert_eq!(below(bound, &bytes), plain, "{bytes:?}");
        }
        assert!(is_same(&bytes, &bytes.clone()), "{bytes:?}");
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x80);
            assert!(!is_same(&bytes, &other), "{bytes:?} at {at}");
        }
        let plain = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        assert_eq!(text(&bytes), plain, "{bytes:?}");
    }
}
