//! Many datagrams in one system call.

use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

/// How many datagrams are received or sent at once.
pub const BATCH: usize = 64;

/// The targets of datagrams that all go where their socket is connected to.
pub const CONNECTED: [Option<SockaddrStorage>; BATCH] = [None; BATCH];

/// Room for a batch of datagrams.
pub struct Receiver {
    headers: MultiHeaders<SockaddrStorage>,
    bytes: Vec<u8>,
    datagram_bytes: usize,
    lengths: [usize; BATCH],
    sources: [Option<SockaddrStorage>; BATCH],
    count: usize,
}

impl Receiver {
    /// Room for datagrams of up to `datagram_bytes`; of longer ones so many bytes are received.
    pub fn new(datagram_bytes: usize) -> Self {
        Self {
            headers: MultiHeaders::preallocate(BATCH, None),
            bytes: vec![0; BATCH * datagram_bytes],
            datagram_bytes,
            lengths: [0; BATCH],
            sources: [None; BATCH],
            count: 0,
        }
    }

    /// Receives what has arrived, up to a batch. Fails if nothing has.
    pub fn receive(&mut self, socket: &impl AsRawFd) -> Result<(), Errno> {
        self.count = 0;
        let mut rooms = self.bytes.chunks_exact_mut(self.datagram_bytes);
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
            std::array::from_fn(|_| [IoSliceMut::new(rooms.next().unwrap_or_default())]);
        let received = recvmmsg(
            socket.as_raw_fd(),
            &mut self.headers,
            slices.iter_mut(),
            MsgFlags::MSG_DONTWAIT,
            None,
        )?;
        for message in received {
            self.lengths[self.count] = message.bytes;
            self.sources[self.count] = message.address;
            self.count += 1;
        }
        Ok(())
    }

    /// What was received, and from whom.
    pub fn datagrams(&self) -> impl Iterator<Item = (&[u8], Option<SockaddrStorage>)> {
        let rooms = self.bytes.chunks_exact(self.datagram_bytes);
        let received = self.lengths.iter().zip(&self.sources).take(self.count);
        rooms.zip(received).map(|(room, (length, source))| (&room[..*length], *source))
    }
}

/// What is to be sent in one call.
pub struct Sender {
    headers: MultiHeaders<SockaddrStorage>,
}

impl Sender {
    /// Room for a batch.
    #[expect(clippy::new_without_default, reason = "an empty sender is nobody's default")]
    pub fn new() -> Self {
        Self { headers: MultiHeaders::preallocate(BATCH, None) }
    }

    /// Sends up to a batch, each reply to its target. Returns how many were sent.
    pub fn send(
        &mut self,
        socket: &impl AsRawFd,
        replies: &[&[u8]],
        targets: &[Option<SockaddrStorage>],
    ) -> Result<usize, Errno> {
        let slices: [[IoSlice<'_>; 1]; BATCH] = std::array::from_fn(|index| {
            [IoSlice::new(replies.get(index).copied().unwrap_or_default())]
        });
        let count = replies.len().min(BATCH);
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent =
            sendmmsg(socket.as_raw_fd(), &mut self.headers, &slices[..count], targets, [], flags)?;
        Ok(sent.count())
    }
}

/// The address that a datagram came from.
pub(super) fn address(source: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = || source.as_sockaddr_in().map(|it| SocketAddr::V4(SocketAddrV4::from(*it)));
    let v6 = || source.as_sockaddr_in6().map(|it| SocketAddr::V6(SocketAddrV6::from(*it)));
    v4().or_else(v6)
}
