use super::*;

fn head(kind: u8, flags: u8, payload_bytes: usize) -> FrameHead {
    FrameHead { payload_bytes, kind, flags }
}

/// How many such frames, one after the other, a client may send at once.
fn admitted(frames: &[FrameHead]) -> usize {
    let mut budget = FrameBudget::new(Moment::EPOCH);
    frames.iter().cycle().take(100_000).take_while(|it| budget.take(**it)).count()
}

#[test]
fn what_asks_for_nothing_is_bounded_and_requests_are_not() {
    let max = CONTROL_FRAMES_MAX as usize;
    for kind in [2, 4, 5, 6, 7, 8, 9, 10, 255] {
        assert_eq!(admitted(&[head(kind, 0, 8)]), max, "{kind}");
    }
    assert_eq!(admitted(&[head(DATA, 0, 0)]), max);
    assert_eq!(admitted(&[head(DATA, PADDED | END_STREAM, 9)]), max);
    assert_eq!(admitted(&[head(RST_STREAM, 0, 4)]), max / 5);
    let reset = admitted(&[head(HEADERS, 4, 30), head(RST_STREAM, 0, 4)]);
    assert!((2 * (max - 10)..=2 * max).contains(&reset), "{reset}");
    let request = [head(HEADERS, 4, 30), head(DATA, 0, 36), head(DATA, END_STREAM, 0)];
    let busy = [&request[..], &[head(8, 0, 4); 2], &[head(6, 0, 8)]].concat();
    assert_eq!(admitted(&busy), 100_000);
}

#[test]
fn what_was_spent_comes_back_with_time_and_with_answers() {
    let mut budget = FrameBudget::new(Moment::EPOCH);
    let ping = head(6, 0, 8);
    while budget.take(ping) {}
    budget.refill(Moment::from_nanos(999_999_999));
    assert_eq!((0..99).filter(|_| budget.take(ping)).count(), 63);
    budget.answered(ANSWER_BYTES_PER_FRAME - 1);
    assert!(!budget.take(ping));
    budget.answered(1);
    assert!(budget.take(ping) && !budget.take(ping));
}

#[test]
fn heads_are_found_however_the_stream_is_cut() {
    let stream = b"\0\0\x02\x06\x01\0\0\0\0ab\0\0\0\x04\0\0\0\0\0\0\0\x01\0\x09\0\0\0\x01x";
    let expected = [head(6, 1, 2), head(4, 0, 0), head(0, 9, 1)];
    for length in 1..=stream.len() {
        let (mut heads, mut found) = (FrameHeads::default(), Vec::new());
        for piece in stream.chunks(length) {
            heads.pass(piece, |head| found.push(head));
        }
        assert_eq!(found, expected, "in pieces of {length}");
        assert!(heads.is_between_frames());
    }
}
