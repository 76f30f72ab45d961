//! Which limits are short of memory now: decided from counts and the time, without a clock or a log.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use ratekeeper::algorithm::{OnFull, Owner};
use ratekeeper::{Moment, Nanos};

/// A limit is short of memory until for so long it lost no id, was denied no new one, and its share was
/// not full when a new one came.
pub(crate) const CALM_TIME: Nanos = Nanos::from_secs(10);
/// How many limits can be under way in the log at the same time. One that becomes short of memory while
/// as many have a line, and not yet the line that ends it, is not told there.
pub(crate) const LOGGED_MAX: usize = 20;
/// How many limits the sentence names.
const SENTENCE_NAMES_MAX: usize = 3;
/// How much of a name is told to people.
const NAME_CHARS_MAX: usize = 64;

/// A holder of keys: one of a store, by its number there.
pub(crate) type HolderId = (&'static str, Owner);

/// Who holds keys of a store, and what became of them for want of memory since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) store: &'static str,
    pub(crate) owner: Owner,
    /// What people call it: the name of a limit, or a rule of the UDP door.
    pub(crate) name: String,
    /// What it does where its share is full; none if no file can say that, as for an average or a quota.
    pub(crate) on_full: Option<OnFull>,
    pub(crate) keys: usize,
    /// How many keys it can hold at least.
    pub(crate) share: usize,
    pub(crate) refused: Refused,
    pub(crate) tokens_forgiven: u64,
}

/// How often a holder felt that memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Keys that were forgotten although they owed something.
    pub(crate) evicted: u64,
    /// Asks that were denied because nothing could be forgotten for them.
    pub(crate) turned_away: u64,
    /// New keys that came when its share was full, and no key near them could be forgotten for free.
    pub(crate) share_full: u64,
}

/// Something that is to be told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A holder is short of memory from now on.
    Began(Short),
    /// It is not any more.
    Ended(Short),
    /// More holders are short of memory than are told one by one.
    ManyBegan,
    /// Those that are short of memory are told one by one again.
    ManyEnded,
}

/// A holder that is short of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    /// As it was when it was last looked at.
    pub(crate) holder: Holder,
    /// What it was refused since it became short of memory.
    pub(crate) refused: Refused,
    pub(crate) began: Moment,
    /// When it was last seen to be refused something.
    pub(crate) last: Moment,
    /// Whether its beginning was told.
    is_told: bool,
    /// What it had been refused before.
    before: Refused,
}

/// What is short of memory, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// For those who may know the names of limits.
    pub(crate) named: String,
    /// For everybody.
    pub(crate) unnamed: String,
}

/// What was seen of the holders so far.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Of those that were ever refused something.
    seen: HashMap<HolderId, Refused>,
    short: BTreeMap<HolderId, Short>,
    is_many: bool,
}

impl Holder {
    pub(crate) fn id(&self) -> HolderId {
        (self.store, self.owner)
    }

    /// The name as people are shown it: on one line, and not too long.
    pub(crate) fn shown(&self) -> String {
        let mut chars = self.name.chars();
        let mut shown: String =
            chars.by_ref().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect();
        if chars.next().is_some() {
            shown.push('…');
        }
        shown
    }
}

impl Refused {
    fn since(self, before: Self) -> Self {
        Self {
            evicted: self.evicted.saturating_sub(before.evicted),
            turned_away: self.turned_away.saturating_sub(before.turned_away),
            share_full: self.share_full.saturating_sub(before.share_full),
        }
    }

    /// Whether it can have been counted before `later`: the counts of a number that is given to another
    /// holder begin anew.
    fn is_before(self, later: Self) -> bool {
        self.evicted <= later.evicted
            && self.turned_away <= later.turned_away
            && self.share_full <= later.share_full
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.evicted = self.evicted.saturating_add(other.evicted);
        self.turned_away = self.turned_away.saturating_add(other.turned_away);
        self.share_full = self.share_full.saturating_add(other.share_full);
    }

    /// How much it was refused, for finding who was refused most.
    pub(crate) fn rank(self) -> (u64, u64) {
        (self.evicted.saturating_add(self.turned_away), self.share_full)
    }

    /// What happens to the ids of the holder.
    pub(crate) const fn effect(self) -> &'static str {
        match (self.evicted > 0, self.turned_away > 0) {
            (false, false) => "its share is full",
            (true, false) => "ids that owe tokens are forgotten",
            (false, true) => "new ids are denied",
            (true, true) => "ids that owe tokens are forgotten, and new ids are denied",
        }
    }
}

impl Watch {
    /// Looks at all holders of all stores, and says what is to be told. Times that step back are taken
    /// to be as late as the last one.
    pub(crate) fn look(&mut self, holders: &[Holder], now: Moment) -> Vec<Turn> {
        let mut turns = Vec::new();
        for holder in holders.iter().filter(|holder| holder.refused != Refused::default()) {
            self.look_at(holder, now, &mut turns);
        }
        let ended = self.short.extract_if(.., |_, short| now.since(short.last) >= CALM_TIME);
        let ended = ended.map(|(_, short)| short).filter(|short| short.is_told);
        turns.extend(ended.map(Turn::Ended));
        let is_many = self.short.values().any(|short| !short.is_told);
        if is_many != self.is_many {
            self.is_many = is_many;
            turns.push(if is_many { Turn::ManyBegan } else { Turn::ManyEnded });
        }
        turns
    }

    fn look_at(&mut self, holder: &Holder, now: Moment, turns: &mut Vec<Turn>) {
        let before = self.seen.insert(holder.id(), holder.refused);
        let before = before.filter(|before| before.is_before(holder.refused)).unwrap_or_default();
        let is_refused = holder.refused.since(before) != Refused::default();
        if let Some(short) = self.short.get_mut(&holder.id()) {
            short.holder = holder.clone();
            short.refused = holder.refused.since(short.before);
            if is_refused {
                short.last = short.last.max(now);
            }
        } else if is_refused {
            let is_told = self.short.values().filter(|it| it.is_told).count() < LOGGED_MAX;
            let refused = holder.refused.since(before);
            let short =
                Short { holder: holder.clone(), refused, began: now, last: now, is_told, before };
            if is_told {
                turns.push(Turn::Began(short.clone()));
            }
            self.short.insert(holder.id(), short);
        }
    }

    /// Whether a holder is short of memory.
    pub(crate) fn is_short(&self, id: HolderId) -> bool {
        self.short.contains_key(&id)
    }

    /// How many holders are.
    pub(crate) fn shorts(&self) -> usize {
        self.short.len()
    }

    /// Which are, most refused first, and what that does to their ids; nothing if none is.
    pub(crate) fn sentence(&self) -> Option<Sentence> {
        let mut shorts: Vec<&Short> = self.short.values().collect();
        if shorts.is_empty() {
            return None;
        }
        shorts.sort_by_key(|short| std::cmp::Reverse(short.refused.rank()));
        let plural = if shorts.len() == 1 { "" } else { "s" };
        let unnamed = format!("memory is short for {} limit{plural}", shorts.len());
        let mut named = unnamed.clone();
        for (place, short) in shorts.iter().take(SENTENCE_NAMES_MAX).enumerate() {
            let before = if place == 0 { ": " } else { "; " };
            let Holder { keys, share, .. } = short.holder;
            let (name, effect) = (short.holder.shown(), short.refused.effect());
            // A text takes whatever is written to it.
            let _ =
                write!(named, "{before}{name} holds {keys} keys (its share: {share}), {effect}");
        }
        if let Some(more @ 1..) = shorts.len().checked_sub(SENTENCE_NAMES_MAX) {
            let _ = write!(named, "; and {more} more");
        }
        Some(Sentence { named, unnamed })
    }
}
