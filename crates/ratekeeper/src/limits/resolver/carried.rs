//! Asks that bring their rule along: from a key to its bucket.

use std::sync::Arc;

use super::{Registry, Unresolved};
use crate::algorithm::book::{Action, Ask, Gcra};
use crate::algorithm::carried::{Carried, CarriedRules};
use crate::limits::{ID_BYTES_MAX, IdError};
use crate::store::shared::Sharing;
use crate::store::{Fingerprint, Question, Seal};

/// What stands for all of them in bucket keys. No limit has a blank in its name, and a bucket is
/// called `bucket` first.
const PREFIX: &str = "CL.THROTTLE key";

/// Whatever is asked by a key and a rule. One key is one bucket, by whatever rules it is asked.
#[derive(Debug)]
pub(crate) struct Keys {
    seal: Seal,
    rules: Arc<CarriedRules>,
}

impl Keys {
    pub(super) fn new(seal: &Seal, registry: &Registry) -> Self {
        Self { seal: seal.derive(PREFIX.as_bytes()), rules: registry.carried() }
    }

    /// An ask for a key, as a question to its bucket by the rule it brings.
    #[inline]
    pub(crate) fn question(
        &self,
        carried: Carried,
        key: &str,
        action: Action,
        cost: u64,
    ) -> Result<Question<Gcra>, Unresolved> {
        let ask = Ask { rule: carried.rule(), action, is_shadow: false, cost };
        Ok(Question { bucket: self.bucket(carried, key)?, ask, joined: false })
    }

    /// The bucket of a key that is asked for by a rule.
    #[inline]
    pub(crate) fn bucket(&self, carried: Carried, key: &str) -> Result<Fingerprint, Unresolved> {
        check(key)?;
        if !self.rules.has(carried) {
            return Err(Unresolved::Rule);
        }
        Ok(self.seal.fingerprint(key.as_bytes()))
    }

    /// Appends the key of the bucket of a key; nothing if there can be no such key.
    pub(crate) fn write_bucket_key(key: &str, to: &mut Vec<u8>) -> Sharing {
        if check(key).is_ok() {
            to.extend_from_slice(PREFIX.as_bytes());
            to.push(b':');
            to.extend_from_slice(key.as_bytes());
        }
        Sharing::default()
    }

    /// The key of the bucket of a key.
    pub(crate) fn bucket_key(key: &str) -> String {
        format!("{PREFIX}:{key}")
    }

    /// The most that can be asked for by a rule.
    pub(crate) fn burst(&self, carried: Carried) -> u64 {
        self.rules.rule(carried.rule()).map_or(0, |rule| rule.burst())
    }
}

/// Any text will do, also none, unless it is too long.
#[inline]
fn check(key: &str) -> Result<(), Unresolved> {
    if key.len() > ID_BYTES_MAX { Err(Unresolved::Id(IdError::TooLong)) } else { Ok(()) }
}
