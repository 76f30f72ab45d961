use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;

use super::{BODY_WAIT_MAX, Replayed};
use crate::BODY_BYTES_MAX;

/// A body of given pieces; then it ends, fails, or never goes on.
struct Pieces {
    frames: VecDeque<Frame<Bytes>>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    End,
    Fail,
    Hang,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        match (self.frames.pop_front(), self.then) {
            (Some(frame), _) => Poll::Ready(Some(Ok(frame))),
            (None, Then::End) => Poll::Ready(None),
            (None, Then::Fail) => Poll::Ready(Some(Err("broken"))),
            (None, Then::Hang) => Poll::Pending,
        }
    }
}

fn pieces(texts: &[&'static str], then: Then) -> Pieces {
    let frames = texts.iter().map(|text| Frame::data(Bytes::from_static(text.as_bytes())));
    Pieces { frames: frames.collect(), then }
}

#[tokio::test]
async fn what_was_read_is_read_again_with_its_trailers() {
    let mut body = pieces(&["{\"retry", "_after\":1}"], Then::End);
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", "yes".parse().unwrap());
    body.frames.push_back(Frame::trailers(trailers.clone()));
    let (body, read) = Replayed::read(body).await;
    assert_eq!(read.unwrap(), b"{\"retry_after\":1}");
    assert_eq!(body.size_hint().exact(), Some(17));
    let again = body.collect().await.unwrap();
    assert_eq!(again.trailers(), Some(&trailers));
    assert_eq!(again.to_bytes(), "{\"retry_after\":1}");
}

#[tokio::test]
async fn a_body_that_breaks_off_breaks_off_at_the_same_place() {
    let (mut body, read) = Replayed::read(pieces(&["half"], Then::Fail)).await;
    assert_eq!(read, None);
    assert!(!body.is_end_stream());
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn no_more_is_read_ahead_than_there_is_room_for() {
    let piece: &'static str = "x".repeat(1 << 10).leak();
    let count = 4 * BODY_BYTES_MAX / piece.len();
    let (body, read) = Replayed::read(pieces(&vec![piece; count], Then::End)).await;
    assert_eq!(read, None, "it is too long to be an API's");
    assert!(body.rest.frames.len() > count / 2);
    let again = body.collect().await.unwrap().to_bytes();
    assert_eq!(again.len(), count * piece.len());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_is_handed_on_after_a_while() {
    let began = tokio::time::sleep(Duration::ZERO).deadline();
    let (mut body, read) = Replayed::read(pieces(&["some"], Then::Hang)).await;
    assert_eq!((began.elapsed(), read), (BODY_WAIT_MAX, None));
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "some");
}

#[tokio::test]
async fn an_untouched_body_is_the_same() {
    let inner = http_body_util::Full::new(Bytes::from_static(b"all of it"));
    let body = Replayed::untouched(inner);
    assert_eq!(body.size_hint().exact(), Some(9));
    let all: Result<_, Infallible> = body.collect().await;
    assert_eq!(all.unwrap().to_bytes(), "all of it");
}
