//! What a server should know of its Redis before it relies on it.

use std::fmt;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::link::Link;
use crate::node::Node;

/// The oldest versions that are supported: the oldest that the tests run with.
const REDIS_OLDEST: (u32, u32) = (7, 0);
const VALKEY_OLDEST: (u32, u32) = (7, 2);

/// Something about a server that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Which server.
    pub node: String,
    /// What, and what to do about it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.text)
    }
}

impl Link {
    /// Looks at every server: its version, whether it may throw buckets away, whether it loses
    /// them when it stops, and whether we may do what we have to. Fails if one cannot be asked
    /// within this time; what it is not allowed to see it says.
    pub async fn check(&self, within: Duration) -> Result<Vec<Warning>, Failure> {
        let looking = async {
            let mut warnings = Vec::new();
            for node in self.nodes().await? {
                let found = look(&node).await?;
                let named = |text| Warning { node: node.name().to_owned(), text };
                warnings.extend(found.into_iter().map(named));
            }
            Ok(warnings)
        };
        timeout(within, looking).await.unwrap_or(Err(Failure::Timeout))
    }
}

async fn look(node: &Node) -> Result<Vec<String>, Failure> {
    let mut commands = Pipeline::new();
    commands.cmd("INFO").arg("server");
    for name in ["maxmemory-policy", "save", "appendonly"] {
        commands.cmd("CONFIG").arg("GET").arg(name);
    }
    commands.cmd("SCRIPT").arg("LOAD").arg(crate::script::GCRA.text);
    commands.cmd("EVAL").arg(PROBE).arg(1).arg("ratekeeper:{startup}");
    let answers = node.send(&commands).await?;
    let [info, policy, save, append, load, probe] = answers.as_slice() else {
        return Err(Failure::Nonsense(format!("{} answers to a check", answers.len())));
    };
    let mut warnings = Vec::new();
    warnings.extend(version(info));
    warnings.extend(eviction(policy));
    warnings.extend(persistence(save, append));
    for answer in [load, probe] {
        match answer {
            Value::ServerError(error) if error.code() == "NOPERM" => {
                warnings.push(format!("{PERMISSIONS} ({})", error.details().unwrap_or_default()));
            }
            Value::ServerError(error) => {
                warnings.push(format!("a script does not run: {}", Failure::of_server(error)));
            }
            _ => {}
        }
    }
    Ok(warnings)
}

/// Does each thing that the scripts do, to a key that is there for a millisecond.
const PROBE: &str = "
redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '0', 'PX', 1)
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', 'ratekeeper:changed', '')
return 1";

const PERMISSIONS: &str = "the user may not do all that is needed: allow EVALSHA, SCRIPT LOAD, \
    TIME, GET, SET, DEL, PUBLISH and SUBSCRIBE on ~ratekeeper:* and &ratekeeper:changed";

fn version(info: &Value) -> Option<String> {
    let Some(text) = text(info) else {
        return Some("its version could not be checked: INFO is not allowed".to_owned());
    };
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let (name, version, oldest) = match field("valkey_version") {
        Some(version) => ("Valkey", version, VALKEY_OLDEST),
        None => ("Redis", field("redis_version")?, REDIS_OLDEST),
    };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let found = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    (found < oldest).then(|| {
        format!("{name} {version} is older than {}.{}, the oldest supported", oldest.0, oldest.1)
    })
}

fn eviction(answer: &Value) -> Option<String> {
    match setting(answer).as_deref() {
        Some("noeviction") => None,
        Some(policy) => Some(format!(
            "maxmemory-policy is {policy}: when memory is short it throws buckets away, and what \
             was spent is forgotten. Set it to noeviction"
        )),
        None => Some(
            "whether it throws buckets away when memory is short could not be checked: CONFIG is \
             not allowed. Make sure that maxmemory-policy is noeviction"
                .to_owned(),
        ),
    }
}

fn persistence(save: &Value, append: &Value) -> Option<String> {
    match (setting(save).as_deref(), setting(append).as_deref()) {
        (Some(""), Some("no")) => Some(
            "it keeps nothing on disk: a restart forgets what was spent. Set appendonly to yes, or \
             give save a schedule"
                .to_owned(),
        ),
        (Some(_), Some(_)) => None,
        _ => Some(
            "whether it keeps buckets on disk could not be checked: CONFIG is not allowed"
                .to_owned(),
        ),
    }
}

/// The value of the one setting in an answer to `CONFIG GET`.
fn setting(answer: &Value) -> Option<String> {
    match answer {
        Value::Map(pairs) => pairs.first().and_then(|(_, value)| text(value)),
        Value::Array(items) => items.get(1).and_then(text),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}
