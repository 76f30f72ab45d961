//! Asking over UDP: a datagram for each token.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tollgate::Nanos;

use super::DeskError;
use super::till::{Answer, Ask, TOKENS_MAX};

/// How long a datagram may take before it is taken for lost.
const DATAGRAM_MAX: Duration = Duration::from_millis(150);
/// How often to ask, as an answer does not say when there is more.
const POLL: Nanos = Nanos::new(4_000_000);
/// No answer of the server is as long as this.
const ANSWER_BYTES_MAX: usize = 2_048;

pub(crate) struct UdpDesk {
    server: SocketAddr,
    key: String,
    socket: Option<UdpSocket>,
    next: u64,
}

/// What the server says of one use.
struct Use {
    granted: bool,
    left: u32,
    lacks: u32,
}

impl UdpDesk {
    pub(super) fn new(server: SocketAddr, key: &str) -> Self {
        Self { server, key: key.to_owned(), socket: None, next: 0 }
    }

    /// Asks until there is an answer; a datagram that is lost may have taken a token with it.
    pub(super) async fn ask(&mut self, ask: &Ask) -> Result<Answer, DeskError> {
        loop {
            let answer = tokio::time::timeout(DATAGRAM_MAX, self.exchange(ask.spend)).await;
            match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => {
                    // Another socket next time: the system may have changed its addresses.
                    self.socket = None;
                    return Err(DeskError::Unreachable(Box::new(error)));
                }
                Err(_) => {}
            }
        }
    }

    async fn exchange(&mut self, spend: u32) -> std::io::Result<Answer> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => open(self.server).await?,
        };
        let first = self.next;
        let count = spend.max(1);
        self.next += u64::from(count);
        for id in first..self.next {
            let text = match spend {
                0 => format!("{id} ping"),
                _ => format!("{id} over_limit {}", self.key),
            };
            socket.send(text.as_bytes()).await?;
        }
        let mut heard = Heard::new(first, count);
        let mut buffer = [0; ANSWER_BYTES_MAX];
        let socket = self.socket.insert(socket);
        while !heard.is_all() {
            let length = socket.recv(&mut buffer).await?;
            if let Some((id, one)) = read(buffer.get(..length).unwrap_or_default()) {
                heard.add(id, &one);
            }
        }
        let granted = if spend > 0 { heard.granted } else { 0 };
        let Heard { left, lacks, .. } = heard;
        Ok(Answer { granted, left, lacks, retry_in: POLL, second: None })
    }
}

/// What came back for the datagrams of one ask. A network may deliver any of them twice.
struct Heard {
    first: u64,
    /// A bit for each that is not answered yet.
    open: u64,
    granted: u32,
    left: u32,
    lacks: u32,
}

const _: () = assert!(TOKENS_MAX <= u64::BITS, "each token of an ask has a bit");

impl Heard {
    /// For so many, numbered from `first`; at least one.
    fn new(first: u64, count: u32) -> Self {
        let open = u64::MAX >> (u64::BITS - count.clamp(1, u64::BITS));
        Self { first, open, granted: 0, left: 0, lacks: 0 }
    }

    fn is_all(&self) -> bool {
        self.open == 0
    }

    /// An answer to what was given up before, or a second one, is for nobody.
    fn add(&mut self, id: u64, one: &Use) {
        let place = id.checked_sub(self.first).and_then(|place| u32::try_from(place).ok());
        let bit = place.and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0);
        if self.open & bit != 0 {
            self.open &= !bit;
            self.granted += u32::from(one.granted);
            (self.left, self.lacks) = (one.left, one.lacks);
        }
    }
}

async fn open(server: SocketAddr) -> std::io::Result<UdpSocket> {
    let any = match server {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    Ok(socket)
}

/// `ID pong`, or `ID ok Y|N RATE LIMIT PERIOD`.
fn read(datagram: &[u8]) -> Option<(u64, Use)> {
    let mut words = std::str::from_utf8(datagram).ok()?.split(' ');
    let id = words.next()?.parse().ok()?;
    match words.next()? {
        "pong" => Some((id, Use { granted: true, left: 1, lacks: 0 })),
        "ok" => {
            let granted = words.next()? == "N";
            let (rate, limit) = (whole(words.next()?)?, whole(words.next()?)?);
            let lacks = rate.saturating_add(u32::from(granted));
            Some((id, Use { granted, left: limit.saturating_sub(lacks), lacks }))
        }
        _ => None,
    }
}

/// The whole part of a number with a point.
fn whole(number: &str) -> Option<u32> {
    let whole = number.split('.').next()?;
    Some(whole.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
