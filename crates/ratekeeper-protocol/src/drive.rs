//! Drives a door as a connection would, and checks what every door promises, for tests and
//! fuzzers.

use ratekeeper::Moment;

use crate::{Counts, Flow, StreamDoor};

/// What came of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Driven {
    pub(crate) replies: Vec<u8>,
    pub(crate) counts: Counts,
    pub(crate) flow: Flow,
    /// How many requests were not understood before the stream ended.
    pub(crate) malformed: u64,
}

/// Sends `stream` in pieces of the lengths that `next_length` says, and then its end.
///
/// # Panics
///
/// If a door replies more than it promises, or remembers more than `held_max` bytes.
pub(crate) fn drive<D: StreamDoor>(
    door: &D,
    stream: &[u8],
    mut next_length: impl FnMut() -> usize,
    held: impl Fn(&D::Session) -> usize,
    held_max: usize,
) -> Driven {
    let (mut session, mut counts) = (D::Session::default(), Counts::default());
    let (mut replies, mut rest) = (Vec::new(), stream);
    let now = Moment::EPOCH;
    while !rest.is_empty() {
        let length = next_length().clamp(1, rest.len());
        let Some((piece, behind)) = rest.split_at_checked(length) else { break };
        let mut receive = |piece: &[u8]| {
            let before = replies.len();
            let flow = door.receive(&mut session, piece, now, &mut replies, &mut counts);
            assert_ratio::<D>(&replies, before, piece.len());
            flow
        };
        let mut flow = receive(piece);
        while flow == Flow::Again {
            flow = receive(&[]);
        }
        if flow == Flow::Close {
            return Driven { replies, counts, flow, malformed: counts.malformed };
        }
        assert!(held(&session) <= held_max, "{} bytes are held", held(&session));
        rest = behind;
    }
    let (malformed, before) = (counts.malformed, replies.len());
    door.finish(&mut session, now, &mut replies, &mut counts);
    assert_ratio::<D>(&replies, before, 1);
    assert_eq!(held(&session), 0, "nothing is held of a stream that has ended");
    Driven { replies, counts, flow: Flow::Open, malformed }
}

fn assert_ratio<D: StreamDoor>(replies: &[u8], before: usize, sent: usize) {
    let caused = replies.len().saturating_sub(before);
    let allowed = sent.saturating_mul(D::REPLY_BYTES_PER_BYTE).saturating_add(D::REPLY_BYTES_MORE);
    assert!(caused <= allowed, "{sent} bytes caused {caused}");
}

/// Lengths of pieces that depend on nothing but `data`: many short ones, some long.
pub(crate) fn cuts_of(data: &[u8]) -> impl FnMut() -> usize {
    let mix = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let mut state = data.iter().take(64).fold(0xcbf2_9ce4_8422_2325, mix);
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = usize::try_from(state >> 40).unwrap_or(0);
        let max = if bits.is_multiple_of(8) { 0xfff } else { 0xf };
        (bits >> 3) & max
    }
}
