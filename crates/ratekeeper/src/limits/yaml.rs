//! The part of YAML that limits files are written in, as a tree that knows where it stands.
//!
//! Anchors, aliases, tags and merge keys are refused: a limit should read the same to whoever
//! opens the file, and without aliases a small file cannot stand for a huge one.

use std::borrow::Cow;

use super::fault::{Report, Span};
use super::yaml_reader::Reader;

/// The largest limits file that is read.
pub const FILE_BYTES_MAX: usize = 64 << 20;

/// A byte order mark is no text; editors put it before the first line.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A part of a document.
#[derive(Debug)]
pub struct Node<'a> {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub value: Value<'a>,
}

/// What a part of a document is.
#[derive(Debug)]
pub enum Value<'a> {
    /// Nothing, `~` or `null`.
    Null,
    /// A text or a number.
    Scalar {
        /// What is written.
        text: Cow<'a, str>,
        /// Whether it is written without quotes.
        is_plain: bool,
    },
    /// Several, in order.
    List(Vec<Node<'a>>),
    /// Several, each with a key.
    Mapping(Vec<Pair<'a>>),
    /// Something that has been reported already.
    Refused,
}

/// A key and its value.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The value.
    pub value: Node<'a>,
}

/// The keys of one mapping all differ.
#[derive(Debug)]
pub struct Key<'a> {
    /// Where it stands.
    pub span: Span,
    /// What is written.
    pub text: Cow<'a, str>,
    /// Whether it is written without quotes.
    pub is_plain: bool,
}

/// One of the things that a document is a list or mapping of.
#[derive(Debug)]
pub enum Entry<'a> {
    /// One of a list.
    Item(Node<'a>),
    /// One of a mapping.
    Pair(Pair<'a>),
    /// A pair whose key stands above already, which has been reported. It says nothing, but what
    /// else is wrong with it should be told at once.
    Duplicate(Pair<'a>),
}

/// What a document is, apart from its entries.
#[derive(Debug)]
pub struct Document<'a> {
    /// A list or mapping is empty here: its entries have been passed on.
    pub root: Option<Node<'a>>,
    /// Whether it has no entries.
    pub is_empty: bool,
    /// Whether all of it was read.
    pub is_whole: bool,
}

/// Reads the one document of `text` and passes its entries on, one by one, so that a million
/// overrides never stand in memory as a tree. What is not YAML ends the reading; the entries
/// before it still count.
pub fn read<'a, 's>(
    text: &'a str,
    report: &mut Report<'s>,
    take_entry: impl FnMut(&Entry<'a>, &mut Report<'s>),
) -> Document<'a> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
        report.fault(Span { line: 1, column: 1, length: 1 }, message, "use fewer overrides");
        return Document { root: None, is_empty: true, is_whole: false };
    }
    if refuse_characters(text, report) {
        return Document { root: None, is_empty: true, is_whole: false };
    }
    Reader::new(report, take_entry).read(text)
}

/// YAML has no place for control characters; the parser takes a NUL for the end of the file, and
/// would silently forget whatever follows it.
fn refuse_characters(text: &str, report: &mut Report<'_>) -> bool {
    let is_refused = |c: char| {
        (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}'))
            || matches!(c, BYTE_ORDER_MARK | '\u{fffe}' | '\u{ffff}')
    };
    if !text.contains(is_refused) {
        return false;
    }
    let (mut line, mut column, mut previous) = (1_u32, 1_u32, ' ');
    for c in text.chars() {
        if is_refused(c) {
            let message = format!("the character U+{:04X} cannot stand in a file", u32::from(c));
            report.fault(Span { line, column, length: 1 }, message, "remove it");
        }
        (line, column) = match (previous, c) {
            ('\r', '\n') => (line, 1),
            (_, '\r' | '\n') => (line.saturating_add(1), 1),
            _ => (line, column.saturating_add(1)),
        };
        previous = c;
    }
    true
}
