//! Asking by the limits of one moment.

use std::sync::Arc;

use arc_swap::Guard;

use super::{Account, Answers, Batch, Decided, Limiter, Mistake, Request, mistake};
use crate::Moment;
use crate::algorithm::book::Action;
use crate::limits::resolver::{Resolver, Unresolved};
use crate::limits::{IdBuffer, Limit, NamedLimit};

/// A limiter and its limits, as of one moment: what is decided and what is told of it are by the
/// same ones. A reload waits for whoever holds it, so it is for what is asked now, not for keeping.
///
/// It decides in memory, also where the buckets are elsewhere.
pub struct Asking<'l> {
    limiter: &'l Limiter,
    resolver: Guard<Arc<Resolver>>,
}

/// What applies to an id, and where it is counted: an [`Account`] that is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Entitled<'a> {
    /// Its override, else the default.
    pub terms: &'a Limit,
    /// Whether the limit is in shadow.
    pub shadow: bool,
    /// The id in its one spelling.
    pub id: &'a str,
    /// What stands for the limit in the key of its bucket, before a colon and the id.
    pub prefix: &'a str,
}

impl Limiter {
    /// The same limiter with the limits of now.
    #[inline]
    pub fn asking(&self) -> Asking<'_> {
        Asking { limiter: self, resolver: self.core.resolver.load() }
    }
}

impl Asking<'_> {
    /// Decides many asks of any kind, each on its own, in order. What is wanted of an ask is what
    /// `action` says of its place, and not what its mode says.
    #[inline]
    pub fn batch_with<'b>(
        &self,
        batch: &'b mut Batch,
        asks: &[Request<'_>],
        action: impl Fn(usize) -> Action,
        now: Moment,
    ) -> Answers<'b> {
        let Self { limiter, resolver } = self;
        let store = &limiter.core.store;
        batch.resolve(resolver, asks, action, |place, bucket| store.expect(place, bucket));
        store.decide_expected(&batch.questions, &mut batch.outcomes, now);
        batch.blame_costs(resolver, asks);
        if let Some(witness) = limiter.witness.as_ref().filter(|_| !asks.is_empty()) {
            witness.decided(&Decided::new(resolver, asks, &batch.questions, &batch.outcomes));
        }
        Answers { batch }
    }

    /// Whether there is a limit or bucket of this name.
    #[inline]
    pub fn contains(&self, name: &str) -> bool {
        self.resolver.entry(name).is_ok()
    }

    /// Whether some names have a colon, which otherwise stands between a name and an id.
    pub fn has_colons(&self) -> bool {
        self.resolver.has_colons()
    }

    /// What is limited under this name.
    pub fn named(&self, name: &str) -> Option<&NamedLimit> {
        self.resolver.named(name)
    }

    /// What applies to an id, and the bucket that it is counted in. The one spelling of the id is
    /// written into `buffer` if it is another.
    pub fn entitled<'a>(
        &'a self,
        limit: &str,
        id: &'a str,
        buffer: &'a mut IdBuffer,
    ) -> Result<Entitled<'a>, Mistake> {
        let told = |e| mistake(&self.resolver, &Request::new(limit, id, 0), e);
        let applied = self.resolver.applied(limit, id, buffer).map_err(told)?;
        Ok(Entitled {
            terms: applied.limit().ok_or(Unresolved::NoDefault).map_err(told)?,
            shadow: applied.named.is_shadow(),
            id: applied.id,
            prefix: applied.prefix,
        })
    }
}

impl Account {
    /// The same, borrowed.
    pub fn entitled(&self) -> Entitled<'_> {
        let Self { terms, shadow, id, prefix } = self;
        Entitled { terms, shadow: *shadow, id, prefix }
    }
}
