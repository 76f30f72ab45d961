//! The address of a client behind proxies, from `X-Forwarded-For`.
//!
//! Every proxy adds the address that it was asked from at the right, so the list is read from
//! there, and only as far as trusted proxies wrote it. What stands further left was sent by the
//! client, who may write there what he likes.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

/// How many proxies there may be between a client and the server.
pub(crate) const HOPS_MAX: usize = 32;
/// How long one entry can be: an address with its port takes less.
pub(crate) const HOP_BYTES_MAX: usize = 64;

/// Why the client's address is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForwardedError {
    #[error(
        "X-Forwarded-For has `{0}` where a trusted proxy should have written an address: let it \
         write one, or take it from http.trusted_proxies"
    )]
    NoAddress(String),
    #[error(
        "X-Forwarded-For has more than {HOPS_MAX} entries of trusted proxies: is one asking itself?"
    )]
    TooMany,
}

/// The address of whoever asked: the first from the right, beginning with the peer, that is not a
/// trusted proxy; if all are, the leftmost. Refuses an entry of a trusted proxy that is no address.
///
/// `fields` are the values of every `X-Forwarded-For`, in the order in which they came.
pub(crate) fn client<'a>(
    peer: IpAddr,
    fields: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusted: &[IpNet],
) -> Result<IpAddr, ForwardedError> {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer.to_canonical();
    let entries = fields.rev().flat_map(|field| field.rsplit(|byte| *byte == b','));
    // A list may have empty entries, which mean nothing.
    let entries =
        entries.map(<[u8]>::trim_ascii).enumerate().filter(|(_, entry)| !entry.is_empty());
    for (place, entry) in entries {
        if !is_trusted(&client) {
            break;
        }
        if place >= HOPS_MAX {
            return Err(ForwardedError::TooMany);
        }
        client = address(entry).ok_or_else(|| ForwardedError::NoAddress(shown(entry)))?;
    }
    Ok(client)
}

/// `1.2.3.4`, `::1`, with a port `1.2.3.4:567` and `[::1]:80`, also `[::1]`, and each in quotes.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(entry).ok().filter(|text| text.len() <= HOP_BYTES_MAX)?;
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let text = quoted.unwrap_or(text);
    let alone = || text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || {
        let inside = text.strip_prefix('[')?.strip_suffix(']')?;
        inside.parse::<Ipv6Addr>().ok().map(IpAddr::from)
    };
    alone().or_else(with_port).or_else(bracketed).map(|address| address.to_canonical())
}

/// What can be shown of an entry.
fn shown(entry: &[u8]) -> String {
    entry.get(..HOP_BYTES_MAX).unwrap_or(entry).escape_ascii().to_string()
}
