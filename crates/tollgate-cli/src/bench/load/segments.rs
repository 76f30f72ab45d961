//! Many datagrams as one: cut where they go out, joined where they come in. So a system call, and what
//! the kernel does for each, is done once for all of them.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg, setsockopt, sockopt,
};

/// How many datagrams the kernel cuts one into.
pub(crate) const SEGMENTS_MAX: usize = 64;
/// How long they are together, in bytes: a little less than the longest datagram.
const JOINED_BYTES_MAX: usize = 65_000;

/// Has the kernel leave datagrams joined that came so. Refuses where it cannot.
pub(crate) fn join(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::UdpGroSegment, &true)?)
}

/// How many datagrams of so many bytes go into one.
pub(crate) fn fitting(segments: usize, bytes: usize) -> usize {
    segments.min(SEGMENTS_MAX).min(JOINED_BYTES_MAX / bytes.max(1)).max(1)
}

/// Sends `joined`, cut into datagrams of `bytes` each.
pub(crate) fn send(socket: &impl AsRawFd, joined: &[u8], bytes: usize) -> io::Result<()> {
    let bytes = u16::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (slices, control) = ([IoSlice::new(joined)], [ControlMessage::UdpGsoSegments(&bytes)]);
    sendmsg::<()>(socket.as_raw_fd(), &slices, &control, MsgFlags::MSG_DONTWAIT, None)?;
    Ok(())
}

/// Room for datagrams that come joined.
pub(crate) struct Joined {
    bytes: Vec<u8>,
    control: Vec<u8>,
    length: usize,
    /// How long each of them is; the last may be shorter.
    each: usize,
}

impl Joined {
    pub(crate) fn new() -> Self {
        let control = nix::cmsg_space!(i32);
        Self { bytes: vec![0; 1 << 16], control, length: 0, each: 1 }
    }

    /// Receives what came as one. Fails if nothing did.
    pub(crate) fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<()> {
        let mut slices = [IoSliceMut::new(&mut self.bytes)];
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        let received = recvmsg::<()>(fd, &mut slices, Some(&mut self.control), flags)?;
        let each = received.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::UdpGroSegments(each) => usize::try_from(each).ok(),
            _ => None,
        });
        self.length = received.bytes;
        self.each = each.unwrap_or(received.bytes).max(1);
        Ok(())
    }

    /// What was received, each by itself.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[..self.length].chunks(self.each)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn pair() -> [UdpSocket; 2] {
        let pair = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        pair[0].connect(pair[1].local_addr().unwrap()).unwrap();
        pair[1].connect(pair[0].local_addr().unwrap()).unwrap();
        pair
    }

    #[test]
    fn what_goes_out_as_one_comes_in_as_many_joined_or_not() {
        let [from, to] = pair();
        send(&from, b"aabbc", 2).unwrap();
        let mut bytes = [0; 9];
        for expected in [&b"aa"[..], b"bb", b"c"] {
            let length = to.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], expected);
        }
        join(&to).unwrap();
        send(&from, b"aabbc", 2).unwrap();
        let mut joined = Joined::new();
        joined.receive(&to).unwrap();
        assert_eq!(joined.datagrams().collect::<Vec<_>>(), [&b"aa"[..], b"bb", b"c"]);
    }

    #[test]
    fn a_datagram_that_came_alone_is_one() {
        let [from, to] = pair();
        join(&to).unwrap();
        from.send(b"alone").unwrap();
        let mut joined = Joined::new();
        joined.receive(&to).unwrap();
        assert_eq!(joined.datagrams().collect::<Vec<_>>(), [b"alone"]);
        assert_eq!(joined.receive(&to).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn no_more_are_joined_than_a_datagram_holds() {
        assert_eq!([fitting(64, 40), fitting(1_000, 40), fitting(64, 2_000)], [64, 64, 32]);
        assert_eq!([fitting(0, 40), fitting(64, 0), fitting(64, 100_000)], [1, 64, 1]);
    }
}
