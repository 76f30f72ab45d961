//! The HTTP door's `POST /v1/spend`, in HTTP/1.1.

use std::io::Write as _;
use std::net::Ipv4Addr;

use super::template::{HOLE, Template};
use super::{Answer, Strange, Taken, Wire, line};

/// How long the head of an answer can be, in bytes.
const HEAD_BYTES_MAX: usize = 1 << 14;

/// One ask as JSON, and the decision that answers it.
pub(crate) struct HttpWire {
    request: Request,
}

enum Request {
    Template(Template),
    /// Of an id that counts addresses up from the first: digits in front would be none.
    Address {
        before: Vec<u8>,
        first: u32,
        after: Vec<u8>,
    },
}

/// How long an IPv4 address is at most: `255.255.255.255`.
const ADDRESS_BYTES_MAX: usize = 15;

/// What is asked of a server.
pub(crate) struct Spend<'a> {
    pub(crate) host: &'a str,
    pub(crate) limit: &'a str,
    pub(crate) id: &'a str,
    pub(crate) cost: u64,
    pub(crate) token: Option<&'a str>,
}

impl HttpWire {
    /// One for as many keys as the empty template is for.
    pub(crate) fn new(empty: Template, spend: &Spend<'_>) -> Self {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (limit, id) = (quoted(spend.limit), quoted(spend.id));
        let body = format!(r#"{{"limit":{limit},"id":{id},"cost":{}}}"#, spend.cost);
        let token = spend.token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let head = |length: usize| {
            format!(
                "POST /v1/spend HTTP/1.1\r\nhost: {}\r\n{}content-type: application/json\r\n\
                 content-length: {length}\r\n\r\n",
                spend.host,
                token.as_deref().unwrap_or_default(),
            )
        };
        let address = first_address(spend.id).filter(|_| !spend.limit.contains(HOLE));
        let request = if let (Some(first), Some((before, after))) = (address, body.split_once(HOLE))
        {
            // In front of the hole stands what the address has anyway.
            let stem = spend.id.len() - HOLE.len();
            let before = &before[..before.len() - stem];
            let length = before.len() + ADDRESS_BYTES_MAX + after.len();
            let before = format!("{}{before}", head(length)).into_bytes();
            Request::Address { before, first: first.into(), after: after.into() }
        } else {
            let length = empty.length(&body);
            Request::Template(empty.bytes(head(length).as_bytes()).text(&body))
        };
        Self { request }
    }
}

/// The address that an id with key 0 is, such as `10.0.0.0` of `10.0.0.{key}`.
fn first_address(id: &str) -> Option<Ipv4Addr> {
    let stem = id.strip_suffix(HOLE).filter(|stem| stem.ends_with('.'))?;
    format!("{stem}0").parse().ok()
}

impl Wire for HttpWire {
    fn ask(&self, key: u64, out: &mut Vec<u8>) {
        match &self.request {
            Request::Template(template) => template.write(key, out),
            Request::Address { before, first, after } => {
                let key = u32::try_from(key).unwrap_or(u32::MAX);
                out.extend_from_slice(before);
                let start = out.len();
                // Writing to memory does not fail.
                let _ = write!(out, "{}", Ipv4Addr::from(first.wrapping_add(key)));
                let end = start + ADDRESS_BYTES_MAX + after.len();
                out.extend_from_slice(after);
                // JSON may end with spaces, so every request is as long as any other.
                out.resize(end, b' ');
            }
        }
    }

    fn answer<'a>(&self, received: &'a [u8]) -> Result<Option<Taken<'a>>, Strange> {
        let head = match Head::read(received)? {
            Some(head) => head,
            None if received.len() > HEAD_BYTES_MAX => return Err(Strange),
            None => return Ok(None),
        };
        let end = head.length.checked_add(head.body_length).ok_or(Strange)?;
        let Some(body) = received.get(head.length..end) else { return Ok(None) };
        Ok(Some((head.answer(body), end)))
    }
}

/// What the head of an answer says.
struct Head<'a> {
    status_line: &'a [u8],
    status: &'a [u8],
    /// Of the head itself.
    length: usize,
    body_length: usize,
}

impl<'a> Head<'a> {
    /// Nothing if it is not complete.
    fn read(received: &'a [u8]) -> Result<Option<Self>, Strange> {
        let Some((status_line, mut at)) = line(received) else { return Ok(None) };
        let words = status_line.strip_prefix(b"HTTP/1.1 ").ok_or(Strange)?;
        let status = words.get(..3).ok_or(Strange)?;
        let mut body_length = None;
        while let Some((field, length)) = line(&received[at..]) {
            at += length;
            if field.is_empty() {
                // Only these have no body and need not say so.
                let is_bare = status == b"204" || status == b"304";
                let body_length = body_length.or(is_bare.then_some(0)).ok_or(Strange)?;
                return Ok(Some(Self { status_line, status, length: at, body_length }));
            }
            if let Some(value) = value_of(field, b"content-length:") {
                body_length = Some(value.parse().map_err(|_| Strange)?);
            }
        }
        Ok(None)
    }

    fn answer(&self, body: &'a [u8]) -> Answer<'a> {
        match self.status {
            // The first `allowed` is that of the whole decision.
            b"200" if body.starts_with(br#"{"allowed":true"#) => Answer::Allowed,
            b"200" if body.starts_with(br#"{"allowed":false"#) => Answer::Denied,
            b"429" => Answer::Denied,
            _ if body.is_empty() => Answer::Error(self.status_line),
            _ => Answer::Error(body),
        }
    }
}

fn value_of<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let (found, value) = field.split_at_checked(name.len())?;
    let value = found.eq_ignore_ascii_case(name).then_some(value)?;
    std::str::from_utf8(value).ok().map(str::trim)
}
