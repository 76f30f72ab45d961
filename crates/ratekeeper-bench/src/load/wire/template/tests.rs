use super::*;

#[test]
fn keys_are_written_where_there_is_room_for_them() {
    let template = Template::new(1_000).bytes(b"\0").text("a{key}b{key}");
    let mut out = b"before ".to_vec();
    template.write(7, &mut out);
    template.write(999, &mut out);
    assert_eq!(out, b"before \0a007b007\0a999b999");
    assert_eq!(template.length("a{key}b{key}"), 8);
}

#[test]
fn all_keys_have_as_many_digits_as_the_last() {
    for (keys, digits) in [(1, 1), (10, 1), (11, 2), (100, 2), (10_000_000, 7)] {
        assert_eq!(Template::new(keys).length(HOLE), digits, "{keys}");
    }
}
