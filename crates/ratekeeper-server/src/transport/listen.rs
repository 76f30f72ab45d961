//! Opening sockets: one per worker on the same address, among which the system spreads clients.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
#[cfg(target_os = "linux")]
use std::os::unix;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use socket2::{Domain, Protocol, Socket, Type};

/// How many connections may wait to be accepted, per worker.
const BACKLOG: i32 = 4096;
/// How much the system holds for a worker that is busy, in each direction. It may give less.
const UDP_BUFFER_BYTES: usize = 4 << 20;
/// How long a server waits for its turn to open a port: opening one takes less than a millisecond.
const CLAIM_TIME_MAX: Duration = Duration::from_secs(1);
/// How long it waits before it tries again.
const CLAIM_RETRY: Duration = Duration::from_millis(2);
const CLAIM_TRIES_MAX: u128 = CLAIM_TIME_MAX.as_nanos() / CLAIM_RETRY.as_nanos();

/// The sockets of one door.
#[derive(Debug)]
pub(crate) struct Listening<S> {
    pub(crate) address: SocketAddr,
    /// One per worker.
    pub(crate) sockets: Vec<S>,
}

/// Why a door cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Anybody could reach it, and nobody said who may.
    #[error(
        "the {door} door would listen on {address}, which is not loopback, for everybody: say who \
         may come with --{door}-allow (such as 10.0.0.0/8), or {door}.allow in ratekeeper.yaml"
    )]
    Open {
        /// The door.
        door: &'static str,
        /// Where it would listen.
        address: SocketAddr,
    },
    /// Anybody could reach the HTTP door, and need not say who he is.
    #[error(
        "the http door would listen on {address}, which is not loopback, and let everybody do \
         everything: give it tokens with --http-tokens (a file of lines NAME ROLE TOKEN), or ask \
         for certificates with --http-client-ca, or set http.tokens or http.client_ca in \
         ratekeeper.yaml"
    )]
    Unguarded {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// Somebody else has the port.
    #[error(
        "the {door} door cannot listen on {address}, because another program does, perhaps another \
         Ratekeeper (`ss -ltunp` shows which): stop it, choose another port with {}, or close the door \
         with {} off",
        flag(door, Some(address)),
        flag(door, None)
    )]
    Taken {
        /// The door.
        door: &'static str,
        /// Where it would listen.
        address: SocketAddr,
    },
    /// The system refuses.
    #[error("the {door} door cannot listen on {address}")]
    Bind {
        /// The door.
        door: &'static str,
        /// Where it would listen.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// Opens TCP sockets. Refuses an address that others can reach without a list of who may.
pub(crate) fn tcp(
    door: &'static str,
    address: SocketAddr,
    allow: &[IpNet],
    workers: usize,
) -> Result<Listening<TcpListener>, ListenError> {
    refuse_open(door, address, allow)?;
    open_all(door, address, workers, Type::STREAM)
}

/// Opens TCP sockets of a door that sees to it itself who may do what.
pub(crate) fn guarded_tcp(
    door: &'static str,
    address: SocketAddr,
    workers: usize,
) -> Result<Listening<TcpListener>, ListenError> {
    open_all(door, address, workers, Type::STREAM)
}

/// Opens UDP sockets. Refuses an address that others can reach without a list of who may.
pub(crate) fn udp(
    door: &'static str,
    address: SocketAddr,
    allow: &[IpNet],
    workers: usize,
) -> Result<Listening<UdpSocket>, ListenError> {
    refuse_open(door, address, allow)?;
    open_all(door, address, workers, Type::DGRAM)
}

fn refuse_open(
    door: &'static str,
    address: SocketAddr,
    allow: &[IpNet],
) -> Result<(), ListenError> {
    if allow.is_empty() && !address.ip().to_canonical().is_loopback() {
        return Err(ListenError::Open { door, address });
    }
    Ok(())
}

fn open_all<S: From<Socket>>(
    door: &'static str,
    address: SocketAddr,
    workers: usize,
    kind: Type,
) -> Result<Listening<S>, ListenError> {
    let open_all = || {
        let _only_one = claim(address, kind);
        let first = open_alone(address, kind)?;
        let address = first.local_addr()?.as_socket().unwrap_or(address);
        let mut sockets = vec![S::from(first)];
        for _ in 1..workers {
            let socket = plain_socket(address, kind)?;
            socket.set_reuse_port(true)?;
            sockets.push(S::from(occupy(socket, address, kind)?));
        }
        Ok(Listening { address, sockets })
    };
    open_all().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken { door, address },
        _ => ListenError::Bind { door, address, source },
    })
}

/// The argument that says where a door listens; with an address, as an example of another port.
fn flag(door: &str, taken: Option<&SocketAddr>) -> String {
    match taken {
        Some(taken) => {
            let next = taken.port().checked_add(1).unwrap_or(1024);
            format!("--{door} {}", SocketAddr::new(taken.ip(), next))
        }
        None => format!("--{door}"),
    }
}

/// The turn to open sockets on a port, until this is dropped. Two TCP sockets that begin to listen at the
/// same moment can each be refused because of the other, so while one server tries, the others wait. It is
/// a name that the system knows as long as a process has it, in the same network as the port; it does not
/// say which address, because `0.0.0.0` and `127.0.0.1` are in each other's way too.
///
/// Nobody waits for it for long: any program of this machine can have such a name, and then, or where there
/// are no such names, the sockets alone decide.
#[cfg(target_os = "linux")]
fn claim(address: SocketAddr, kind: Type) -> Option<UnixDatagram> {
    use std::os::linux::net::SocketAddrExt;

    if address.port() == 0 {
        // It will be one that nobody has.
        return None;
    }
    let transport = if kind == Type::STREAM { "tcp" } else { "udp" };
    let name = format!("ratekeeper opens {transport} {}", address.port());
    let name = unix::net::SocketAddr::from_abstract_name(name).ok()?;
    for _ in 0..CLAIM_TRIES_MAX {
        match UnixDatagram::bind_addr(&name) {
            Ok(claim) => return Some(claim),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                thread::park_timeout(CLAIM_RETRY);
            }
            Err(_) => return None,
        }
    }
    tracing::debug!(%address, "somebody else has been opening this port for long");
    None
}

#[cfg(not(target_os = "linux"))]
fn claim(_: SocketAddr, _: Type) -> Option<UnixDatagram> {
    None
}

/// The first socket of an address. It is opened as one that shares its address with nobody, so where
/// another server is, also one that began a moment ago, the system refuses it. Only
/// then may the sockets of the other workers join it: a server that comes later does not ask to
/// share with its first socket, and is refused for as long as one of these is open.
fn open_alone(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = occupy(plain_socket(address, kind)?, address, kind)?;
    socket.set_reuse_port(true)?;
    Ok(socket)
}

/// Gives a socket its address.
fn occupy(socket: Socket, address: SocketAddr, kind: Type) -> io::Result<Socket> {
    socket.set_nonblocking(true)?;
    if kind == Type::STREAM {
        // Connections that were closed a moment ago are no reason to refuse.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    if kind == Type::STREAM {
        socket.listen(BACKLOG)?;
    } else {
        // As much as the system allows; less only means that a burst is lost earlier.
        let _ = socket.set_recv_buffer_size(UDP_BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(UDP_BUFFER_BYTES);
    }
    Ok(socket)
}

fn plain_socket(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        // `[::]` is every address, also those of IPv4.
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests;
