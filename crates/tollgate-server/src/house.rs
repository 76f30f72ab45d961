//! Everything behind the doors: the limiter, the stores, and what the files say.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::algorithm::average::Average;
use tollgate::algorithm::book::BookFull;
use tollgate::algorithm::quota::Quota;
use tollgate::limits::{Limits, changes};
use tollgate::{Keyed, Limiter, Moment};
use tollgate_protocol::{bucket, throttr, udp};

use crate::files::{Files, LoadError, Loaded};
use crate::settings::Settings;

/// How many changes of a reload are told in the log.
const CHANGES_TOLD: usize = 20;

/// The limiter and the stores: what is saved.
pub(crate) struct Stores {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) averages: Arc<Keyed<Average>>,
    pub(crate) quotas: Arc<Keyed<Quota>>,
}

/// How much memory each of them may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) limits: usize,
    pub(crate) averages: usize,
    pub(crate) quotas: usize,
}

impl Shares {
    /// Half for named limits and buckets, and a quarter for each of the others: also for those whose
    /// door is closed, because what was spent there is kept.
    pub(crate) fn new(memory: usize) -> Self {
        let quarter = memory / 4;
        Self { limits: memory - 2 * quarter, averages: quarter, quotas: quarter }
    }

    pub(crate) fn all(self) -> usize {
        self.limits + self.averages + self.quotas
    }
}

/// The stores and the doors in front of them.
pub(crate) struct House {
    pub(crate) stores: Stores,
    pub(crate) udp: Arc<udp::Door>,
    pub(crate) bucket: Arc<bucket::Door>,
    pub(crate) throttr: Arc<throttr::Door>,
    /// What the HTTP door asks.
    pub(crate) http: Arc<Limiter>,
    files: Files,
    /// The limits in force. Held while they are replaced, so that one reload follows another.
    limits: Mutex<Limits>,
}

/// Why the files did not take effect.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// They cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There have been too many rules.
    #[error(transparent)]
    Full(#[from] BookFull),
}

impl Stores {
    /// Stores in which nothing was spent.
    pub(crate) fn new(limits: Limits, shares: Shares) -> io::Result<Self> {
        Ok(Self {
            limiter: Arc::new(Limiter::with_memory(limits, shares.limits)?),
            averages: Arc::new(Keyed::new(shares.averages)?),
            quotas: Arc::new(Keyed::new(shares.quotas)?),
        })
    }
}

impl House {
    /// A house with doors by the settings; `limits` and `rules` are what the files say.
    pub(crate) fn new(
        settings: &Settings,
        files: Files,
        limits: Limits,
        rules: udp::Rules,
        stores: Stores,
    ) -> Self {
        let (limiter, quotas) = (&stores.limiter, &stores.quotas);
        let options = throttr::Options {
            strict: settings.throttr.strict,
            named_limits: settings.throttr.named_limits,
        };
        let bucket = bucket::Door::new(Arc::clone(limiter));
        Self {
            udp: Arc::new(udp::Door::new(Arc::clone(limiter), Arc::clone(&stores.averages), rules)),
            bucket: Arc::new(bucket.with_line_bytes_max(settings.bucket.line_bytes)),
            throttr: Arc::new(throttr::Door::new(Arc::clone(quotas), Arc::clone(limiter), options)),
            http: Arc::clone(limiter),
            stores,
            files,
            limits: Mutex::new(limits),
        }
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Reads the files again and puts them in force, as of `now`. Everything spent stays spent.
    /// Refuses all of them if anything is wrong, and then nothing changes.
    pub(crate) fn reload(&self, now: impl FnOnce() -> Moment) -> Result<(), ReloadError> {
        let mut limits = self.limits.lock();
        let Loaded { limits: new, rules } = self.files.load()?;
        let told: Vec<String> =
            changes(&limits, &new).iter().take(CHANGES_TOLD).map(ToString::to_string).collect();
        let limiter = &self.stores.limiter;
        // Rules of one file never meet limits of another, and the door waits for the swap only.
        limiter.reload_around(new.clone(), now(), |swap| self.udp.reload(rules, swap))?;
        *limits = new;
        for change in told {
            tracing::info!(%change, "limits changed");
        }
        Ok(())
    }
}
