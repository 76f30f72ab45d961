use super::read;

#[test]
fn an_answer_says_whether_there_was_a_token_and_how_many_are_left() {
    let cases = [
        ("7 ok N 0.0 2.0 1", Some((7, true, 1))),
        ("8 ok N 1.0 2.0 1", Some((8, true, 0))),
        ("9 ok Y 2.0 2.0 1", Some((9, false, 0))),
        ("10 ok N 0.0 1000000000000.0 1", Some((10, true, u32::MAX - 1))),
        ("11 pong", Some((11, true, 1))),
        ("12 size=0 keys=0", None),
        ("ok N 0.0 2.0 1", None),
        ("13 ok N", None),
        ("", None),
    ];
    for (text, wanted) in cases {
        let read = read(text.as_bytes()).map(|(id, one)| (id, one.granted, one.left));
        assert_eq!(read, wanted, "{text}");
    }
    assert!(read(b"\xff").is_none());
}
