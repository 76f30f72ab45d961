//! The scripts that decide, by the name Redis knows them by: the hash of their text.

use std::sync::LazyLock;

/// One script. Redis runs it as a whole or not at all, and nothing else meanwhile.
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) hash: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }
}

/// Decides a transaction whose buckets are in one slot.
pub(crate) static GCRA: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("scripts/gcra.lua"),
        include_str!("scripts/bucket.lua"),
        include_str!("scripts/general.lua"),
    ))
});

/// Holds, keeps or gives back one slot's part of a transaction.
pub(crate) static HOLD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("scripts/bucket.lua"), include_str!("scripts/hold.lua")))
});

/// Counts a use of a decaying average.
pub(crate) static AVERAGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/average.lua")));

/// Answers a request to a quota.
pub(crate) static QUOTA: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/quota.lua")));

/// Reads a key, wherever its slot is.
pub(crate) static READ: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/read.lua")));

/// Writes a key that comes from elsewhere.
pub(crate) static PUT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/put.lua")));

/// One call of a script: what is sent, where to, and by which script it is read.
pub(crate) trait Call: Sync {
    /// What it calls.
    fn script(&self) -> &'static Script;

    /// The slot of its keys.
    fn slot(&self) -> u16;

    /// Its keys and arguments, at the end of a command that has all else.
    fn write(&self, to: &mut redis::Pipeline);
}
