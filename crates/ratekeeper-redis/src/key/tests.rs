use super::*;

#[test]
fn slots_are_those_of_the_specification() {
    assert_eq!(crc16(b"123456789"), 0x31C3);
    assert_eq!(slot(b"foo"), 12_182);
    assert_eq!(slot(b"ratekeeper:{foo}"), 12_182);
}

#[test]
fn only_what_stands_in_the_first_braces_counts_and_only_if_there_is_something() {
    assert_eq!(hash_tag(b"ratekeeper:{a}b}"), b"a");
    assert_eq!(hash_tag(b"ratekeeper:{{a}"), b"{a");
    assert_eq!(hash_tag(b"ratekeeper:{}"), b"ratekeeper:{}");
    assert_eq!(hash_tag(b"ratekeeper:{}a}"), b"ratekeeper:{}a}");
    assert_eq!(hash_tag(b"ratekeeper"), b"ratekeeper");
}

#[test]
fn a_key_gives_its_name_back() {
    for kind in [Kind::Bucket, Kind::Average, Kind::Quota] {
        let key = kind.key(b"6:a}{b");
        assert_eq!(kind.name(&key), Some(&b"6:a}{b"[..]));
        assert_eq!(kind.name(b"other"), None);
    }
}
