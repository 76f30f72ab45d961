//! New limits while asks go on.

use std::sync::Arc;

use super::Limiter;
use crate::Moment;
use crate::algorithm::book::BookFull;
use crate::limits::Limits;
use crate::limits::resolver::{Registry, Resolver};
use crate::store::Store;

impl Limiter {
    /// Replaces the limits, as of `at`. Everything spent stays spent, token for token. Refuses
    /// only if there are too many different rules.
    pub fn reload(&self, limits: Limits, at: Moment) -> Result<(), BookFull> {
        self.reload_around(limits, at, |swap| swap())
    }

    /// Does what [`reload`](Self::reload) does, for callers who have something of their own to
    /// replace at the same instant: `around` is given what puts the limits in force, to call it
    /// when nobody is looking. It is short; what takes time is done before and after.
    pub fn reload_around(
        &self,
        limits: Limits,
        at: Moment,
        around: impl FnOnce(&mut dyn FnMut()),
    ) -> Result<(), BookFull> {
        let mut registry = self.core.registry.lock();
        let mut next = registry.clone();
        let old = self.core.resolver.load();
        self.remove_unused(&mut next, &old, at);
        let resolver = Resolver::new(limits, &self.core.seal, &mut next, Some(&old))?;
        let (moved, names) = resolver.moved_since(&old);
        drop(old);
        let book = next.book();
        self.core.store.install(&book);
        let shared = self.core.shared.get();
        if let Some(shared) = shared {
            shared.install(&book, at);
        }
        let (mut new, mut old) = (Some(resolver), None);
        let mut swap = || {
            if let Some(new) = new.take() {
                old = Some(self.core.resolver.swap(new));
            }
        };
        around(&mut swap);
        swap();
        // Asks that began under the old limits are still on their way. They take microseconds, and
        // none may come to a bucket after it was carried over to a rule that they do not know.
        while old.as_ref().is_some_and(|old| Arc::strong_count(old) > 1) {
            std::thread::yield_now();
        }
        self.core.store.carry_over(&moved, at);
        if let Some(shared) = shared {
            shared.carry_over(&moved, &names, at);
        }
        *registry = next;
        Ok(())
    }

    /// Has rules leave the registry that nobody needs, if there are many. All buckets are looked at for
    /// that, as for rules that come with asks.
    fn remove_unused(&self, next: &mut Registry, old: &Resolver, at: Moment) {
        let is_shared = self.core.shared.get().is_some();
        self.core.store.close_accounts(&next.begin());
        let Some(mut leaving) = next.leaving(old, at, is_shared) else { return };
        // Nobody asks by one of these rules, so no other bucket comes to be under one meanwhile.
        self.core.store.remove_where(at, |cell, is_forgotten| {
            let rule = cell.rule();
            if !leaving.has(rule) {
                return false;
            }
            let goes = is_forgotten();
            if !goes {
                leaving.keep(rule);
            }
            goes
        });
        next.remove(leaving, old);
    }
}
