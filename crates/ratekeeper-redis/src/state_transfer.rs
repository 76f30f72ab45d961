//! Moving what was spent: every key read, and keys written that come from elsewhere.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value as Reply};
use tokio::time::timeout;

use crate::bucket::nonsense;
use crate::failure::Failure;
use crate::key::{Kind, slot};
use crate::link::Link;
use crate::node::Node;
use crate::script::{Call, PUT, READ, Script};
use crate::value::{Entry, Value};

/// How many keys Redis is asked to look at in one go.
const SCAN_KEYS: usize = 1_000;
/// All keys of ours.
const PATTERN: &str = "ratekeeper:*";

/// Every key of every server, page by page.
pub struct Scan<'a> {
    link: &'a Link,
    /// Those that are not finished; the last is being read.
    nodes: Vec<Arc<Node>>,
    cursor: Vec<u8>,
}

/// Some of the keys.
#[derive(Debug, Default)]
pub struct Page {
    /// What was found. A key may come twice, as `SCAN` says.
    pub entries: Vec<Entry>,
    /// How many keys look like ours and are not.
    pub strange: usize,
}

/// What became of an entry that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It was written.
    Written,
    /// What was there owes as much.
    Kept,
    /// Nothing of it is owed any more.
    Over,
}

impl Link {
    /// Begins to read all keys. In a cluster those of every primary.
    pub async fn scan(&self, within: Duration) -> Result<Scan<'_>, Failure> {
        let nodes = timeout(within, self.nodes()).await.map_err(|_| Failure::Timeout)??;
        Ok(Scan { link: self, nodes, cursor: b"0".to_vec() })
    }

    /// Writes entries, each brought to this moment by the clock of Redis, and only where it owes
    /// more than what is there. One result for each, in order. Doing it again changes nothing.
    pub async fn put(&self, entries: &[Entry], within: Duration) -> Vec<Result<Put, Failure>> {
        let mut replies = Vec::new();
        self.call(entries, within, &mut replies).await;
        replies.into_iter().map(|reply| read_put(&reply?)).collect()
    }
}

impl Scan<'_> {
    /// The next page; none after the last. A page may be empty.
    pub async fn next(&mut self, within: Duration) -> Result<Option<Page>, Failure> {
        let Some(node) = self.nodes.last() else { return Ok(None) };
        let mut command = Pipeline::new();
        command.cmd("SCAN").arg(&self.cursor);
        command.arg("MATCH").arg(PATTERN).arg("COUNT").arg(SCAN_KEYS);
        let replies =
            timeout(within, node.send(&command)).await.map_err(|_| Failure::Timeout)??;
        let (cursor, keys) = match replies.into_iter().next() {
            Some(Reply::ServerError(error)) => return Err(Failure::of_server(&error)),
            Some(reply) => read_scan(&reply)?,
            None => return Err(Failure::Nonsense("no answer to SCAN".to_owned())),
        };
        if cursor == b"0" {
            self.nodes.pop();
        }
        self.cursor = cursor;
        self.read(keys, within).await.map(Some)
    }

    /// The values of keys, wherever they are by now.
    async fn read(&self, keys: Vec<Vec<u8>>, within: Duration) -> Result<Page, Failure> {
        let kinds = [Kind::Average, Kind::Quota, Kind::Bucket];
        let gets = keys.into_iter().filter_map(|key| {
            let kind = kinds.into_iter().find(|kind| kind.name(&key).is_some())?;
            Some(Get { kind, key })
        });
        let (gets, mut replies): (Vec<_>, _) = (gets.collect(), Vec::new());
        self.link.call(&gets, within, &mut replies).await;
        let mut page = Page::default();
        for (Get { kind, key }, reply) in gets.iter().zip(replies) {
            let text = match reply {
                // It has expired meanwhile.
                Ok(Reply::Nil) => continue,
                Ok(Reply::BulkString(bytes)) => String::from_utf8(bytes).ok(),
                Ok(_) | Err(Failure::Nonsense(_)) => None,
                Err(failure) => return Err(failure),
            };
            let value = text.and_then(|text| Value::read(*kind, &text).ok());
            match value.zip(kind.name(key)) {
                Some((value, name)) => page.entries.push(Entry { name: name.to_vec(), value }),
                None => page.strange += 1,
            }
        }
        Ok(page)
    }
}

fn read_scan(reply: &Reply) -> Result<(Vec<u8>, Vec<Vec<u8>>), Failure> {
    let Reply::Array(parts) = reply else { return Err(nonsense(reply)) };
    let [Reply::BulkString(cursor), Reply::Array(keys)] = parts.as_slice() else {
        return Err(nonsense(reply));
    };
    let key = |key: &Reply| match key {
        Reply::BulkString(key) => Ok(key.clone()),
        _ => Err(nonsense(reply)),
    };
    Ok((cursor.clone(), keys.iter().map(key).collect::<Result<_, _>>()?))
}

fn read_put(reply: &Reply) -> Result<Put, Failure> {
    match reply {
        Reply::Int(0) => Ok(Put::Kept),
        Reply::Int(1) => Ok(Put::Written),
        Reply::Int(2) => Ok(Put::Over),
        _ => Err(nonsense(reply)),
    }
}

/// One key to be read.
struct Get {
    kind: Kind,
    key: Vec<u8>,
}

impl Call for Get {
    fn script(&self) -> &'static Script {
        &READ
    }

    fn slot(&self) -> u16 {
        slot(&self.key)
    }

    fn write(&self, to: &mut Pipeline) {
        to.arg(1).arg(&self.key);
    }
}

impl Call for Entry {
    fn script(&self) -> &'static Script {
        &PUT
    }

    fn slot(&self) -> u16 {
        slot(&self.value.kind().key(&self.name))
    }

    fn write(&self, to: &mut Pipeline) {
        to.arg(1).arg(self.value.kind().key(&self.name));
        match &self.value {
            Value::Bucket(value) => {
                to.arg("bucket").arg(value.at_micros).arg(value.debt);
                to.arg(value.step).arg(value.rate).arg(value.burst).arg(value.hidden);
            }
            Value::Average(value) => {
                to.arg("average").arg(value.at_micros).arg(&*value.rate).arg(&*value.period);
            }
            Value::Quota(value) => {
                to.arg("quota").arg(value.remaining.to_string());
                to.arg(value.expires_secs).arg(value.expires_nanos).arg(value.unit);
            }
        }
    }
}
