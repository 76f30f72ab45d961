//! Many datagrams in one system call, and several of the same length as one.
//!
//! The system takes datagrams of the same length, the last of which may be shorter, as one that it
//! cuts where it has to (`UDP_SEGMENT`), and hands over several as one to who takes them
//! (`UDP_GRO`). They then pass through the system once. Whoever is at the other end sees no difference.

use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage,
    recvmmsg, sendmmsg, setsockopt,
};

/// How many datagrams are received or sent at once, and how many can be sent as one.
pub const BATCH: usize = 64;

/// How many the system is offered room for at least.
const ROOMS_MIN: usize = 4;

/// All that a connected socket sends to: whoever it is connected to.
pub const CONNECTED: [Option<SockaddrStorage>; 1] = [None];

/// How many bytes several datagrams can have that are received as one.
const JOINED_BYTES_MAX: usize = 64 << 10;
/// How many they can have to be sent as one: what fits a packet of IPv4.
const JOINABLE_BYTES_MAX: usize = 65_507;

/// Room for a batch of datagrams.
pub struct Receiver {
    headers: MultiHeaders<SockaddrStorage>,
    /// Whether one that is received may be several.
    is_joined: bool,
    /// Whether the headers are as they were made.
    is_fresh: bool,
    bytes: Vec<u8>,
    room_bytes: usize,
    /// How many rooms the system is offered: preparing them takes time, so only as many as are likely
    /// to be needed.
    rooms: usize,
    received: [Received; BATCH],
    count: usize,
    is_full: bool,
}

/// What is in one of the rooms.
#[derive(Clone, Copy, Default)]
struct Received {
    bytes: usize,
    /// How many bytes each datagram in it has; the last may have less.
    each: usize,
    source: Option<SockaddrStorage>,
}

/// A datagram.
pub(super) struct Part<'r> {
    pub(super) bytes: &'r [u8],
    /// What came as one is in one room.
    pub(super) room: usize,
    /// Whether it came as one with others.
    pub(super) is_joined: bool,
}

impl Receiver {
    /// Room for datagrams of up to `datagram_bytes`; of longer ones so many bytes are received.
    pub fn new(datagram_bytes: usize) -> Self {
        Self::with(MultiHeaders::preallocate(BATCH, None), false, datagram_bytes)
    }

    /// The same for a socket whose datagrams may come as one, if the system knows how.
    pub fn joining(socket: &impl AsFd, datagram_bytes: usize) -> Self {
        match join(socket) {
            Ok(()) => Self::joined(),
            Err(_) => Self::new(datagram_bytes),
        }
    }

    /// Room for datagrams of any length, from sockets that were told to [`join`] them.
    pub fn joined() -> Self {
        Self::with(headers_of_joined(ROOMS_MIN), true, JOINED_BYTES_MAX)
    }

    fn with(headers: MultiHeaders<SockaddrStorage>, is_joined: bool, room_bytes: usize) -> Self {
        let bytes = vec![0; BATCH * room_bytes];
        let received = [Received::default(); BATCH];
        Self {
            headers,
            is_joined,
            is_fresh: true,
            bytes,
            room_bytes,
            rooms: ROOMS_MIN,
            received,
            count: 0,
            is_full: false,
        }
    }

    /// Receives what has arrived, up to a batch, or more if several came as one. Fails if nothing
    /// has.
    pub fn receive(&mut self, socket: &impl AsRawFd) -> Result<(), Errno> {
        (self.count, self.is_full) = (0, false);
        if self.is_joined && !self.is_fresh {
            // The system leaves in them how much of the room for what it tells was taken, and
            // nobody gives it back.
            self.headers = headers_of_joined(self.rooms);
            self.is_fresh = true;
        }
        // Making room for a whole batch would take longer than receiving one datagram.
        match self.rooms {
            ROOMS_MIN => self.receive_up_to::<ROOMS_MIN>(socket),
            _ => self.receive_up_to::<BATCH>(socket),
        }
    }

    fn receive_up_to<const MOST: usize>(&mut self, socket: &impl AsRawFd) -> Result<(), Errno> {
        let mut rooms = self.bytes.chunks_exact_mut(self.room_bytes).take(self.rooms);
        let mut slices: [[IoSliceMut<'_>; 1]; MOST] =
            std::array::from_fn(|_| [IoSliceMut::new(rooms.next().unwrap_or_default())]);
        let slices = slices.iter_mut().take(self.rooms);
        let now = MsgFlags::MSG_DONTWAIT;
        let received = recvmmsg(socket.as_raw_fd(), &mut self.headers, slices, now, None)?;
        self.is_fresh = false;
        for message in received {
            let each = each(&message).unwrap_or(self.room_bytes);
            self.received[self.count] =
                Received { bytes: message.bytes, each, source: message.address };
            self.count += 1;
        }
        self.is_full = self.count == self.rooms;
        self.rooms = if self.is_full { self.rooms * 2 } else { self.count + 1 };
        self.rooms = self.rooms.clamp(ROOMS_MIN, BATCH);
        Ok(())
    }

    /// Whether there may be more than what was received.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// What was received, and from whom.
    pub fn datagrams(&self) -> impl Iterator<Item = (&[u8], Option<&SockaddrStorage>)> {
        self.parts().map(|part| (part.bytes, self.source(part.room)))
    }

    /// The same, and what came as one.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let rooms = self.bytes.chunks_exact(self.room_bytes);
        rooms.zip(&self.received[..self.count]).enumerate().flat_map(|(room, (bytes, it))| {
            let Received { bytes: length, each, .. } = *it;
            // An empty one is one too.
            let count = length.div_ceil(each).max(1);
            (0..count).map(move |index| {
                let begin = index * each;
                let bytes = &bytes[begin..length.min(begin + each)];
                Part { bytes, room, is_joined: count > 1 }
            })
        })
    }

    /// Who sent what is in a room.
    pub(super) fn source(&self, room: usize) -> Option<&SockaddrStorage> {
        self.received[room].source.as_ref()
    }
}

/// Has the system hand over datagrams as one that came as one. Refuses if it does not know how.
pub fn join(socket: &impl AsFd) -> Result<(), Errno> {
    setsockopt(socket, UdpGroSegment, &true)
}

fn headers_of_joined(rooms: usize) -> MultiHeaders<SockaddrStorage> {
    MultiHeaders::preallocate(rooms, Some(cmsg_space!(i32)))
}

/// How many bytes each datagram has, if several were received as one.
fn each(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Option<usize> {
    message.cmsgs().ok()?.find_map(|told| match told {
        ControlMessageOwned::UdpGroSegments(bytes) => {
            usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
        }
        _ => None,
    })
}

/// What is to be sent in one call.
pub struct Sender {
    headers: MultiHeaders<SockaddrStorage>,
    /// With room to tell how long each is of those that are sent as one.
    joined: MultiHeaders<SockaddrStorage>,
    joined_max: usize,
    /// What is sent as one, in one piece: the system takes longer over many.
    bytes: Vec<u8>,
    /// Where to, of those that are sent each for itself.
    targets: Vec<Option<SockaddrStorage>>,
}

impl Sender {
    /// Room for a batch, of which up to `joined_max` are sent as one.
    pub fn new(joined_max: usize) -> Self {
        Self {
            headers: MultiHeaders::preallocate(BATCH, None),
            joined: MultiHeaders::preallocate(1, Some(cmsg_space!(u16))),
            joined_max: joined_max.min(BATCH),
            bytes: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Room for a batch, of which as many are sent as one as the system knows how to cut.
    pub fn joining(socket: &impl AsFd) -> Self {
        // An old one would not refuse to cut, but send all as one.
        let can_cut = setsockopt(socket, UdpGsoSegment, &0).is_ok();
        Self::new(if can_cut { BATCH } else { 1 })
    }

    /// One like this.
    pub(super) fn another(&self) -> Self {
        Self::new(self.joined_max)
    }

    /// Sends up to a batch: each reply to the one of `all` whose place `to` says. Returns how many were
    /// sent.
    pub fn send(
        &mut self,
        socket: &impl AsRawFd,
        replies: &[&[u8]],
        to: &[usize],
        all: &[Option<SockaddrStorage>],
    ) -> Result<usize, Errno> {
        let joinable = self.joinable(replies, to);
        if joinable > 1 {
            match self.send_joined(socket, &replies[..joinable], all[to[0]]) {
                // They are too long for the way, or it will not: then each for itself.
                Err(error) if error != Errno::EAGAIN => {}
                sent => return sent.map(|()| joinable),
            }
            return self.send_each(socket, &replies[..joinable], to, all);
        }
        let is_alone = |at: &usize| self.joinable(&replies[*at..], &to[*at..]) == 1;
        let alone = 1 + (1..replies.len()).take_while(is_alone).count();
        self.send_each(socket, &replies[..alone.min(replies.len())], to, all)
    }

    /// How many of them, from the first, can be sent as one.
    fn joinable(&self, replies: &[&[u8]], to: &[usize]) -> usize {
        let (Some(first), Some(target)) = (replies.first(), to.first()) else { return 0 };
        let most = self.joined_max.min(JOINABLE_BYTES_MAX / first.len().max(1)).max(1);
        let others = replies.iter().zip(to).take(most).skip(1);
        let fit = others.take_while(|(it, to)| it.len() <= first.len() && *to == target);
        // Whoever is shorter is the last.
        let mut count = 1;
        for (reply, _) in fit {
            count += 1;
            if reply.len() < first.len() {
                break;
            }
        }
        count
    }

    fn send_joined(
        &mut self,
        socket: &impl AsRawFd,
        replies: &[&[u8]],
        target: Option<SockaddrStorage>,
    ) -> Result<(), Errno> {
        let each = replies.first().map_or(0, |reply| reply.len());
        let each = u16::try_from(each).map_err(|_| Errno::EMSGSIZE)?;
        self.bytes.clear();
        for reply in replies {
            self.bytes.extend_from_slice(reply);
        }
        let slices = [[IoSlice::new(&self.bytes)]];
        let told = [ControlMessage::UdpGsoSegments(&each)];
        let flags = MsgFlags::MSG_DONTWAIT;
        sendmmsg(socket.as_raw_fd(), &mut self.joined, &slices, [target], told, flags)?;
        Ok(())
    }

    fn send_each(
        &mut self,
        socket: &impl AsRawFd,
        replies: &[&[u8]],
        to: &[usize],
        all: &[Option<SockaddrStorage>],
    ) -> Result<usize, Errno> {
        let (fd, headers, now) = (socket.as_raw_fd(), &mut self.headers, MsgFlags::MSG_DONTWAIT);
        // Most often it is one, and the slices of a whole batch would take as long as the rest.
        if let [reply] = replies {
            let slices = [[IoSlice::new(reply)]];
            return Ok(sendmmsg(fd, headers, &slices, [all[to[0]]], [], now)?.count());
        }
        let mut slices = [[IoSlice::new(&[])]; BATCH];
        for (slice, reply) in slices.iter_mut().zip(replies) {
            *slice = [IoSlice::new(reply)];
        }
        let slices = &slices[..replies.len().min(BATCH)];
        self.targets.clear();
        self.targets.extend(to.iter().take(slices.len()).map(|at| all[*at]));
        let sent = sendmmsg(fd, headers, slices, &self.targets, [], now)?;
        Ok(sent.count())
    }
}

/// A number for whoever a datagram came from: seldom that of somebody else.
pub(super) fn client(source: &SockaddrStorage) -> u64 {
    match address(source) {
        Some(SocketAddr::V4(it)) => u64::from(it.ip().to_bits()) << 16 | u64::from(it.port()),
        Some(SocketAddr::V6(it)) => {
            let bits = it.ip().to_bits();
            let half = bits >> 64 ^ bits & u128::from(u64::MAX);
            u64::try_from(half).unwrap_or_default() ^ u64::from(it.port())
        }
        None => 0,
    }
}

/// The address that a datagram came from.
pub(super) fn address(source: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = || source.as_sockaddr_in().map(|it| SocketAddr::V4(SocketAddrV4::from(*it)));
    let v6 = || source.as_sockaddr_in6().map(|it| SocketAddr::V6(SocketAddrV6::from(*it)));
    v4().or_else(v6)
}

#[cfg(test)]
mod tests;
