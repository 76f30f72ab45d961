use std::collections::HashSet;

use super::Cipher;

const KEY: u128 = 0x3c4f_cf09_8815_f7ab_a6d2_ae28_1615_7e2b;

/// As many bytes, no two blocks of which are the same.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|nth| u8::try_from((nth * 7 + nth / 16) % 256).unwrap()).collect()
}

/// FIPS 197, appendix C.1, has what becomes of this block in the first rounds.
#[test]
fn blocks_are_mixed_by_rounds_of_the_standard() {
    let number = |digits| u128::from_str_radix(digits, 16).map(u128::swap_bytes).unwrap();
    let keys = [
        "d6aa74fdd2af72fadaa678f1d6ab76fe",
        "b692cf0b643dbdf1be9bc5006830b3fe",
        "b6ff744ed2c2c9bf6c590cbf0469bf41",
        "47f7f7bc95353e03f96c32bcfd058dfd",
        "3caaa3e8a99f9deb50f3af57adf622aa",
        "5e390f7df7a69296a7553dc10aa31f6b",
    ];
    let first = number("00102030405060708090a0b0c0d0e0f0");
    let last = number("c62fe109f75eedc3cc79395d84f9cf5d");
    for cipher in [Cipher::new(KEY), Cipher::portable(KEY)] {
        // Of no bytes at all the last block is all that there is, and it is empty.
        let cipher = Cipher { keys: keys.map(number), marks: [0; 16], ..cipher };
        assert_eq!(cipher.hash(first, b"") ^ first, last);
        // Of one whole block both are the same, here marked so that the last is empty again.
        let cipher = Cipher { marks: [first; 16], ..cipher };
        let nothing = cipher.hash(first, b"") ^ first;
        assert_eq!(cipher.hash(0, &first.to_le_bytes()), last ^ nothing);
    }
}

#[test]
fn every_processor_hashes_alike() {
    for key in [0, KEY, u128::MAX] {
        let (native, portable) = (Cipher::new(key), Cipher::portable(key));
        for length in 0..=256 {
            for start in [native.start(), 0, KEY] {
                let bytes = bytes(length);
                assert_eq!(native.hash(start, &bytes), portable.hash(start, &bytes), "{length}");
            }
        }
    }
}

#[test]
fn every_byte_and_the_length_make_a_difference() {
    let cipher = Cipher::new(KEY);
    let mut texts = HashSet::new();
    for length in 0..=80 {
        for text in [bytes(length), vec![0; length]] {
            for (place, bit) in (0..length).flat_map(|place| [0, 7].map(|bit| (place, bit))) {
                let mut other = text.clone();
                other[place] ^= 1 << bit;
                texts.insert(other);
            }
            texts.insert(text);
        }
    }
    let hashes: HashSet<_> = texts.iter().map(|text| cipher.hash(cipher.start(), text)).collect();
    assert_eq!(hashes.len(), texts.len());
    // Where a shard and a place in it are chosen by: no more collide than would by chance.
    let uppers: HashSet<_> = hashes.iter().map(|hash| hash >> 96).collect();
    assert!(uppers.len() + 3 > texts.len(), "{} of {}", uppers.len(), texts.len());
}

#[test]
fn every_start_is_another_hash() {
    let cipher = Cipher::new(KEY);
    let starts =
        [cipher.start(), cipher.hash(cipher.start(), b"a"), cipher.hash(cipher.start(), b"b")];
    for text in [&b""[..], b"ada", b"exactly sixteen.", &bytes(100)] {
        let hashes: HashSet<_> = starts.iter().map(|start| cipher.hash(*start, text)).collect();
        assert_eq!(hashes.len(), starts.len(), "{text:?}");
    }
}

/// What was saved once is looked for by the same fingerprint for ever.
#[test]
fn hashes_stay_as_they_are() {
    let cipher = Cipher::new(KEY);
    let found = [0, 5, 12, 16, 20, 40].map(|length| cipher.hash(cipher.start(), &bytes(length)));
    assert_eq!(
        found.map(|hash| format!("{hash:x}")),
        [
            "79a8d58d04e468838e930966d176e52e",
            "eb26caf480429c417b71b917e8751bec",
            "56cbcb4fc927be71c28b84d11efdf92d",
            "d59811256359a40d33c870d25425b049",
            "b398dfad0084f4f586b7654105d59afa",
            "cd93ab557f5a9ca0e60bd6363e3f2cdd",
        ]
    );
}
