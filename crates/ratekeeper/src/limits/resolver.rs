//! From a name and an id to a bucket and a rule.
//!
//! Everything that can be worked out when the files are read is worked out then. An ask looks its
//! name up, brings its id to its one spelling, and takes the fingerprint of that; no text is put
//! together, and the fingerprint serves both to find an override and to find the bucket.

mod registry;
mod saved;
mod unused;

use std::cell::Cell;
use std::sync::Arc;

use hashbrown::HashMap;

use registry::Scope;
pub(crate) use registry::{NO_EDITION, Registry};
pub use unused::ASK_TIME_MAX;

use super::{
    DefaultLimit, IdBuffer, IdError, IdFormat, Limit, Limits, NAMES_MAX, NamedLimit, OVERRIDES_MAX,
    Override,
};
use crate::algorithm::book::{Action, Ask, BookFull, Gcra, RuleId};
use crate::store::shared::{BucketNames, Sharing};
use crate::store::{Fingerprint, Question, Seal};

/// How many names a thread keeps in mind, each in the place that its length says.
const RECENT_NAMES: usize = 8;

thread_local! {
    /// Where a name of this length was found last, by whatever limiter: no more than a guess.
    static RECENT: [Cell<usize>; RECENT_NAMES] = const { [const { Cell::new(0) }; RECENT_NAMES] };
}

/// Limits, ready to be asked.
#[derive(Debug)]
pub(crate) struct Resolver {
    limits: Limits,
    /// Which of all that there have been in this process; its book has the same.
    edition: u64,
    /// In the order of `limits`.
    entries: Vec<(Box<str>, Entry)>,
    /// Where in `entries` a name is.
    places: HashMap<Box<str>, usize>,
    /// Names that are gone: their buckets are still there, should they come back.
    retired: HashMap<Box<str>, Entry>,
    /// Whether some name has a colon in it, as only a bucket's can.
    has_colons: bool,
}

/// A limit, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Where the name is in `limits`.
    place: usize,
    seal: Seal,
    /// What stands for the name in bucket keys.
    prefix: Box<str>,
    id_format: IdFormat,
    is_shadow: bool,
    sharing: Sharing,
    default: Option<RuleId>,
    overrides: Arc<Overrides>,
    /// The last rules of buckets that have none now: their override went, and there is no default.
    lapsed: HashMap<Fingerprint, RuleId>,
}

/// By bucket: the rule, and where the override is.
pub(crate) type Overrides = HashMap<Fingerprint, (RuleId, usize)>;

/// All that is needed to ask a limit without the others.
pub(crate) struct Excerpt {
    /// What its seal starts with.
    pub(crate) start: u128,
    pub(crate) id_format: IdFormat,
    pub(crate) is_shadow: bool,
    pub(crate) default: Option<RuleId>,
    pub(crate) overrides: Arc<Overrides>,
}

/// Why there is no rule for a name and an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    Name,
    Id(IdError),
    /// The name has overrides, but none for this id, and no default.
    NoDefault,
}

/// What applies to a name and an id, and where it says so.
#[derive(Debug)]
pub(crate) struct Applied<'a> {
    pub(crate) named: &'a NamedLimit,
    /// What stands for the name in bucket keys.
    pub(crate) prefix: &'a str,
    pub(crate) id: &'a str,
    pub(crate) over: Option<&'a Override>,
    pub(crate) default: Option<&'a DefaultLimit>,
}

impl<'a> Applied<'a> {
    pub(crate) fn limit(&self) -> Option<&'a Limit> {
        let default = || self.default.map(|default| &default.limit);
        self.over.map(|over| &over.limit).or_else(default)
    }

    pub(crate) fn bucket_key(&self) -> String {
        [self.prefix, ":", self.id].concat()
    }
}

impl Resolver {
    /// Makes limits ready, in place of `old`. Refuses them if there have been more rules than a
    /// book can hold.
    pub(crate) fn new(
        limits: Limits,
        seal: &Seal,
        registry: &mut Registry,
        old: Option<&Self>,
    ) -> Result<Self, BookFull> {
        registry.share_out(&limits);
        let (mut entries, mut places) = (Vec::new(), HashMap::new());
        for (place, named) in limits.iter().enumerate() {
            let mut entry = Entry::new(place, named, seal, registry)?;
            entry.remember(old.and_then(|old| old.last_entry(named.name())), registry);
            places.insert(named.name().into(), place);
            entries.push((named.name().into(), entry));
        }
        let mut retired = HashMap::new();
        for (name, entry) in old.into_iter().flat_map(Self::all) {
            if !places.contains_key(name)
                && retired.len() < NAMES_MAX
                && let Some(entry) = entry.retired(registry)
            {
                retired.insert(name.clone(), entry);
            }
        }
        let has_colons = limits.iter().any(|named| named.name().contains(':'));
        let edition = registry.turn_over();
        Ok(Self { limits, edition, entries, places, retired, has_colons })
    }

    fn all(&self) -> impl Iterator<Item = (&Box<str>, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name, entry)).chain(&self.retired)
    }

    fn last_entry(&self, name: &str) -> Option<&Entry> {
        self.entry(name).ok().or_else(|| self.retired.get(name))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline]
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    /// Whether some name has a colon in it.
    pub(crate) fn has_colons(&self) -> bool {
        self.has_colons
    }

    /// What is limited under a name.
    #[inline]
    pub(crate) fn entry(&self, name: &str) -> Result<&Entry, Unresolved> {
        // A thread often asks for what it asked for last, and comparing takes less than looking up.
        let recent = RECENT.with(|places| places[name.len() % RECENT_NAMES].get());
        match self.entries.get(recent) {
            Some((known, entry)) if **known == *name => Ok(entry),
            _ => self.look_up(name),
        }
    }

    #[inline(never)]
    fn look_up(&self, name: &str) -> Result<&Entry, Unresolved> {
        let place = *self.places.get(name).ok_or(Unresolved::Name)?;
        RECENT.with(|places| places[name.len() % RECENT_NAMES].set(place));
        self.entries.get(place).map(|(_, entry)| entry).ok_or(Unresolved::Name)
    }

    /// A copy of what is limited under a name.
    pub(crate) fn excerpt(&self, name: &str) -> Option<Excerpt> {
        let Entry { seal, id_format, is_shadow, default, overrides, .. } = self.entry(name).ok()?;
        Some(Excerpt {
            start: seal.start(),
            id_format: *id_format,
            is_shadow: *is_shadow,
            default: *default,
            overrides: Arc::clone(overrides),
        })
    }

    /// What a name stands for in the files.
    pub(crate) fn named(&self, name: &str) -> Option<&NamedLimit> {
        self.entry(name).ok().and_then(|entry| self.limits.iter().nth(entry.place))
    }

    /// What [`Entry::question`] finds, in words. The one spelling of the id is written into `buffer`
    /// if it is another.
    pub(crate) fn applied<'a>(
        &'a self,
        name: &str,
        id: &'a str,
        buffer: &'a mut IdBuffer,
    ) -> Result<Applied<'a>, Unresolved> {
        let entry = self.entry(name)?;
        let named = self.limits.iter().nth(entry.place).ok_or(Unresolved::Name)?;
        let id = entry.id_format.canonical(id, buffer).map_err(Unresolved::Id)?;
        let over = if entry.overrides.is_empty() {
            None
        } else {
            let bucket = entry.seal.fingerprint(id.as_bytes());
            entry.overrides.get(&bucket).and_then(|&(_, at)| named.overrides().get(at))
        };
        let (prefix, default) = (&*entry.prefix, named.default());
        Ok(Applied { named, prefix, id, over, default })
    }

    /// Appends the key of the bucket that an id is counted in, and tells how it is shared. Appends
    /// nothing if there is none.
    pub(crate) fn write_bucket_key(&self, name: &str, id: &str, to: &mut Vec<u8>) -> Sharing {
        let Ok(entry) = self.entry(name) else { return Sharing::default() };
        let mut buffer = IdBuffer::new();
        let id = entry.id_format.canonical(id, &mut buffer);
        id.map_or(Sharing::default(), |id| entry.write_bucket_key(id, to))
    }

    /// The id of a bucket that has an override; none where it is not known any more.
    fn overridden(&self, entry: &Entry, bucket: Fingerprint) -> Option<&str> {
        let (_, at) = entry.overrides.get(&bucket)?;
        let over = self.limits.iter().nth(entry.place)?.overrides().get(*at)?;
        // What was restored knows rules, but not whose.
        (entry.seal.fingerprint(over.id.as_bytes()) == bucket).then_some(&over.id)
    }

    /// The limit of the rule that [`Entry::question`] finds.
    pub(crate) fn terms(&self, name: &str, id: &str) -> Result<&Limit, Unresolved> {
        let entry = self.entry(name)?;
        let named = self.limits.iter().nth(entry.place).ok_or(Unresolved::Name)?;
        let default = || named.default().map(|default| &default.limit);
        let mut buffer = IdBuffer::new();
        let id = entry.id_format.canonical(id, &mut buffer).map_err(Unresolved::Id)?;
        if entry.overrides.is_empty() {
            return default().ok_or(Unresolved::NoDefault);
        }
        let bucket = entry.seal.fingerprint(id.as_bytes());
        let over = entry.overrides.get(&bucket).and_then(|&(_, at)| named.overrides().get(at));
        over.map(|over| &over.limit).or_else(default).ok_or(Unresolved::NoDefault)
    }

    /// The buckets that `self` decides by another rule than `old` did last, other than by a new
    /// default: each with the rule it has now, and with what it is called.
    pub(crate) fn moved_since(&self, old: &Self) -> (Vec<Question<Gcra>>, BucketNames) {
        let (mut moved, mut names) = (Vec::new(), BucketNames::default());
        for (name, now) in &self.entries {
            let Some(before) = old.last_entry(name).filter(|old| old.seal == now.seal) else {
                continue;
            };
            for bucket in now.exceptions().chain(before.exceptions()) {
                match (before.last_rule(bucket), now.rule(bucket)) {
                    (Some(was), Some(rule)) if was != rule => {
                        moved.push(question(bucket, rule));
                        let id = self.overridden(now, bucket).or(old.overridden(before, bucket));
                        names.push_with(|to| now.write_bucket_key(id.unwrap_or_default(), to));
                    }
                    _ => {}
                }
            }
        }
        (moved, names)
    }
}

impl Entry {
    fn new(
        place: usize,
        named: &NamedLimit,
        seal: &Seal,
        registry: &mut Registry,
    ) -> Result<Self, BookFull> {
        let prefix = prefix(named);
        let seal = seal.derive(prefix.as_bytes());
        let mut overrides = Overrides::with_capacity(named.overrides().len());
        let default = registry.default(named)?;
        for (at, over) in named.overrides().iter().enumerate() {
            let rule = registry.rule(named.name(), Scope::Override, *over.limit.rule())?;
            overrides.insert(seal.fingerprint(over.id.as_bytes()), (rule, at));
        }
        Ok(Self {
            place,
            seal,
            prefix,
            id_format: named.id_format(),
            is_shadow: named.is_shadow(),
            sharing: named.sharing(),
            default,
            overrides: Arc::new(overrides),
            lapsed: HashMap::new(),
        })
    }

    /// Keeps in mind what buckets without a rule were last decided by.
    fn remember(&mut self, old: Option<&Self>, registry: &Registry) {
        let Some(old) = old.filter(|old| old.seal == self.seal) else {
            return;
        };
        for bucket in old.exceptions() {
            if let (None, Some(rule)) = (self.rule(bucket), old.last_rule(bucket))
                && self.lapsed.len() < OVERRIDES_MAX
                && registry.has(rule)
            {
                self.lapsed.insert(bucket, rule);
            }
        }
    }

    /// Buckets that the default does not apply to, or did not.
    fn exceptions(&self) -> impl Iterator<Item = Fingerprint> {
        self.overrides.keys().chain(self.lapsed.keys()).copied()
    }

    fn last_rule(&self, bucket: Fingerprint) -> Option<RuleId> {
        self.rule(bucket).or_else(|| self.lapsed.get(&bucket).copied())
    }

    /// An ask for an id, as a question to its bucket by its rule.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a question is large to return through memory")]
    pub(crate) fn question(
        &self,
        id: &str,
        action: Action,
        cost: u64,
    ) -> Result<Question<Gcra>, Unresolved> {
        let (bucket, rule) = self.bucket(id)?;
        let ask = Ask { rule, action, is_shadow: self.shadows(action), cost };
        Ok(Question { bucket, ask, joined: false })
    }

    /// The bucket of an id, and the rule that applies to it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would have them pass through memory")]
    pub(crate) fn bucket(&self, id: &str) -> Result<(Fingerprint, RuleId), Unresolved> {
        let mut buffer = IdBuffer::new();
        let id = self.id_format.canonical(id, &mut buffer).map_err(Unresolved::Id)?;
        let bucket = self.seal.fingerprint(id.as_bytes());
        Ok((bucket, self.rule(bucket).ok_or(Unresolved::NoDefault)?))
    }

    /// Whether it lets pass what it would deny.
    #[inline]
    pub(crate) fn shadows(&self, action: Action) -> bool {
        self.is_shadow && may_deny(action)
    }

    /// Appends the key of the bucket of an id in its one spelling; nothing for no id.
    fn write_bucket_key(&self, id: &str, to: &mut Vec<u8>) -> Sharing {
        if !id.is_empty() {
            to.extend_from_slice(self.prefix.as_bytes());
            to.push(b':');
            to.extend_from_slice(id.as_bytes());
        }
        self.sharing
    }

    /// The format of its ids.
    pub(crate) fn id_format(&self) -> IdFormat {
        self.id_format
    }

    #[inline]
    fn rule(&self, bucket: Fingerprint) -> Option<RuleId> {
        // Most limits have no override, and then there is nothing to look up.
        if !self.overrides.is_empty()
            && let Some((rule, _)) = self.overrides.get(&bucket)
        {
            return Some(*rule);
        }
        self.default
    }
}

/// Giving back denies nobody, in shadow or not.
#[inline]
pub(crate) fn may_deny(action: Action) -> bool {
    !matches!(action, Action::Refund | Action::Reset)
}

/// What stands for a limit in a bucket key. No limit has a blank in its name, so that a bucket
/// called `6` is not taken for the limit with that number.
fn prefix(named: &NamedLimit) -> Box<str> {
    if named.is_bucket() {
        return format!("bucket {}", named.name()).into();
    }
    named.number().map_or_else(|| named.name().into(), |number| number.to_string().into())
}

fn question(bucket: Fingerprint, rule: RuleId) -> Question<Gcra> {
    let ask = Ask { rule, action: Action::CheckOnly, is_shadow: false, cost: 0 };
    Question { bucket, ask, joined: false }
}
