use super::Secret;

#[test]
fn where_a_part_ends_makes_a_difference() {
    let seal = Secret::new(3, 4).seal();
    let parts: [&[&[u8]]; 5] =
        [&[b"ab", b"c"], &[b"a", b"bc"], &[b"", b"abc"], &[b"abc", b""], &[b"abc"]];
    for (nth, one) in parts.iter().enumerate() {
        for other in &parts[nth + 1..] {
            assert_ne!(seal.fingerprint_of_parts(one), seal.fingerprint_of_parts(other));
        }
    }
}

#[test]
fn the_same_secret_seals_alike_and_another_does_not() {
    let [one, same, other] =
        [(3, 4), (3, 4), (4, 3)].map(|(low, high)| Secret::new(low, high).seal());
    assert_eq!(one.derive(b"a").fingerprint(b"x"), same.derive(b"a").fingerprint(b"x"));
    assert_ne!(one.derive(b"a").fingerprint(b"x"), one.derive(b"b").fingerprint(b"x"));
    assert_ne!(one.fingerprint(b"x"), other.fingerprint(b"x"));
    assert_eq!(one.derive(b"a"), same.derive(b"a"));
    assert_ne!(one.derive(b"a"), one);
    assert_ne!(one, other);
}

#[test]
fn nobody_reads_a_secret_in_a_log() {
    let secret = Secret::new(3, 4);
    assert_eq!(format!("{secret:?} {:?}", secret.seal()), "Secret(..) Seal(..)");
}
