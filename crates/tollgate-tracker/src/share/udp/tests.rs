use super::{Heard, Use, read};

#[test]
fn an_answer_says_whether_there_was_a_token_and_how_many_are_left() {
    let cases = [
        ("7 ok N 0.0 2.0 1", Some((7, true, 1, 1))),
        ("8 ok N 1.0 2.0 1", Some((8, true, 0, 2))),
        ("9 ok Y 2.0 2.0 1", Some((9, false, 0, 2))),
        ("10 ok N 0.0 1000000000000.0 1", Some((10, true, u32::MAX - 1, 1))),
        ("11 pong", Some((11, true, 1, 0))),
        ("12 size=0 keys=0", None),
        ("ok N 0.0 2.0 1", None),
        ("13 ok N", None),
        ("", None),
    ];
    for (text, wanted) in cases {
        let read = read(text.as_bytes()).map(|(id, one)| (id, one.granted, one.left, one.lacks));
        assert_eq!(read, wanted, "{text}");
    }
    assert!(read(b"\xff").is_none());
}

#[test]
fn an_answer_that_comes_twice_is_one_token() {
    let granted = Use { granted: true, left: 1, lacks: 1 };
    let mut heard = Heard::new(7, 3);
    for id in [6, 8, 8, 10, 7, 8, 7 + 64, u64::MAX] {
        heard.add(id, &granted);
        assert!(!heard.is_all(), "{id}");
    }
    assert_eq!(heard.granted, 2);
    heard.add(9, &Use { granted: false, left: 0, lacks: 2 });
    assert!(heard.is_all());
    assert_eq!((heard.granted, heard.left, heard.lacks), (2, 0, 2));
}

#[test]
fn the_largest_ask_has_a_bit_for_each_token() {
    let mut heard = Heard::new(0, 64);
    for id in 0..64 {
        assert!(!heard.is_all());
        heard.add(id, &Use { granted: true, left: 0, lacks: 2 });
    }
    assert!(heard.is_all());
    assert_eq!(heard.granted, 64);
}
