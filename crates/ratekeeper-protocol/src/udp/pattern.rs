//! Regular expressions over the bytes of a key, and texts that take parts of what they matched.
//!
//! Unicode is off: `\d` is an ASCII digit, `.` is any byte but a line feed, and a key that is not
//! valid UTF-8 is a key like any other. The search takes time in proportion to the key, whatever
//! the expression.

use regex_automata::meta::{BuildError, Cache, Config, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// How much memory one expression may take when it is compiled.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;
/// How much memory the expressions of a file may take together.
pub const PATTERNS_BYTES_MAX: usize = 16 << 20;
/// How much memory the table of a search for all of them may take, for every thread that searches.
const TABLE_BYTES_MAX: usize = 2 << 20;
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
    /// `None` for no expressions.
    regex: Option<Regex>,
}

/// What a search for several expressions needs, and keeps.
#[derive(Debug)]
pub(super) struct Searcher {
    cache: Option<Cache>,
    found: PatternSet,
}

impl Patterns {
    /// Expressions that are right by themselves; together they may be too many.
    pub(super) fn new(texts: &[&str]) -> Result<Self, Wrong> {
        let config = Config::new()
            .match_kind(MatchKind::All)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(PATTERNS_BYTES_MAX))
            .hybrid_cache_capacity(TABLE_BYTES_MAX);
        let regex = Regex::builder().syntax(ascii()).configure(config).build_many(texts);
        // Each of them was built before, so nothing but their size can be wrong.
        let refused = |_| {
            let what = format!("take more than {PATTERNS_BYTES_MAX} bytes when compiled");
            Wrong { at: None, what }
        };
        Ok(Self { regex: Some(regex.map_err(refused)?) })
    }

    pub(super) fn searcher(&self) -> Searcher {
        let cache = self.regex.as_ref().map(Regex::create_cache);
        let count = self.regex.as_ref().map_or(0, Regex::pattern_len);
        Searcher { cache, found: PatternSet::new(count) }
    }

    /// Finds all that match the key, for [`Searcher::found_from`].
    #[inline]
    pub(super) fn search(&self, key: &[u8], searcher: &mut Searcher) {
        let Searcher { cache, found } = searcher;
        found.clear();
        if let (Some(regex), Some(cache)) = (&self.regex, cache) {
            regex.which_overlapping_matches_with(cache, &Input::new(key), found);
        }
    }
}

impl Searcher {
    /// The places of those that matched the key that was searched last, from `start` on, in order.
    #[inline]
    pub(super) fn found_from(&self, start: usize) -> impl Iterator<Item = usize> {
        self.found.iter().map(|id| id.as_usize()).skip_while(move |place| *place < start)
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
