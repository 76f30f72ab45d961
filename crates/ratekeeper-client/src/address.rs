//! Where a server is.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use crate::Failure;

/// The host of this machine.
const HERE: &str = "127.0.0.1";

/// A host, by name or by address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    host: String,
    port: u16,
}

impl Server {
    /// The server that `text` says: `host`, `host:2000`, `127.0.0.1:2000`, `::1` or `[::1]:2000`.
    /// Without a port it is `PORT`; a port alone, `:2000`, is one of this machine. Refuses what has
    /// no host, or a port that is none.
    pub fn parse<const PORT: u16>(text: &str) -> Result<Self, String> {
        let (host, port) = split(text)?;
        if text.starts_with(|c| c != '[') && host.contains(':') && port.is_some() {
            return Err("an IPv6 address before a port has brackets: [::1]:2000".into());
        }
        let host = if text.starts_with(':') && host.is_empty() { HERE } else { host };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err("it has no host: write it like 127.0.0.1:2000 or [::1]:2000".into());
        }
        let port = port.map_or(Ok(PORT), |port| {
            let found = port.parse().ok().filter(|port| *port != 0);
            found.ok_or_else(|| format!("`{port}` is not a port from 1 to 65535"))
        })?;
        Ok(Self { host: host.to_owned(), port })
    }

    /// Every address that the host has. Refuses a host that has none.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        let found = (&*self.host, self.port).to_socket_addrs();
        let found = found.map_err(|source| Failure::Resolve { server: self.clone(), source })?;
        Ok(found.collect())
    }
}

/// The host and what is behind it. Only an IPv6 address has colons of its own, and brackets if a
/// port follows.
fn split(text: &str) -> Result<(&str, Option<&str>), String> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text, None));
    }
    let Some(rest) = text.strip_prefix('[') else {
        return Ok(text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))));
    };
    let (host, rest) = rest.split_once(']').ok_or("the `[` is never closed")?;
    if host.parse::<Ipv6Addr>().is_err() {
        return Err(format!("`{host}` is not an IPv6 address"));
    }
    match rest.strip_prefix(':') {
        None if !rest.is_empty() => Err("after the `]` comes a `:`".into()),
        port => Ok((host, port)),
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}
