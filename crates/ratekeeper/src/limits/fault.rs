//! What is wrong with a file: where, what, and what to do about it.

use std::fmt;
use std::sync::Arc;

use super::Source;

/// How many faults are told in full; the rest are counted.
pub const FAULTS_MAX: usize = 100;

/// How much of a line is shown, in characters.
const EXCERPT_CHARS_MAX: usize = 120;
/// How much of a long line is shown before the place of the fault.
const EXCERPT_LEAD_CHARS: usize = 40;

/// Where something stands in a file: lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// How many characters of the line it is about.
    pub length: u32,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, by the name of its [`Source`].
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// How many characters of the line it is about, at least 1.
    pub length: u32,
    /// What is wrong.
    pub message: Box<str>,
    /// What was expected, or what to do.
    pub help: Box<str>,
    excerpt: Excerpt,
}

/// The part of the line that is shown, and where in it the fault begins, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Excerpt {
    text: Box<str>,
    indent: usize,
}

/// Shows the line as well, with the place marked.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, help, excerpt, .. } = self;
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        let indent = " ".repeat(excerpt.indent);
        let shown = excerpt.text.chars().count().saturating_sub(excerpt.indent).max(1);
        let marks = "^".repeat(usize::try_from(self.length).unwrap_or(shown).min(shown));
        writeln!(f, "{file}:{line}:{column}: {message}")?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {}", excerpt.text)?;
        write!(f, "{gutter} | {indent}{marks} {help}")
    }
}

/// What is shown in place of a line with a secret in it.
const HIDDEN: &str = "(not shown)";

/// Everything that is wrong with the files, in the order of the files and the lines; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    faults: Vec<Fault>,
    untold: usize,
}

impl Faults {
    /// `Err` if any of the reports has a fault in it.
    pub fn check<'a>(reports: impl Iterator<Item = Report<'a>>) -> Result<(), Self> {
        let mut all = Self { faults: Vec::new(), untold: 0 };
        for report in reports {
            all.untold = all.untold.saturating_add(report.untold);
            all.faults.extend(report.finish());
        }
        all.untold = all.untold.saturating_add(all.faults.len().saturating_sub(FAULTS_MAX));
        all.faults.truncate(FAULTS_MAX);
        if all.faults.is_empty() { Ok(()) } else { Err(all) }
    }

    /// Tells the faults of another file as well.
    pub fn append(&mut self, other: Self) {
        self.faults.extend(other.faults);
        let beyond = self.faults.len().saturating_sub(FAULTS_MAX);
        self.untold = self.untold.saturating_add(other.untold).saturating_add(beyond);
        self.faults.truncate(FAULTS_MAX);
    }

    /// The faults, at most [`FAULTS_MAX`] of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.faults.iter()
    }

    /// How many there are beyond those.
    pub fn untold(&self) -> usize {
        self.untold
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n\n" };
            write!(f, "{separator}{fault}")?;
        }
        if self.untold == 0 { Ok(()) } else { write!(f, "\n\nand {} more", self.untold) }
    }
}

/// Where the faults of one file are collected.
#[derive(Debug)]
pub struct Report<'a> {
    text: &'a str,
    file: Arc<str>,
    faults: Vec<Fault>,
    untold: usize,
    /// Lines that are not shown.
    hidden: Vec<u32>,
}

impl<'a> Report<'a> {
    /// Nothing is wrong with `source` so far.
    pub fn new(source: &Source<'a>) -> Self {
        let (text, file) = (source.text, source.name.into());
        Self { text, file, faults: Vec::new(), untold: 0, hidden: Vec::new() }
    }

    /// The name of the file.
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Something is wrong at `span`; `help` says what was expected, or what to do.
    pub fn fault(&mut self, span: Span, message: impl Into<Box<str>>, help: impl Into<Box<str>>) {
        // Files are checked from top to bottom, so what is left untold is the end of the file.
        if self.faults.len() == FAULTS_MAX {
            self.untold = self.untold.saturating_add(1);
            return;
        }
        self.faults.push(Fault {
            file: Arc::clone(&self.file),
            line: span.line,
            column: span.column,
            length: span.length.max(1),
            message: message.into(),
            help: help.into(),
            excerpt: Excerpt::default(),
        });
    }

    /// The line of `span` has a secret in it: what is wrong there is told without showing it.
    pub fn hide(&mut self, span: Span) {
        self.hidden.push(span.line);
    }

    /// Whether `text` stands at `span` as it is: then it can be pointed at a part of it.
    pub fn has_text_at(&self, span: Span, text: &str) -> bool {
        let mut lines = Lines { rest: Some(self.text), line: "", number: 0 };
        lines.advance_to(span.line);
        let column = usize::try_from(span.column).unwrap_or(usize::MAX).saturating_sub(1);
        let mut written = lines.line.chars().skip(column);
        text.chars().all(|c| written.next() == Some(c))
    }

    /// Where the last `mark` stands before `span`, on its line or with nothing but blanks and comments
    /// between; `span` itself if there is none.
    pub fn mark_before(&self, span: Span, mark: char) -> Span {
        // What is not told need not be found: it takes a walk through the text.
        if self.faults.len() == FAULTS_MAX {
            return span;
        }
        let mut lines = Lines { rest: Some(self.text), line: "", number: 0 };
        let mut above = (span.line, "");
        for number in 1..span.line {
            lines.advance_to(number);
            let line = without_comment(lines.line);
            if !line.trim().is_empty() {
                above = (number, line);
            }
        }
        lines.advance_to(span.line);
        let column = usize::try_from(span.column).unwrap_or(usize::MAX).saturating_sub(1);
        let end = lines.line.char_indices().nth(column).map_or(lines.line.len(), |(end, _)| end);
        let beside = lines.line.get(..end).unwrap_or_default();
        let (line, text) = if beside.trim().is_empty() { above } else { (span.line, beside) };
        // Some tags have more than one.
        let begins =
            |before: &str| before.ends_with([' ', '\t', '[', '{', ',']) || before.is_empty();
        let mut places = text.match_indices(mark).filter_map(|(at, _)| text.split_at_checked(at));
        let Some((before, marked)) = places.rfind(|(before, _)| begins(before)) else {
            return span;
        };
        let word = marked.split(char::is_whitespace).next().unwrap_or_default();
        let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        Span { line, column: count(before).saturating_add(1), length: count(word) }
    }

    /// The faults from top to bottom, each with the line it is about.
    fn finish(mut self) -> Vec<Fault> {
        self.faults.sort_by_key(|fault| (fault.line, fault.column));
        let mut lines = Lines { rest: Some(self.text), line: "", number: 0 };
        for fault in &mut self.faults {
            lines.advance_to(fault.line);
            if self.hidden.contains(&fault.line) {
                fault.excerpt = Excerpt { text: HIDDEN.into(), indent: 0 };
            } else {
                lines.show(fault);
            }
        }
        self.faults
    }
}

/// A comment begins a line, or behind a blank.
fn without_comment(line: &str) -> &str {
    let is_begun = |at: usize| line.get(..at).is_some_and(|it| it.trim_end().len() < it.len());
    let mut hashes = line.match_indices('#').map(|(at, _)| at);
    let begin = hashes.find(|&at| at == 0 || is_begun(at));
    begin.and_then(|at| line.get(..at)).unwrap_or(line)
}

/// Walks down the lines of a text. A line ends as YAML says: with LF, CR or both.
struct Lines<'a> {
    rest: Option<&'a str>,
    line: &'a str,
    number: u32,
}

impl Lines<'_> {
    fn advance_to(&mut self, number: u32) {
        while self.number < number
            && let Some(text) = self.rest
        {
            let (line, rest) = split_line(text);
            // What follows the last line break is no line, but the parser finds faults there.
            if rest.is_none() && line.is_empty() && self.number > 0 {
                self.rest = None;
                return;
            }
            (self.line, self.rest) = (line, rest);
            self.number = self.number.saturating_add(1);
        }
    }

    /// A fault beyond the last line is one at the end of it.
    fn show(&self, fault: &mut Fault) {
        let chars = self.line.chars().count();
        let end = u32::try_from(chars).unwrap_or(u32::MAX).saturating_add(1);
        if fault.line > self.number {
            (fault.line, fault.column) = (self.number, end);
        }
        fault.column = fault.column.min(end);
        fault.length = fault.length.min(end.saturating_sub(fault.column)).max(1);
        let column = usize::try_from(fault.column).unwrap_or(usize::MAX).saturating_sub(1);
        let skipped =
            if chars > EXCERPT_CHARS_MAX { column.saturating_sub(EXCERPT_LEAD_CHARS) } else { 0 };
        let shown = self.line.chars().skip(skipped).take(EXCERPT_CHARS_MAX);
        // A tab or a bell would move the mark away from what it marks.
        let text: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        fault.excerpt = Excerpt { text: text.into(), indent: column.saturating_sub(skipped) };
    }
}

/// The first line, and what follows it if anything does. A line ends with LF, CR or both.
pub(super) fn split_line(text: &str) -> (&str, Option<&str>) {
    match text.split_once(['\n', '\r']) {
        None => (text, None),
        Some((line, rest)) if text.as_bytes().get(line.len()) == Some(&b'\r') => {
            (line, Some(rest.strip_prefix('\n').unwrap_or(rest)))
        }
        Some((line, rest)) => (line, Some(rest)),
    }
}
