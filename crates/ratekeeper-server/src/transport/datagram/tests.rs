use std::net::SocketAddrV4;

use nix::sys::socket::SockaddrStorage;
use ratekeeper_protocol::{Replies, udp};

use super::{Askers, Origin, Outgoing};

fn client(port: u16) -> SockaddrStorage {
    SocketAddrV4::new([127, 0, 0, 1].into(), port).into()
}

/// The places of clients, each a port and whether it sent several as one.
fn places(sent: &[(u16, bool)]) -> Vec<usize> {
    let mut askers = Askers::default();
    sent.iter().map(|(port, is_joined)| askers.place(Some(&client(*port)), *is_joined)).collect()
}

#[test]
fn who_sends_several_as_one_has_one_place_also_if_others_send_in_between() {
    assert_eq!(places(&[(1, true), (2, true), (1, true), (2, true)]), [0, 1, 0, 1]);
    assert_eq!(places(&[(1, true), (2, false), (1, true)]), [0, 1, 0]);
}

#[test]
fn who_sends_one_by_one_has_one_place_as_long_as_nobody_sends_in_between() {
    assert_eq!(places(&[(1, false), (1, false), (2, false), (1, false)]), [0, 0, 1, 2]);
}

#[test]
fn who_sends_one_and_then_several_as_one_has_one_place() {
    assert_eq!(places(&[(1, false), (1, true), (2, true), (1, true)]), [0, 0, 1, 0]);
}

/// What is sent, and the place of whom to. Requests are answered by what follows their first byte.
fn arranged(asked: &[(&str, usize, bool)]) -> Vec<(String, usize)> {
    let requests: Vec<&[u8]> = asked.iter().map(|(request, ..)| request.as_bytes()).collect();
    let origin =
        |(_, asker, is_joined): &(_, usize, bool)| Origin { asker: *asker, is_joined: *is_joined };
    let origins: Vec<Origin> = asked.iter().map(origin).collect();
    let mut replies = Replies::default();
    for request in &requests {
        replies.push_with(|out| out.extend_from_slice(&request[1..]));
    }
    let mut outgoing = Outgoing::default();
    outgoing.arrange::<udp::Door>(&requests, &origins, &replies);
    let text = |reply: &&[u8]| String::from_utf8_lossy(reply).into_owned();
    outgoing.replies.iter().map(text).zip(outgoing.to).collect()
}

fn told(sent: &[(&str, usize)]) -> Vec<(String, usize)> {
    sent.iter().map(|(reply, to)| ((*reply).to_owned(), *to)).collect()
}

#[test]
fn replies_to_one_client_that_are_equally_long_come_one_behind_the_other() {
    let asked = [("1b", 0, true), ("1aa", 0, true), ("1c", 1, true), ("1d", 0, true)];
    assert_eq!(arranged(&asked), told(&[("aa", 0), ("b", 0), ("d", 0), ("c", 1)]));
}

#[test]
fn what_came_alone_or_cannot_be_told_apart_keeps_its_order() {
    let asked = [("1b", 0, false), ("1aa", 0, false), ("1c", 1, false)];
    assert_eq!(arranged(&asked), told(&[("b", 0), ("aa", 0), ("c", 1)]));
    let asked = [("xb", 0, true), ("1c", 0, true), ("xaa", 0, true), ("1dd", 0, true)];
    assert_eq!(arranged(&asked), told(&[("b", 0), ("aa", 0), ("dd", 0), ("c", 0)]));
}

#[test]
fn empty_replies_are_not_sent() {
    let asked = [("1", 0, true), ("1b", 1, true), ("1", 1, true), ("1cc", 1, true)];
    assert_eq!(arranged(&asked), told(&[("cc", 1), ("b", 1)]));
}
