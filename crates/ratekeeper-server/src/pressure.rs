//! Telling that memory is full: a full memory is shared out among limits, and one that needs more than
//! its share loses ids, or is denied new ones. The server looks at the counts about once a second, says
//! so in the log when that begins and when it has ended, and everywhere else while it lasts.

#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use ratekeeper::Moment;
use ratekeeper::algorithm::OnFull;

use crate::engine::ServerEngine;
use crate::transport::Time;
use watch::{CALM_TIME, LOGGED_MAX, Short, Turn, Watch};
pub(crate) use watch::{Holder, HolderId, Refused, Sentence};

/// What is known about the memory of the stores.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    watch: Mutex<Watch>,
    /// As of the last look, for those who cannot wait for one.
    sentence: ArcSwapOption<Sentence>,
}

/// Who holds what of memory at one moment.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Each with whether it is short of memory.
    pub(crate) holders: Vec<(Holder, bool)>,
    /// How many are short of memory.
    pub(crate) shorts: usize,
    pub(crate) sentence: Option<Arc<Sentence>>,
}

impl Pressure {
    /// Looks at who holds what, and writes to the log what begins and what has ended.
    pub(crate) fn look(&self, engine: &ServerEngine, time: &dyn Time) -> Memory {
        let mut watch = self.watch.lock();
        // Inside the lock: counts and times that are older than those of another look must not follow it.
        let (holders, now) = (holders(engine), time.now());
        for turn in watch.look(&holders, now) {
            log(&turn, now);
        }
        let sentence = watch.sentence().map(Arc::new);
        self.sentence.store(sentence.clone());
        let is_short = |holder: Holder| {
            let is_short = watch.is_short(holder.id());
            (holder, is_short)
        };
        let holders = holders.into_iter().map(is_short).collect();
        Memory { holders, shorts: watch.shorts(), sentence }
    }

    /// What the last look found to be short of memory.
    pub(crate) fn sentence(&self) -> Option<Arc<Sentence>> {
        self.sentence.load_full()
    }
}

/// What keys are called whose limit has gone. No limit can have such a name: it has blanks.
const GONE: &str = "(limits that are gone)";
/// All asks that bring their rule along have one share.
const INLINE_RULES: &str = "(asks with their own rule)";
/// All quotas of the Throttr door have one share.
const QUOTAS: &str = "(all quotas)";

/// Who holds keys, in all stores.
fn holders(engine: &ServerEngine) -> Vec<Holder> {
    let stores = &engine.stores;
    let limits = stores.limiter.holdings().into_iter().map(|held| {
        let on_full = held.limit.is_some().then(|| held.share.on_full());
        let name = held.limit.map_or_else(|| GONE.to_owned(), String::from);
        holder("limits", held.holding, name, on_full)
    });
    let averages = stores.averages.holdings().into_iter().map(|held| {
        let gone = || format!("(rule {} of earlier files)", held.owner.number());
        let name = engine.udp.owner_name(held.owner).unwrap_or_else(gone);
        holder("averages", held, name, None)
    });
    let quotas = stores.quotas.holdings().into_iter();
    let quotas = quotas.map(|held| holder("quotas", held, QUOTAS.to_owned(), None));
    let inline = stores.inline_rules.holdings().into_iter();
    let inline = inline.map(|held| holder("inline_rules", held, INLINE_RULES.to_owned(), None));
    limits.chain(averages).chain(quotas).chain(inline).collect()
}

fn holder(
    store: &'static str,
    held: ratekeeper::store::Holding,
    name: String,
    on_full: Option<OnFull>,
) -> Holder {
    Holder {
        store,
        owner: held.owner,
        name,
        on_full,
        keys: held.keys,
        share: held.share,
        refused: Refused {
            evicted: held.evicted,
            turned_away: held.turned_away,
            share_full: held.share_full,
        },
        tokens_forgiven: held.tokens_forgiven,
    }
}

fn log(turn: &Turn, now: Moment) {
    match turn {
        Turn::Began(Short { holder, refused, .. }) => {
            let (store, limit) = (holder.store, holder.shown());
            let Holder { keys, share, .. } = *holder;
            let (effect, advice) = (refused.effect(), advice(holder.on_full));
            tracing::warn!(
                store,
                limit,
                keys,
                share,
                "memory is short for {limit}: {effect}; {advice}"
            );
        }
        Turn::Ended(Short { holder, refused, began, .. }) => {
            let (store, limit) = (holder.store, holder.shown());
            let Refused { evicted, turned_away, .. } = *refused;
            let lasted = now.since(*began).brief();
            tracing::info!(
                store, limit, evicted, turned_away, %lasted,
                "memory is enough again for {limit}: nothing was forgotten or denied for {CALM_TIME}"
            );
        }
        Turn::ManyBegan => tracing::warn!(
            "memory is short for more than {LOGGED_MAX} limits: `ratekeeper stats` tells the others"
        ),
        Turn::ManyEnded => {
            tracing::info!(
                "of the limits that the log did not name, none is short of memory any more"
            );
        }
    }
}

/// What somebody can do who runs the server.
fn advice(on_full: Option<OnFull>) -> &'static str {
    match on_full {
        Some(OnFull::Deny) => {
            "raise `memory`, or give the limit a larger `share` or `on_full: forget` in its file"
        }
        Some(OnFull::Forget) => "raise `memory`, or give the limit a larger `share` in its file",
        None => "raise `memory`",
    }
}
