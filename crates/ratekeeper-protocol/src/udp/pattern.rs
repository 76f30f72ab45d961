//! Regular expressions over the bytes of a key, and texts that take parts of what they matched.
//!
//! Unicode is off: `\d` is an ASCII digit, `.` is any byte but a line feed, and a key that is not
//! valid UTF-8 is a key like any other. The search takes time in proportion to the key, whatever
//! the expression.

use std::iter::successors;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::meta::{BuildError, Config, Regex};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::{start, syntax};
use regex_automata::{Input, MatchKind, PatternSet};

/// How much memory one expression may take when it is compiled.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;
/// How much memory the expressions of a file may take together.
pub const PATTERNS_BYTES_MAX: usize = 16 << 20;
/// How much memory the table of a search for all of them may take, for every thread that searches.
const TABLE_BYTES_MAX: usize = 2 << 20;
/// A table that is full is made anew so often without asking
const TABLES_MIN: usize = 3;
/// whether each of its states has led through so many bytes; where not, it costs more than it saves.
const BYTES_PER_STATE_MIN: usize = 10;
/// How many places a word has a bit for.
const WORD: usize = u64::BITS as usize;
/// How many groups an expression can have, counting all of it as one.
pub const GROUPS_MAX: usize = 16;
/// How many parts a template can have.
pub const TEMPLATE_PARTS_MAX: usize = 32;

/// Where groups begin and end.
pub(super) type Slots = [Option<NonMaxUsize>; 2 * GROUPS_MAX];

/// Something wrong with an expression or a template: at which character of it, and what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// From 0; `None` if it is about all of it.
    pub(super) at: Option<usize>,
    pub(super) what: String,
}

/// One expression.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, Wrong> {
        let config = Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX));
        let regex = Regex::builder().syntax(ascii()).configure(config).build(text);
        let regex = regex.map_err(|error| wrong(text, &error))?;
        let pattern = Self { regex };
        if pattern.groups() > GROUPS_MAX {
            let what = format!("has more than {} groups", GROUPS_MAX.saturating_sub(1));
            return Err(Wrong { at: None, what });
        }
        Ok(pattern)
    }

    /// How many groups there are, counting all of it as one.
    pub(super) fn groups(&self) -> usize {
        self.regex.captures_len()
    }

    pub(super) fn is_match(&self, key: &[u8]) -> bool {
        self.regex.is_match(key)
    }

    /// Finds the first match in the key, and where its groups are.
    pub(super) fn find<'k>(&self, key: &'k [u8], slots: &mut Slots) -> Option<Found<'k>> {
        *slots = [None; 2 * GROUPS_MAX];
        let used = slots.get_mut(..self.groups().saturating_mul(2))?;
        self.regex.search_slots(&Input::new(key), used)?;
        Some(Found { key, slots: *slots })
    }
}

fn ascii() -> syntax::Config {
    syntax::Config::new().unicode(false).utf8(false)
}

fn wrong(text: &str, error: &BuildError) -> Wrong {
    let Some(error) = error.syntax_error() else {
        let what = format!("takes more than {PATTERN_BYTES_MAX} bytes when it is compiled");
        return Wrong { at: None, what };
    };
    let (offset, kind) = match error {
        regex_syntax::Error::Parse(error) => (error.span().start.offset, error.kind().to_string()),
        regex_syntax::Error::Translate(error) => {
            (error.span().start.offset, error.kind().to_string())
        }
        other => (0, other.to_string()),
    };
    let at = text.get(..offset).map(|before| before.chars().count());
    Wrong { at, what: kind }
}

/// A match, with its groups.
#[derive(Debug)]
pub(super) struct Found<'k> {
    key: &'k [u8],
    slots: Slots,
}

impl<'k> Found<'k> {
    /// All of a key, without groups.
    pub(super) fn whole(key: &'k [u8]) -> Self {
        let mut slots = [None; 2 * GROUPS_MAX];
        let [start, end, ..] = &mut slots;
        (*start, *end) = (NonMaxUsize::new(0), NonMaxUsize::new(key.len()));
        Self { key, slots }
    }

    /// A group; empty if it took no part in the match.
    fn group(&self, number: usize) -> &'k [u8] {
        self.range(number).and_then(|range| self.key.get(range)).unwrap_or_default()
    }

    fn range(&self, number: usize) -> Option<std::ops::Range<usize>> {
        let start = number.saturating_mul(2);
        let slot = |at: usize| self.slots.get(at).copied().flatten().map(NonMaxUsize::get);
        Some(slot(start)?..slot(start.saturating_add(1))?)
    }

    /// What is before the match, and what is after it.
    pub(super) fn around(&self) -> (&'k [u8], &'k [u8]) {
        let range = self.range(0).unwrap_or_default();
        let before = self.key.get(..range.start).unwrap_or_default();
        (before, self.key.get(range.end..).unwrap_or_default())
    }
}

/// Several expressions, searched in one pass.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// The quick way: a table of what to expect behind each byte, filled in as keys come. There is
    /// none for expressions that would take too much of it.
    table: Option<DFA>,
    /// The way that needs no table; `None` for no expressions.
    plain: Option<PikeVM>,
}

/// What a search for several expressions needs, and keeps.
#[derive(Debug)]
pub(super) struct Searcher {
    table: Option<dfa::Cache>,
    /// Made when it is first needed.
    plain: Option<(pikevm::Cache, PatternSet)>,
    found: Places,
}

impl Patterns {
    /// Expressions that are right by themselves; together they may be too many.
    pub(super) fn new(texts: &[&str]) -> Result<Self, Wrong> {
        let config = NFA::config()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(PATTERNS_BYTES_MAX));
        let nfa = NFA::compiler().syntax(ascii()).configure(config).build_many(texts);
        // Each of them was built before, so nothing but their size can be wrong.
        let refused = || {
            let what = format!("take more than {PATTERNS_BYTES_MAX} bytes when compiled");
            Wrong { at: None, what }
        };
        let nfa = nfa.map_err(|_| refused())?;
        let config = PikeVM::config().match_kind(MatchKind::All);
        let plain = PikeVM::builder().configure(config).build_from_nfa(nfa.clone());
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(TABLE_BYTES_MAX)
            .minimum_cache_clear_count(Some(TABLES_MIN))
            .minimum_bytes_per_state(Some(BYTES_PER_STATE_MIN));
        let table = DFA::builder().configure(config).build_from_nfa(nfa).ok();
        Ok(Self { table, plain: Some(plain.map_err(|_| refused())?) })
    }

    /// The same, searched the plain way.
    #[cfg(test)]
    pub(super) fn without_table(self) -> Self {
        Self { table: None, ..self }
    }

    pub(super) fn searcher(&self) -> Searcher {
        let table = self.table.as_ref().map(DFA::create_cache);
        let count = self.plain.as_ref().map_or(0, PikeVM::pattern_len);
        Searcher { table, plain: None, found: Places::new(count) }
    }

    /// Finds all that match the key, for [`Searcher::found_from`].
    #[inline]
    pub(super) fn search(&self, key: &[u8], searcher: &mut Searcher) {
        let Searcher { table, plain, found } = searcher;
        found.clear();
        let went = match (&self.table, table) {
            (Some(dfa), Some(cache)) => look_up(dfa, cache, key, found).is_some(),
            _ => false,
        };
        if !went {
            self.search_plainly(key, plain, found);
        }
    }

    #[cold]
    fn search_plainly(
        &self,
        key: &[u8],
        room: &mut Option<(pikevm::Cache, PatternSet)>,
        found: &mut Places,
    ) {
        let Some(plain) = &self.plain else { return };
        let new = || (plain.create_cache(), PatternSet::new(plain.pattern_len()));
        let (cache, set) = room.get_or_insert_with(new);
        set.clear();
        plain.which_overlapping_matches(cache, &Input::new(key), set);
        set.iter().for_each(|place| found.insert(place.as_usize()));
    }
}

impl Searcher {
    /// The places of those that matched the key that was searched last, from `start` on, in order.
    #[inline]
    pub(super) fn found_from(&self, start: usize) -> impl Iterator<Item = usize> {
        let first = self.found.first_from(start);
        successors(first, |place| self.found.first_from(place.saturating_add(1)))
    }
}

/// Finds the places of all that match; nothing if the table would have to be made anew too often.
///
/// The library's own search for a set does the same behind calls that take longer than a short key: with it, and
/// numbers by `itoa`, a datagram takes 53 % more instructions.
#[inline]
fn look_up(dfa: &DFA, cache: &mut dfa::Cache, key: &[u8], found: &mut Places) -> Option<()> {
    cache.search_start(0);
    let mut state = dfa.start_state(cache, &start::Config::new()).ok()?;
    let mut bytes = key.iter();
    loop {
        let (last, byte) = skip(dfa, cache, state, &mut bytes);
        state = last;
        let Some(byte) = byte else { break };
        state = dfa.next_state(cache, state, *byte).ok()?;
        if state.is_match() {
            insert_all(dfa, cache, state, found);
        } else if state.is_dead() {
            break;
        } else if state.is_quit() {
            return None;
        }
    }
    if !state.is_dead() {
        state = dfa.next_eoi_state(cache, state).ok()?;
        if state.is_match() {
            insert_all(dfa, cache, state, found);
        }
    }
    cache.search_finish(key.len());
    Some(())
}

/// Goes on while the next state is in the table and nothing is to be said of it, which is most often.
/// Returns the last such state, and the byte that leads elsewhere, if one does.
#[inline]
fn skip<'k>(
    dfa: &DFA,
    cache: &dfa::Cache,
    mut state: LazyStateID,
    bytes: &mut std::slice::Iter<'k, u8>,
) -> (LazyStateID, Option<&'k u8>) {
    if state.is_tagged() {
        return (state, bytes.next());
    }
    for byte in bytes {
        let next = dfa.next_state_untagged(cache, state, *byte);
        if next.is_tagged() {
            return (state, Some(byte));
        }
        state = next;
    }
    (state, None)
}

fn insert_all(dfa: &DFA, cache: &dfa::Cache, state: LazyStateID, found: &mut Places) {
    for index in 0..dfa.match_len(cache, state) {
        found.insert(dfa.match_pattern(cache, state, index).as_usize());
    }
}

/// Places in a list, in order: a bit for each.
#[derive(Debug)]
struct Places {
    words: Box<[u64]>,
}

impl Places {
    fn new(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(WORD)].into() }
    }

    fn clear(&mut self) {
        self.words.fill(0);
    }

    fn insert(&mut self, place: usize) {
        if let Some(word) = self.words.get_mut(place.div_euclid(WORD)) {
            *word |= 1 << place.rem_euclid(WORD);
        }
    }

    /// The first from `start` on.
    #[inline]
    fn first_from(&self, start: usize) -> Option<usize> {
        let (mut at, mut bit) = (start.div_euclid(WORD), start.rem_euclid(WORD));
        loop {
            let rest = self.words.get(at)? >> bit;
            if rest != 0 {
                let bit = bit.saturating_add(rest.trailing_zeros() as usize);
                return Some(at.saturating_mul(WORD).saturating_add(bit));
            }
            (at, bit) = (at.saturating_add(1), 0);
        }
    }
}

/// A text with places for the groups of an expression: `ws ip=$1`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    Group(usize),
    /// A group in lower case.
    Lower(usize),
}

impl Template {
    /// The group of this number.
    pub(super) fn group(number: usize) -> Self {
        Self { parts: vec![Part::Group(number)] }
    }

    /// This text.
    pub(super) fn text(text: &str) -> Self {
        Self { parts: vec![Part::Text(text.as_bytes().into())] }
    }

    /// Reads a template for an expression with this many groups, counting all of it as one.
    pub(super) fn new(text: &str, groups: usize) -> Result<Self, Wrong> {
        let mut parts = Vec::new();
        let (mut plain, mut rest) = (String::new(), text);
        while let Some(c) = rest.chars().next() {
            if !matches!(c, '$' | '\\') {
                plain.push(c);
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
                continue;
            }
            let at = text.chars().count().saturating_sub(rest.chars().count());
            let reference = Reference::read(rest)
                .and_then(|reference| reference.check(groups))
                .map_err(|what| Wrong { at: Some(at), what })?;
            rest = rest.get(reference.length..).unwrap_or_default();
            match reference.part {
                Part::Text(text) => plain.extend(text.iter().copied().map(char::from)),
                part => {
                    push_text(&mut parts, &mut plain);
                    parts.push(part);
                }
            }
        }
        push_text(&mut parts, &mut plain);
        if parts.len() > TEMPLATE_PARTS_MAX {
            let what = format!("has more than {TEMPLATE_PARTS_MAX} parts");
            return Err(Wrong { at: None, what });
        }
        Ok(Self { parts })
    }

    /// The text, if it has no places for groups.
    pub(super) fn constant(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(&[]),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the text with the groups in their places.
    pub(super) fn expand(&self, found: &Found<'_>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Group(number) => out.extend_from_slice(found.group(*number)),
                Part::Lower(number) => {
                    out.extend(found.group(*number).iter().map(u8::to_ascii_lowercase));
                }
            }
        }
    }
}

fn push_text(parts: &mut Vec<Part>, plain: &mut String) {
    if !plain.is_empty() {
        parts.push(Part::Text(std::mem::take(plain).into_bytes().into()));
    }
}

/// `$1`, `\1`, `${1}`, `${1:lower}`, `$$` or `\\`, and how many bytes that is.
struct Reference {
    part: Part,
    length: usize,
}

/// What is wrong with a `$` or a backslash that no group follows.
pub(super) const NO_REFERENCE: &str = "no group is meant by this";

impl Reference {
    fn read(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            [b'$', b'$', ..] => Ok(Self { part: Part::Text([b'$'].into()), length: 2 }),
            [b'\\', b'\\', ..] => Ok(Self { part: Part::Text([b'\\'].into()), length: 2 }),
            [b'$' | b'\\', digit @ b'0'..=b'9', ..] => {
                let number = usize::from(digit.saturating_sub(b'0'));
                Ok(Self { part: Part::Group(number), length: 2 })
            }
            [b'$', b'{', ..] => Self::read_braces(text),
            _ => Err(NO_REFERENCE.to_owned()),
        }
    }

    fn read_braces(text: &str) -> Result<Self, String> {
        let inside = text.strip_prefix("${").and_then(|rest| rest.split_once('}'));
        let (inside, _) = inside.ok_or(NO_REFERENCE)?;
        let (number, is_lower) = match inside.split_once(':') {
            Some((number, "lower")) => (number, true),
            Some(_) => return Err(NO_REFERENCE.to_owned()),
            None => (inside, false),
        };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NO_REFERENCE.to_owned());
        }
        let number = number.parse().unwrap_or(usize::MAX);
        let part = if is_lower { Part::Lower(number) } else { Part::Group(number) };
        Ok(Self { part, length: inside.len().saturating_add(3) })
    }

    fn check(self, groups: usize) -> Result<Self, String> {
        match &self.part {
            Part::Group(number) | Part::Lower(number) if *number >= groups => {
                let count = groups.saturating_sub(1);
                Err(match count {
                    0 => format!("there is no group {number}: match has none"),
                    1 => format!("there is no group {number}: match has one"),
                    _ => format!("there is no group {number}: match has {count}"),
                })
            }
            _ => Ok(self),
        }
    }
}
