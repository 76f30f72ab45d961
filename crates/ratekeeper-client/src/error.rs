//! Why a server was not reached, or did not answer as it should.

use std::io;

use ratekeeper::Nanos;

use crate::Server;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum Failure {
    #[error("finding the address of {server}")]
    Resolve { server: Server, source: io::Error },
    #[error("connecting to {server} (does a server listen there?)")]
    Connect { server: Server, source: io::Error },
    #[error("talking to {server}")]
    Talk { server: Server, source: io::Error },
    #[error(
        "{server} did not answer within {timeout}: nobody listens there, the datagram was lost, \
         or the request was not understood, and such requests get no answer"
    )]
    Silent { server: Server, timeout: Nanos },
    #[error("{server} did not answer within {timeout}; it sent {received} bytes of an answer")]
    Slow { server: Server, timeout: Nanos, received: usize },
    #[error("{server} closed the connection before it answered; it sent {received} bytes")]
    Closed { server: Server, received: usize },
    #[error("{server} answered `{answer}`, which {door} never does: is it another server?")]
    Strange { server: Server, door: &'static str, answer: String },
    #[error("the request has {length} bytes: such servers ignore what is longer than {max}")]
    RequestTooLong { length: usize, max: usize },
    #[error("{server} has no bucket called `{name}`: its buckets file says which there are")]
    NoBucket { server: Server, name: String },
    #[error("{server} does not understand `{request}`: {advice}")]
    Invalid { server: Server, request: String, advice: &'static str },
    #[error("{server} says: {text}")]
    Refused { server: Server, text: String },
    #[error("the lifetime is counted in {unit} there, and {length} is not a whole number of those")]
    Unit { unit: &'static str, length: Nanos },
}

impl Failure {
    /// Whether the client could not reach the server, or the reply was not one of this protocol.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Talk { .. }
            | Self::Silent { .. }
            | Self::Slow { .. }
            | Self::Closed { .. }
            | Self::Strange { .. } => true,
            Self::RequestTooLong { .. }
            | Self::NoBucket { .. }
            | Self::Invalid { .. }
            | Self::Refused { .. }
            | Self::Unit { .. } => false,
        }
    }
}
