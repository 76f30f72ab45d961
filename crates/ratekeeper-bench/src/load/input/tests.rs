use super::*;

#[test]
fn bytes_come_in_behind_and_leave_in_front() {
    let mut input = Input::default();
    for round in 0..10_000 {
        let room = input.room().unwrap();
        room[..3].copy_from_slice(b"abc");
        input.grow(3);
        assert!(input.bytes().ends_with(b"abc"), "{round}");
        input.skip(3 - usize::from(round % 7 == 0));
    }
    assert_eq!(input.shown().len(), SHOWN_BYTES_MAX);
    input.clear();
    assert!(input.bytes().is_empty());
}

#[test]
fn an_answer_without_an_end_is_not_waited_for() {
    let mut input = Input::default();
    while let Some(room) = input.room() {
        let length = room.len();
        input.grow(length);
    }
    assert_eq!(input.bytes().len(), ANSWER_BYTES_MAX);
}
