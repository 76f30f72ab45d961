//! Throttr's inserts.

use ratekeeper_client::throttr::{ThrottrEntry, ThrottrRequest};

use super::template::Template;
use super::{Answer, Strange, Taken, Wire};

/// An insert, and the state that answers it.
pub(crate) struct ThrottrWire {
    template: Template,
}

impl ThrottrWire {
    /// One for as many keys as the empty template is for. Refuses a consumer or a resource that is
    /// too long to be sent.
    pub(crate) fn new(
        empty: Template,
        insert: &ThrottrRequest,
        consumer: &str,
        resource: &str,
    ) -> Result<Self, String> {
        let length = |text: &str| {
            let length = empty.length(text);
            let wrong = || format!("`{text}` has {length} bytes, more than {}", u8::MAX);
            u8::try_from(length).map_err(|_| wrong())
        };
        let lengths = [length(consumer)?, length(resource)?];
        let head = empty.bytes(&insert.head()).bytes(&lengths);
        Ok(Self { template: head.text(consumer).text(resource) })
    }
}

impl Wire for ThrottrWire {
    fn ask(&self, key: u64, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn answer<'a>(&self, received: &'a [u8]) -> Result<Option<Taken<'a>>, Strange> {
        let Some(bytes) = received.first_chunk() else { return Ok(None) };
        let entry = ThrottrEntry::decode(bytes).ok_or(Strange)?;
        let answer = if entry.can { Answer::Allowed } else { Answer::Denied };
        Ok(Some((answer, bytes.len())))
    }
}
