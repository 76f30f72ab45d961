use super::*;

fn joinable(most: usize, replies: &[&[u8]], to: &[usize]) -> usize {
    Sender::new(most).joinable(replies, to)
}

#[test]
fn only_what_is_equally_long_and_for_the_same_client_goes_as_one() {
    let same = [&b"ab"[..], b"cd", b"ef"];
    assert_eq!(joinable(BATCH, &same, &[1, 1, 1]), 3);
    assert_eq!(joinable(BATCH, &same, &[1, 1, 2]), 2, "somebody else");
    assert_eq!(joinable(BATCH, &same, &[1, 2, 1]), 1);
    assert_eq!(joinable(2, &same, &[1, 1, 1]), 2, "no more than was said");
    assert_eq!(joinable(1, &same, &[1, 1, 1]), 1);
    assert_eq!(joinable(BATCH, &[b"ab", b"c", b"de"], &[1, 1, 1]), 2, "a shorter one is last");
    assert_eq!(joinable(BATCH, &[b"ab", b"cde"], &[1, 1]), 1, "a longer one does not fit");
    assert_eq!(joinable(BATCH, &[], &[]), 0);
    let long = vec![0; 40_000];
    assert_eq!(joinable(BATCH, &[&long, &long], &[1, 1]), 1, "too long together");
}
