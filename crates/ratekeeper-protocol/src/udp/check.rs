//! `check_limit`: three keys in one request, as JSON.

use serde_json::{Map, Value};

use super::codec::{self, Verdict};

/// How many keys a check asks for.
pub(super) const KEYS: usize = 3;

/// The keys that one request asks for, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) keys: [String; KEYS],
}

impl Check {
    /// Reads `{"origin": .., "ua": .., "ip": ..}`; `None` for what is not such an object.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let fields: Map<String, Value> = serde_json::from_slice(json).ok()?;
        let origin = field(&fields, "origin", "unspecified")?;
        let (ua, ip) = (field(&fields, "ua", "")?, field(&fields, "ip", "")?);
        let keys =
            [format!("{origin} ua={ua}"), format!("{origin} ip={ip}"), format!("{origin} global")];
        Some(Self { keys })
    }

    /// The last verdict, all keys, and those that were asked for with their verdicts.
    pub(super) fn write(&self, verdicts: &[Verdict], out: &mut Vec<u8>) {
        if let Some(last) = verdicts.last() {
            codec::write_verdict(last, out);
        }
        out.extend_from_slice(b", ");
        write_list(&self.keys, out, |key, out| write_text(key, out));
        out.extend_from_slice(b", ");
        write_list(self.keys.iter().zip(verdicts), out, |(key, verdict), out| {
            out.extend_from_slice(b"{\"key\":");
            write_text(key, out);
            out.extend_from_slice(b",\"over_limit\":\"");
            codec::write_verdict(verdict, out);
            out.extend_from_slice(b"\"}");
        });
    }
}

/// A text, or a number as it is written; nothing is the default.
fn field(fields: &Map<String, Value>, name: &str, default: &str) -> Option<String> {
    match fields.get(name) {
        None | Some(Value::Null) => Some(default.to_owned()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) => None,
    }
}

fn write_list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(Value::from(text).to_string().as_bytes());
}
