//! Everything behind the doors: the limiter, the stores, and what the files say.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::algorithm::average::Average;
use tollgate::algorithm::book::BookFull;
use tollgate::algorithm::quota::Quota;
use tollgate::limits::{Limits, NamedLimit, changes};
use tollgate::store::Held;
use tollgate::{Keyed, Limiter, Moment};
use tollgate_protocol::{bucket, throttr, udp};

use crate::files::{Files, LoadError, Loaded};
use crate::seen::{Door, Observatory};
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
    /// What the doors decide is counted here.
    pub(crate) observatory: Arc<Observatory>,
    files: Files,
    /// The limits in force. Held while they are replaced, so that one reload follows another.
    limits: Mutex<Limits>,
    /// Apart, so that nobody waits for a reload to read it.
    configured: Mutex<Configured>,
}

/// What is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Configured {
    pub(crate) since: Moment,
    /// Grows whenever something else comes into force.
    pub(crate) version: u64,
    pub(crate) limits: usize,
    pub(crate) overrides: usize,
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

    /// What each of them holds, with its name.
    pub(crate) fn held(&self) -> [(&'static str, Held); 3] {
        [
            ("limits", self.limiter.held()),
            ("averages", self.averages.held()),
            ("quotas", self.quotas.held()),
        ]
    }
}

impl House {
    /// A house with doors by the settings, whose files say what is in `loaded`, as of `now`.
    pub(crate) fn new(
        settings: &Settings,
        files: Files,
        loaded: Loaded,
        stores: Stores,
        observatory: Arc<Observatory>,
        now: Moment,
    ) -> Self {
        let Loaded { limits, rules } = loaded;
        observatory.expect(limits.iter().map(NamedLimit::name));
        let limiter = |door| Arc::new(stores.limiter.witnessed(observatory.witness(door)));
        let (averages, quotas) = (Arc::clone(&stores.averages), Arc::clone(&stores.quotas));
        let options = throttr::Options {
            strict: settings.throttr.strict,
            named_limits: settings.throttr.named_limits,
        };
        let bucket = bucket::Door::new(limiter(Door::Bucket));
        Self {
            udp: Arc::new(udp::Door::new(limiter(Door::Udp), averages, rules)),
            bucket: Arc::new(bucket.with_line_bytes_max(settings.bucket.line_bytes)),
            throttr: Arc::new(throttr::Door::new(quotas, limiter(Door::Throttr), options)),
            stores,
            observatory,
            files,
            configured: Mutex::new(Configured::new(&limits, 1, now)),
            limits: Mutex::new(limits),
        }
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// What is in force now.
    pub(crate) fn configured(&self) -> Configured {
        *self.configured.lock()
    }

    /// Reads the files again and puts them in force, as of `now`. Everything spent stays spent.
    /// Refuses all of them if anything is wrong, and then nothing changes.
    pub(crate) fn reload(&self, now: impl FnOnce() -> Moment) -> Result<(), ReloadError> {
        let mut limits = self.limits.lock();
        let Loaded { limits: new, rules } = self.files.load()?;
        let told: Vec<String> =
            changes(&limits, &new).iter().take(CHANGES_TOLD).map(ToString::to_string).collect();
        let (limiter, now) = (&self.stores.limiter, now());
        self.observatory.expect(new.iter().map(NamedLimit::name));
        // Rules of one file never meet limits of another, and the door waits for the swap only.
        limiter.reload_around(new.clone(), now, |swap| self.udp.reload(rules, swap))?;
        let mut configured = self.configured.lock();
        *configured = Configured::new(&new, configured.version + 1, now);
        drop(configured);
        *limits = new;
        for change in told {
            tracing::info!(%change, "limits changed");
        }
        Ok(())
    }
}

impl Configured {
    fn new(limits: &Limits, version: u64, since: Moment) -> Self {
        let overrides = limits.iter().map(|limit| limit.overrides().len()).sum();
        Self { since, version, limits: limits.iter().len(), overrides }
    }
}
