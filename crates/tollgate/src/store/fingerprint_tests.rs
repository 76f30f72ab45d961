use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::{Secret, TOGETHER_BYTES_MAX};

#[test]
fn it_is_the_hash_of_the_bytes_however_many_there_are() {
    let bytes: Vec<_> = (0..=255_u8).rev().collect();
    let keys = [(0, 0), (3, 4), (u64::MAX, 0x0123_4567_89ab_cdef)];
    for ((low, high), length) in keys.into_iter().flat_map(|key| (0..=256).map(move |n| (key, n))) {
        let bytes = &bytes[..length];
        let expected = SipHasher13::new_with_keys(low, high).hash(bytes).as_u128();
        let mut upper = None;
        let found = Secret::new(low, high).fingerprint_early(bytes, |half| upper = Some(half));
        assert_eq!(found.get().rotate_left(64), expected, "{length} bytes");
        assert_eq!(upper, Some(found.upper()), "{length} bytes");
    }
}

/// What was saved once is looked for by the same fingerprint for ever.
#[test]
fn however_long_the_parts_are_it_is_the_hash_of_lengths_and_parts() {
    let bytes: Vec<_> = (0..=255_u8).collect();
    for length in 0..=TOGETHER_BYTES_MAX + 40 {
        for split in [0, 1, length / 2, length] {
            let parts = [&bytes[..split.min(length)], &bytes[split.min(length)..length]];
            let mut hasher = SipHasher13::new_with_keys(3, 4);
            for part in parts {
                hasher.write(&(part.len() as u64).to_le_bytes());
                hasher.write(part);
            }
            let expected = hasher.finish128().as_u128();
            let found = Secret::new(3, 4).fingerprint_of_parts(&parts).get();
            assert_eq!(found.rotate_left(64), expected, "{length} bytes, split at {split}");
        }
    }
}

#[test]
fn where_a_part_ends_makes_a_difference() {
    let secret = Secret::new(3, 4);
    let parts: [&[&[u8]]; 4] = [&[b"ab", b"c"], &[b"a", b"bc"], &[b"", b"abc"], &[b"abc"]];
    for (nth, one) in parts.iter().enumerate() {
        for other in &parts[nth + 1..] {
            assert_ne!(secret.fingerprint_of_parts(one), secret.fingerprint_of_parts(other));
        }
    }
}
