//! Before a run: what is said to the server, and whether it understands.

use std::net::SocketAddr;
use std::rc::Rc;

use ratekeeper_client::Failure;
use ratekeeper_client::resp::auth;
use ratekeeper_console::shown;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::input::Input;
use super::target::{Command, Door, Target, Words};
use super::wire::bucket::BucketWire;
use super::wire::echo::EchoWire;
use super::wire::http::{HttpWire, Spend};
use super::wire::resp::{self, RespWire, Value};
use super::wire::throttr::ThrottrWire;
use super::wire::udp::UdpWire;
use super::wire::{Answer, Strange, Wire};
use super::{datagram, stream};
use crate::error::BenchError;

/// A plain GCRA script for one bucket, for servers that run scripts.
pub const GCRA_SCRIPT: &str = include_str!("script.lua");
/// How often a first datagram is sent: one may be lost.
const FIRST_DATAGRAMS: u64 = 3;
/// How long an answer to it can be, in bytes.
const DATAGRAM_BYTES_MAX: usize = 1 << 11;

/// The connections of a run, all open, and what is said on them.
pub(crate) enum Opened {
    Streams(Vec<TcpStream>, Rc<dyn Wire>),
    Datagrams(Vec<UdpSocket>, Rc<UdpWire>),
}

impl Target {
    /// Opens every connection, after one request was answered by more than an error.
    pub(crate) async fn open(&self, addresses: &[SocketAddr]) -> Result<Opened, BenchError> {
        let wire = match &self.door {
            Door::Udp { key, .. } => UdpWire::new(self.template(), key),
            Door::EchoUdp { bytes, .. } => UdpWire::echo(self.template(), *bytes),
            _ => return self.open_streams(addresses).await,
        };
        let address = self.answering(addresses, &wire).await?;
        let mut sockets = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            sockets.push(datagram::open(&self.server, address, self.door.segments()).await?);
        }
        Ok(Opened::Datagrams(sockets, Rc::new(wire)))
    }

    async fn open_streams(&self, addresses: &[SocketAddr]) -> Result<Opened, BenchError> {
        let mut first = self.connect(addresses).await?;
        let wire = self.wire(&mut first).await?;
        self.try_once(&mut first, &*wire).await?;
        let mut streams = Vec::with_capacity(self.connections);
        streams.push(first);
        while streams.len() < self.connections {
            streams.push(self.connect(addresses).await?);
        }
        Ok(Opened::Streams(streams, wire))
    }

    /// Opens one connection, and shows the token on it if that is done once.
    pub(crate) async fn connect(&self, addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
        let mut stream = stream::connect(&self.server, addresses, self.timeout).await?;
        if let Door::Resp { token: Some(token), .. } = &self.door {
            let showing = auth(token);
            let accepted = self.exchange(&mut stream, &showing, |received| {
                let Some((value, _)) = resp::read(received, 1)? else { return Ok(None) };
                Ok(Some(match value {
                    Value::Error(words) => Err(text_of(words)),
                    _ => Ok(()),
                }))
            });
            let refused = |text| Failure::Refused { server: self.server.clone(), text };
            accepted.await?.map_err(refused)?;
        }
        Ok(stream)
    }

    async fn wire(&self, stream: &mut TcpStream) -> Result<Rc<dyn Wire>, BenchError> {
        let empty = self.template();
        Ok(match &self.door {
            Door::Udp { .. } | Door::EchoUdp { .. } => unreachable!("datagrams have no stream"),
            Door::EchoTcp { bytes, answer_bytes } => {
                Rc::new(EchoWire::new(empty, *bytes, *answer_bytes))
            }
            Door::Bucket { name, cost } => Rc::new(BucketWire::new(empty, name, *cost)),
            Door::Throttr { insert, consumer, resource } => {
                let wire = ThrottrWire::new(empty, insert, consumer, resource);
                Rc::new(wire.map_err(BenchError::Usage)?)
            }
            Door::Http { limit, id, cost, token } => {
                let host = &self.server.to_string();
                let token = token.as_ref().map(|token| token.0.as_str());
                Rc::new(HttpWire::new(empty, &Spend { host, limit, id, cost: *cost, token }))
            }
            Door::Resp { command: Command { words, denied, .. }, .. } => {
                let words = self.words(stream, words).await?;
                Rc::new(RespWire::new(empty, &words, *denied))
            }
        })
    }

    /// The words of a command, with the digest of the script if there is one.
    async fn words(&self, stream: &mut TcpStream, to: &Words) -> Result<Vec<String>, BenchError> {
        let behind = match to {
            Words::Plain(words) => return Ok(words.clone()),
            Words::Script(words) => words,
        };
        let mut out = Vec::new();
        let load = ["SCRIPT", "LOAD", GCRA_SCRIPT].map(str::to_owned);
        RespWire::new(self.template(), &load, None).ask(0, &mut out);
        let digest = self.exchange(stream, &out, |received| {
            let Some((value, _)) = resp::read(received, 1)? else { return Ok(None) };
            let digest = match value {
                Value::Text(digest) => Ok(String::from_utf8_lossy(digest).into_owned()),
                Value::Error(words) => Err(self.refused(words)),
                Value::Integer(_) | Value::Null => return Err(Strange),
            };
            Ok(Some(digest))
        });
        let digest = digest.await??;
        let first = ["EVALSHA".to_owned(), digest];
        Ok(first.into_iter().chain(behind.iter().cloned()).collect())
    }

    /// One request, so that a server that does not understand it is told of at once.
    async fn try_once(&self, stream: &mut TcpStream, wire: &dyn Wire) -> Result<(), BenchError> {
        let mut out = Vec::new();
        wire.ask(0, &mut out);
        let tried = self.exchange(stream, &out, |received| {
            let answer = wire.answer(received)?;
            Ok(answer.map(|(answer, _)| self.verdict(&answer)))
        });
        tried.await?
    }

    /// Sends `request` and waits until `read` has made something of what came back.
    async fn exchange<T>(
        &self,
        stream: &mut TcpStream,
        request: &[u8],
        read: impl Fn(&[u8]) -> Result<Option<T>, Strange>,
    ) -> Result<T, Failure> {
        let (server, timeout) = (self.server.clone(), self.timeout);
        let talking = |source| Failure::Talk { server: self.server.clone(), source };
        let mut input = Input::default();
        let exchange = async {
            stream.write_all(request).await.map_err(talking)?;
            while let Some(room) = input.room() {
                let length = stream.read(room).await.map_err(talking)?;
                input.grow(length);
                match read(input.bytes()) {
                    Ok(Some(found)) => return Ok(found),
                    Ok(None) if length == 0 => {
                        let received = input.bytes().len();
                        return Err(Failure::Closed { server: self.server.clone(), received });
                    }
                    Ok(None) => {}
                    Err(Strange) => break,
                }
            }
            let (server, door) = (self.server.clone(), self.door.kind());
            Err(Failure::Strange { server, door, answer: input.shown() })
        };
        let done = tokio::time::timeout(timeout.into(), exchange).await;
        done.unwrap_or(Err(Failure::Slow { server, timeout, received: 0 }))
    }

    /// The first address that answers a datagram.
    async fn answering(
        &self,
        addresses: &[SocketAddr],
        wire: &UdpWire,
    ) -> Result<SocketAddr, BenchError> {
        let (server, timeout) = (self.server.clone(), self.timeout);
        let mut failure = Failure::Silent { server, timeout };
        for address in addresses {
            let socket = datagram::open(&self.server, *address, 1).await?;
            for number in 0..FIRST_DATAGRAMS {
                match tokio::time::timeout(timeout.into(), ask(&socket, wire, number)).await {
                    Ok(Ok(answer)) => {
                        let words = wire.answer(&answer).map(|(_, answer)| answer);
                        self.verdict(&words.unwrap_or(Answer::Error(&answer)))?;
                        return Ok(*address);
                    }
                    Ok(Err(source)) => {
                        failure = Failure::Connect { server: self.server.clone(), source };
                        break;
                    }
                    Err(_late) => {}
                }
            }
        }
        Err(failure.into())
    }

    fn verdict(&self, answer: &Answer<'_>) -> Result<(), BenchError> {
        match answer {
            Answer::Allowed | Answer::Denied => Ok(()),
            Answer::Error(words) => Err(self.refused(words)),
        }
    }

    fn refused(&self, words: &[u8]) -> BenchError {
        let (request, answer) = (self.door.to_string(), text_of(words));
        BenchError::Refused { server: self.server.clone(), request, answer }
    }
}

/// What a server said, so that it moves no cursor.
fn text_of(words: &[u8]) -> String {
    shown(String::from_utf8_lossy(words).trim_end())
}

/// Sends one datagram, and waits for any.
async fn ask(socket: &UdpSocket, wire: &UdpWire, number: u64) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    wire.ask(number, 0, &mut out);
    socket.send(&out).await?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    let length = socket.recv(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}
