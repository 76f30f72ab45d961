//! Everything behind the doors: the limiter, the stores, and what the files say.

use std::io;
use std::sync::Arc;

use ratekeeper::algorithm::average::Average;
use ratekeeper::algorithm::book::BookFull;
use ratekeeper::algorithm::inline_rule::InlineGcra;
use ratekeeper::algorithm::quota::Quota;
use ratekeeper::limiter::AlreadyShared;
use ratekeeper::limits::{Limits, NamedLimit, changes};
use ratekeeper::store::Held;
use ratekeeper::{Keyed, Limiter, Moment};
use ratekeeper_protocol::{bucket, resp, throttr, udp};
use ratekeeper_redis::Shared;

use crate::files::{Files, LoadError, Loaded};
use crate::http::{Keys, KeysError};
use crate::observe::{DecisionObserver, Door};
use crate::overrides::{ActiveOverrides, Changing, Snapshot};
use crate::reading::Unread;
use crate::settings::Settings;
use crate::transport::Time;

/// How many changes of a reload are told in the log.
const CHANGES_TOLD: usize = 20;

/// The limiter and the stores: what is saved.
pub(crate) struct Stores {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) averages: Arc<Keyed<Average>>,
    pub(crate) quotas: Arc<Keyed<Quota>>,
    /// Buckets of asks that bring their rule along.
    pub(crate) inline_rules: Arc<Keyed<InlineGcra>>,
    /// What decides in their place, if they are shared.
    pub(crate) shared: Option<Shared>,
}

/// How much memory each of them may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) limits: usize,
    pub(crate) averages: usize,
    pub(crate) quotas: usize,
    pub(crate) inline_rules: usize,
}

impl Shares {
    /// Half for named limits and buckets, and a sixth for each of the others: also for those whose
    /// door is closed, because what was spent there is kept.
    pub(crate) fn new(memory: usize) -> Self {
        let sixth = memory / 6;
        let (averages, quotas, inline_rules) = (sixth, sixth, sixth);
        Self { limits: memory - 3 * sixth, averages, quotas, inline_rules }
    }

    pub(crate) fn all(self) -> usize {
        self.limits + self.averages + self.quotas + self.inline_rules
    }
}

/// The stores and the doors in front of them.
pub(crate) struct ServerEngine {
    pub(crate) stores: Stores,
    pub(crate) udp: Arc<udp::Door>,
    pub(crate) bucket: Arc<bucket::Door>,
    pub(crate) throttr: Arc<throttr::Door>,
    pub(crate) resp: Arc<resp::Door>,
    /// What the HTTP door asks.
    pub(crate) http: Arc<Limiter>,
    /// What the doors decide is counted here.
    pub(crate) observer: Arc<DecisionObserver>,
    files: Files,
    /// The limits in force, and the overrides among them that were made at run time.
    pub(crate) active_overrides: ActiveOverrides,
}

/// Why the files did not take effect.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// They cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// They could not be read, whatever is in them.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// There have been too many rules.
    #[error(transparent)]
    Full(#[from] BookFull),
    /// Tokens cannot be used.
    #[error("the tokens stay as they were: {}", crate::with_causes(.0))]
    Tokens(KeysError),
    /// Certificates cannot be used.
    #[error("the certificates stay as they were: {}", crate::with_causes(.0))]
    Certificates(KeysError),
    /// The thread that had them read has panicked.
    #[error("reading files again has panicked: this is a bug")]
    Panic,
    /// Both are so.
    #[error("{}\n{}", crate::with_causes(.0.as_ref()), crate::with_causes(.1.as_ref()))]
    Both(Box<ReloadError>, Box<ReloadError>),
}

impl ReloadError {
    /// Adds what became of other files, which took effect or not by themselves.
    pub(crate) fn both(one: Result<(), Self>, other: Result<(), Self>) -> Result<(), Self> {
        match (one, other) {
            (Ok(()), result) | (result, Ok(())) => result,
            (Err(one), Err(other)) => Err(Self::Both(Box::new(one), Box::new(other))),
        }
    }

    /// Whether it is only that the server is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        match self {
            Self::Unread(why)
            | Self::Tokens(KeysError::Unread(why))
            | Self::Certificates(KeysError::Unread(why)) => *why == Unread::Stopped,
            Self::Both(one, other) => one.is_stopped() && other.is_stopped(),
            _ => false,
        }
    }
}

impl Stores {
    /// Stores in which nothing was spent.
    pub(crate) fn new(limits: Limits, shares: Shares) -> io::Result<Self> {
        Ok(Self {
            limiter: Arc::new(Limiter::with_memory(limits, shares.limits)?),
            averages: Arc::new(Keyed::new(shares.averages)?),
            quotas: Arc::new(Keyed::new(shares.quotas)?),
            inline_rules: Arc::new(Keyed::new(shares.inline_rules)?),
            shared: None,
        })
    }

    /// Has all of them decided by `shared`, from `at` on.
    pub(crate) fn share(&mut self, shared: Shared, at: Moment) -> Result<(), AlreadyShared> {
        self.limiter.share(shared.buckets(), at)?;
        self.averages.share(shared.averages())?;
        self.quotas.share(shared.quotas())?;
        self.inline_rules.share(shared.inline_rules())?;
        self.shared = Some(shared);
        Ok(())
    }

    /// What each of them holds, with its name.
    pub(crate) fn held(&self) -> [(&'static str, Held); 4] {
        [
            ("limits", self.limiter.held()),
            ("averages", self.averages.held()),
            ("quotas", self.quotas.held()),
            ("inline_rules", self.inline_rules.held()),
        ]
    }
}

impl ServerEngine {
    /// An engine with doors by the settings; `active_overrides` and `rules` are what the files say.
    pub(crate) fn new(
        settings: &Settings,
        files: Files,
        active_overrides: ActiveOverrides,
        rules: udp::Rules,
        stores: Stores,
        observer: Arc<DecisionObserver>,
        keys: &Arc<Keys>,
    ) -> Self {
        observer.expect(active_overrides.load().limits.iter().map(NamedLimit::name));
        let limiter = |door| Arc::new(stores.limiter.witnessed(observer.witness(door)));
        let (averages, quotas) = (Arc::clone(&stores.averages), Arc::clone(&stores.quotas));
        let options = throttr::Options {
            strict: settings.throttr.strict,
            named_limits: settings.throttr.named_limits,
        };
        let udp = udp::Door::new(limiter(Door::Udp), averages, rules);
        let bucket = bucket::Door::new(limiter(Door::Bucket));
        let resp = resp::Door::new(limiter(Door::Resp), Arc::clone(&stores.inline_rules))
            .with_witness(observer.witness(Door::Resp))
            .with_reply_bytes(settings.resp.output_bytes);
        let resp = if keys.has_tokens() { resp.with_keeper(Arc::clone(keys) as _) } else { resp };
        Self {
            udp: Arc::new(if settings.udp.check_limit { udp } else { udp.without_checks() }),
            bucket: Arc::new(bucket.with_line_bytes_max(settings.bucket.line_bytes)),
            throttr: Arc::new(throttr::Door::new(quotas, limiter(Door::Throttr), options)),
            resp: Arc::new(resp),
            http: limiter(Door::Http),
            observer,
            stores,
            files,
            active_overrides,
        }
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Puts in force what the files say. Everything spent stays spent, and overrides that were made at
    /// run time stay. If it fails, nothing changes.
    pub(crate) fn reload(&self, loaded: Loaded, time: &dyn Time) -> Result<(), ReloadError> {
        let Loaded { limits, rules } = loaded;
        let changing = self.active_overrides.change();
        let (now, wall) = (time.now(), time.wall());
        // Before they are asked, so that they are counted in the order of the files.
        self.observer.expect(limits.iter().map(NamedLimit::name));
        let next = changing.load().with_files(limits, wall);
        // Rules of one file never meet limits of another, and the door waits for the swap only.
        self.apply(&changing, next, now, |swap| self.udp.reload(rules, swap))?;
        Ok(())
    }

    /// Puts limits in force, as of `at`; `around` is given what does it. There is no other way that
    /// limits change.
    pub(crate) fn apply(
        &self,
        changing: &Changing<'_>,
        next: Snapshot,
        at: Moment,
        around: impl FnOnce(&mut dyn FnMut()),
    ) -> Result<(), BookFull> {
        let told = changes(&changing.load().limits, &next.limits);
        self.stores.limiter.reload_around((*next.limits).clone(), at, around)?;
        changing.publish(next);
        for change in told.iter().take(CHANGES_TOLD) {
            tracing::info!(%change, "limits changed");
        }
        Ok(())
    }
}
