//! The token-bucket server's lines.

use super::template::Template;
use super::{Answer, Strange, Taken, Wire, line};

/// `get NAME` or `get NAME COST`, and what comes back.
pub(crate) struct BucketWire {
    template: Template,
}

impl BucketWire {
    /// One for as many keys as the empty template is for. Without a cost it is one token, in the
    /// words of old clients.
    pub(crate) fn new(empty: Template, name: &str, cost: Option<u64>) -> Self {
        let cost = cost.map(|cost| format!(" {cost}")).unwrap_or_default();
        // With a carriage return, because the original knows no other end of a line.
        let template = empty.bytes(b"get ").text(name).bytes(cost.as_bytes()).bytes(b"\r\n");
        Self { template }
    }
}

impl Wire for BucketWire {
    fn ask(&self, key: u64, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn answer<'a>(&self, received: &'a [u8]) -> Result<Option<Taken<'a>>, Strange> {
        let Some((line, length)) = line(received) else { return Ok(None) };
        let answer = match line {
            b"1" => Answer::Allowed,
            b"0" => Answer::Denied,
            words => Answer::Error(words),
        };
        Ok(Some((answer, length)))
    }
}
