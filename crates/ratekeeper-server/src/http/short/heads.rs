//! Heads that came before: most requests of a client begin with the same bytes.

use super::{Fields, Front, Op, Plain};
use crate::http::app::App;
use crate::http::connection::Peer;

/// How many of them a worker keeps in mind, and how long they are at most, in bytes.
const HEADS_MAX: usize = 8;
const HEAD_BYTES_MAX: usize = 512;

/// The last heads of plain requests that anybody may send.
#[derive(Default)]
pub(super) struct Heads {
    known: Vec<Known>,
    /// Which is forgotten next.
    oldest: usize,
}

/// A head, and what it says.
struct Known {
    head: Vec<u8>,
    path: &'static str,
    op: Op,
    body_bytes: usize,
}

impl Heads {
    /// What `bytes` begin with; a request that is not let in is none that is plain. A head that is
    /// known is not read again, if `is_open`: where the door asks for no proof, who may come in
    /// depends on nothing else.
    pub(super) fn front<'b>(
        &mut self,
        bytes: &'b [u8],
        app: &App,
        peer: &Peer,
        is_open: bool,
    ) -> Front<'b> {
        if is_open && let Some(known) = self.known.iter().find(|it| bytes.starts_with(&it.head)) {
            return known.front(bytes);
        }
        match Front::read(bytes, &app.settings) {
            Front::Plain(plain) if !plain.is_admitted(app, peer) => Front::Other,
            Front::Plain(plain) => {
                if is_open {
                    self.remember(bytes, &plain);
                }
                Front::Plain(plain)
            }
            other => other,
        }
    }

    fn remember(&mut self, bytes: &[u8], plain: &Plain<'_>) {
        let Plain { path, op, fields, body, bytes: whole } = plain;
        let (path, op, body_bytes) = (*path, *op, body.len());
        let Some(head) = bytes.get(..whole.saturating_sub(body_bytes)) else { return };
        // How long a comparison takes tells how much is alike, and secrets are nobody else's to know.
        if head.len() > HEAD_BYTES_MAX || fields.authorization.is_some() || fields.has_secret {
            return;
        }
        if self.known.len() < HEADS_MAX {
            self.known.push(Known { head: head.to_vec(), path, op, body_bytes });
        } else if let Some(known) = self.known.get_mut(self.oldest) {
            known.head.clear();
            known.head.extend_from_slice(head);
            (known.path, known.op, known.body_bytes) = (path, op, body_bytes);
            self.oldest = (self.oldest + 1) % HEADS_MAX;
        }
    }
}

impl Known {
    fn front<'b>(&self, bytes: &'b [u8]) -> Front<'b> {
        let whole = self.head.len() + self.body_bytes;
        bytes.get(self.head.len()..whole).map_or(Front::Begun, |body| {
            let (path, op, fields) = (self.path, self.op, Fields::default());
            Front::Plain(Plain { path, op, fields, body, bytes: whole })
        })
    }
}
