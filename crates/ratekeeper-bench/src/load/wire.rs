//! What is sent to each kind of server, and what its answers mean. No socket, no clock.

pub(crate) mod bucket;
pub(crate) mod echo;
pub(crate) mod http;
pub(crate) mod resp;
pub(crate) mod template;
#[cfg(test)]
mod tests;
pub(crate) mod throttr;
pub(crate) mod udp;

/// What a server said to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    Allowed,
    Denied,
    /// It did not decide; in its own words.
    Error(&'a [u8]),
}

/// One answer, and how many bytes it took.
pub(crate) type Taken<'a> = (Answer<'a>, usize);

/// The bytes are no answer of such a server, so nobody knows where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strange;

/// Requests and answers on a stream, where answers come in the order of the requests.
pub(crate) trait Wire {
    /// Appends the request for a key.
    fn ask(&self, key: u64, out: &mut Vec<u8>);

    /// The first answer in what was received; nothing if it is not complete. Refuses what no such
    /// server answers.
    fn answer<'a>(&self, received: &'a [u8]) -> Result<Option<Taken<'a>>, Strange>;
}

/// The first line without its end, and how long it is with it.
fn line(received: &[u8]) -> Option<(&[u8], usize)> {
    let end = received.iter().position(|byte| *byte == b'\n')?;
    let line = &received[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}
