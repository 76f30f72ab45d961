//! A limiter that outlives its process.

use std::io::{self, Read, Write};

use super::{Limiter, Mistake, Request, question};
use crate::algorithm::book::{Action, BucketCell};
use crate::algorithm::gcra::{self, Debt};
use crate::limits::Limits;
use crate::limits::resolver::{Registry, Resolver};
use crate::store::saved::{Reader, RestoreError, Saved, Section, Writer};
use crate::store::{Question, Store};
use crate::{Moment, Nanos};

impl Limiter {
    /// Saves everything that was spent and not yet come back at `at`, as one section, while asks
    /// go on; a reload waits until it is done. Fails where `to` does.
    ///
    /// Each bucket is saved as it was at one moment during the call. What is saved includes the
    /// secret that fingerprints are keyed by, so nobody else should be able to read it.
    pub fn save<W: Write>(&self, to: &mut Writer<W>, at: Moment) -> io::Result<Saved> {
        // Cells that a reload carries over meanwhile would be under rules that were not saved; and no
        // number of a rule may become another's.
        let registry = self.core.registry.lock();
        let before = to.written();
        to.begin(Section::Limits);
        to.secret(self.core.seal.secret())?;
        registry.save(to)?;
        self.core.resolver.load().save(to)?;
        let buckets = to.cells(&self.core.store, at)?;
        to.end()?;
        Ok(Saved { buckets, bytes: to.written().saturating_sub(before) })
    }

    /// The limiter that was saved in the section `from` has found, with limits that may have
    /// changed since: they replace those that were saved as a [`reload`](Self::reload) at `at` does.
    /// Buckets never take more than about `memory` bytes; if more were saved, those that owe least
    /// are forgotten, and counted. Refuses what is damaged, and then restores nothing.
    ///
    /// A [`Moment`] has to mean the same as when it was saved.
    pub fn restore<R: Read>(
        limits: Limits,
        memory: usize,
        from: &mut Reader<R>,
        at: Moment,
    ) -> Result<Self, RestoreError> {
        from.begin(Section::Limits)?;
        let seal = from.secret()?.seal();
        let (mut registry, rules) = Registry::restore(from)?;
        let old = Resolver::restore(from, &rules, &seal)?;
        // Buckets may be more than memory holds, so they are put back by the shares in force from now on.
        registry.share_out(&limits);
        let store = from.cells(&registry.book(), memory, at)?;
        from.end()?;

        let resolver = Resolver::new(limits, &seal, &mut registry, Some(&old))?;
        store.install(&registry.book());
        store.carry_over(&resolver.moved_since(&old).0, at);
        Ok(Self::of(resolver, store, seal, registry))
    }

    /// What a bucket owes.
    pub fn owed(&self, limit: &str, id: &str, now: Moment) -> Result<Owed, Mistake> {
        let resolver = self.core.resolver.load();
        let question = question(&resolver, &Request::new(limit, id, 0), Action::CheckOnly)?;
        let found = self
            .core
            .store
            .look(question.bucket, |book, cell| book.owed(cell, question.ask.rule, now));
        Ok(found.map_or(Owed::default(), |(rule, debt)| {
            let debt = gcra::within_depth(&rule, debt, now);
            let full_in = gcra::spend(&rule, debt.shown, 0, now).1.reset_in;
            Owed { full_in, hidden: debt.hidden }
        }))
    }

    /// Has a bucket owe at least this, as it was counted elsewhere, and never show more than it holds.
    /// Tells whether it owed less, and owes this now: where memory is full, there may be no room for it.
    /// For buckets that nobody asks for meanwhile, such as those of a limiter that was just restored.
    pub fn owe(&self, limit: &str, id: &str, owed: Owed, now: Moment) -> Result<bool, Mistake> {
        let resolver = self.core.resolver.load();
        let Question { bucket, ask, .. } =
            question(&resolver, &Request::new(limit, id, 0), Action::CheckOnly)?;
        let Owed { full_in, hidden } = owed;
        let cell = self.core.store.look(bucket, |book, cell| {
            let (rule_id, rule) = book.in_force(ask.rule)?;
            let (_, old) = book.owed(cell, ask.rule, now)?;
            let new = Debt { shown: gcra::filling(&rule, full_in, now), hidden };
            let is_more = !owed.is_nothing() && old.over_at(&rule) < new.over_at(&rule);
            is_more.then(|| BucketCell::filling(rule_id, &rule, full_in, hidden, now))
        });
        Ok(cell.is_some() && self.core.store.learn(bucket, cell, now))
    }
}

/// What a bucket owes, to be counted elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owed {
    /// How long what it shows takes to come back.
    pub full_in: Nanos,
    /// How many tokens it owes besides, because its limit was lowered after they were spent.
    pub hidden: u64,
}

impl Owed {
    /// Whether it is nothing.
    pub const fn is_nothing(&self) -> bool {
        self.full_in.is_zero() && self.hidden == 0
    }
}
