//! So many bytes, and so many back: what it takes to be asked and to answer, without a decision.

use super::template::Template;
use super::{Answer, Strange, Taken, Wire};

/// What requests are made of. The last byte is a line's end, for servers that wait for one.
const FILLER: u8 = b'.';
const LAST: u8 = b'\n';

/// A request, and as many bytes as answer it, whatever they are.
pub(crate) struct EchoWire {
    template: Template,
    answer_bytes: usize,
}

impl EchoWire {
    /// Requests of so many bytes, each answered by so many; neither is none.
    pub(crate) fn new(empty: Template, bytes: usize, answer_bytes: usize) -> Self {
        let filler = vec![FILLER; bytes.saturating_sub(1)];
        Self { template: empty.bytes(&filler).bytes(&[LAST]), answer_bytes: answer_bytes.max(1) }
    }
}

impl Wire for EchoWire {
    fn ask(&self, key: u64, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn answer<'a>(&self, received: &'a [u8]) -> Result<Option<Taken<'a>>, Strange> {
        Ok((received.len() >= self.answer_bytes).then_some((Answer::Allowed, self.answer_bytes)))
    }
}
