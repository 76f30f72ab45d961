//! From the events of the YAML parser to the entries of a document.
//!
//! The reading ends early at what is not YAML, at a second document, and at lists in lists beyond
//! reason. The parser is not asked again after an error: what it does then is not defined.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

use super::fault::{Report, Span};
use super::field::found;
use super::yaml::{Document, Entry, Key, Node, Pair, Value};

/// How deep lists and mappings may stand in each other; limits files need five.
pub const DEPTH_MAX: usize = 16;

/// How many keys are compared with each other rather than hashed.
const FEW_PAIRS: usize = 8;

/// A list or mapping that has begun and not ended.
enum Open<'a> {
    List(Span, Vec<Node<'a>>),
    Mapping(Span, Vec<Pair<'a>>, NextKey<'a>),
}

/// What a mapping waits for.
enum NextKey<'a> {
    Awaited,
    /// The value of this key.
    Read(Key<'a>),
    /// The value of a key that was refused.
    Refused,
}

pub(super) struct Reader<'a, 'r, 's, T> {
    report: &'r mut Report<'s>,
    take_entry: T,
    stack: Vec<Open<'a>>,
    /// The entry that was read last. It is passed on when it is known to be complete.
    last_entry: Option<Entry<'a>>,
    /// Where the keys of the document stand.
    entry_lines: HashMap<Cow<'a, str>, u32>,
    root: Option<Node<'a>>,
    is_empty: bool,
    is_whole: bool,
}

impl<'a, 'r, 's, T: FnMut(&Entry<'a>, &mut Report<'s>)> Reader<'a, 'r, 's, T> {
    pub(super) fn new(report: &'r mut Report<'s>, take_entry: T) -> Self {
        Self {
            report,
            take_entry,
            stack: Vec::new(),
            last_entry: None,
            entry_lines: HashMap::new(),
            root: None,
            is_empty: true,
            is_whole: true,
        }
    }

    pub(super) fn read(mut self, text: &'a str) -> Document<'a> {
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            match event {
                Ok((event, span)) => self.take(event, to_span(span)),
                Err(error) => self.give_up(&error),
            }
            if !self.is_whole {
                break;
            }
        }
        // A wrong indentation ends an entry too early, and then what it lacks stands below: after
        // a failure the last entry is not to be trusted.
        if self.is_whole {
            self.pass_entry(None);
        }
        Document { root: self.root, is_empty: self.is_empty, is_whole: self.is_whole }
    }

    fn take(&mut self, event: Event<'a>, span: Span) {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                // The first document has ended, so its last entry is complete.
                self.pass_entry(None);
                self.stop(span, "a second document begins", "a file holds one document");
            }
            Event::Alias(_) => {
                self.report.fault(span, "an alias is refused", "write the value out");
                self.place(Node { span, value: Value::Refused });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_marks(span, anchor, tag.is_some());
                self.place(Node { span, value: scalar(text, style) });
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_marks(span, anchor, tag.is_some());
                self.open(span, Open::List(span, Vec::new()));
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_marks(span, anchor, tag.is_some());
                self.open(span, Open::Mapping(span, Vec::new(), NextKey::Awaited));
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            _ => {}
        }
    }

    fn refuse_marks(&mut self, span: Span, anchor: usize, has_tag: bool) {
        if anchor != 0 {
            let span = self.report.mark_before(span, '&');
            self.report.fault(span, "an anchor is refused", "remove the `&name`");
        }
        if has_tag {
            let span = self.report.mark_before(span, '!');
            self.report.fault(span, "a tag is refused", "remove the `!tag`");
        }
    }

    fn open(&mut self, span: Span, open: Open<'a>) {
        if self.stack.len() == DEPTH_MAX {
            let help = "a limit needs burst, count and period, not more levels";
            self.stop(span, "lists and mappings stand too deep in each other", help);
        } else {
            self.stack.push(open);
        }
    }

    fn close(&mut self) {
        let node = match self.stack.pop() {
            Some(Open::List(span, items)) => Node { span, value: Value::List(items) },
            Some(Open::Mapping(span, pairs, _)) => {
                let pairs = drop_duplicates(pairs, self.report);
                Node { span, value: Value::Mapping(pairs) }
            }
            None => return,
        };
        self.place(node);
    }

    fn place(&mut self, node: Node<'a>) {
        let is_entry = self.stack.len() == 1;
        self.is_empty &= !is_entry;
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(..)) if is_entry => self.pass_entry(Some(Entry::Item(node))),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Mapping(_, pairs, next)) => {
                match std::mem::replace(next, NextKey::Awaited) {
                    NextKey::Awaited => *next = as_key(node, self.report),
                    NextKey::Refused => {}
                    NextKey::Read(key) if is_entry => self.pass_pair(Pair { key, value: node }),
                    NextKey::Read(key) => pairs.push(Pair { key, value: node }),
                }
            }
        }
    }

    fn pass_pair(&mut self, pair: Pair<'a>) {
        match self.entry_lines.entry(pair.key.text.clone()) {
            MapEntry::Vacant(entry) => {
                entry.insert(pair.key.span.line);
                self.pass_entry(Some(Entry::Pair(pair)));
            }
            MapEntry::Occupied(entry) => {
                refuse_duplicate(&pair.key, *entry.get(), self.report);
                self.pass_entry(Some(Entry::Duplicate(pair)));
            }
        }
    }

    fn pass_entry(&mut self, next: Option<Entry<'a>>) {
        if let Some(entry) = std::mem::replace(&mut self.last_entry, next) {
            (self.take_entry)(&entry, self.report);
        }
    }

    fn give_up(&mut self, error: &ScanError) {
        let span = to_span(saphyr_parser::Span::empty(*error.marker()));
        self.stop(span, &format!("not YAML: {}", error.info()), "nothing below is read");
    }

    fn stop(&mut self, span: Span, message: &str, help: &str) {
        self.report.fault(span, message, help);
        self.is_whole = false;
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Value<'_> {
    let is_plain = style == ScalarStyle::Plain;
    if is_plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
        Value::Null
    } else {
        Value::Scalar { text, is_plain }
    }
}

fn as_key<'a>(node: Node<'a>, report: &mut Report<'_>) -> NextKey<'a> {
    let span = node.span;
    match node.value {
        Value::Null => NextKey::Read(Key { span, text: Cow::Borrowed(""), is_plain: true }),
        Value::Scalar { text, is_plain } if is_plain && text == "<<" => {
            report.fault(span, "a merge key is refused", "write the fields out");
            NextKey::Refused
        }
        Value::Scalar { text, is_plain } => NextKey::Read(Key { span, text, is_plain }),
        Value::Refused => NextKey::Refused,
        Value::List(_) | Value::Mapping(_) => {
            report.fault(span, "a list or mapping is used as a key", "expected a name");
            NextKey::Refused
        }
    }
}

/// Of two pairs with the same key, the first stays and the second is a fault.
fn drop_duplicates<'a>(pairs: Vec<Pair<'a>>, report: &mut Report<'_>) -> Vec<Pair<'a>> {
    let keys = || pairs.iter().map(|pair| &pair.key.text);
    // Comparing the few fields of a limit with each other is faster than hashing them.
    let is_repeated = |(place, key)| keys().take(place).any(|earlier| earlier == key);
    if pairs.len() <= FEW_PAIRS && !keys().enumerate().any(is_repeated) {
        return pairs;
    }
    let mut first_lines: HashMap<Cow<'a, str>, u32> = HashMap::with_capacity(pairs.len());
    let mut kept = Vec::with_capacity(pairs.len());
    for pair in pairs {
        match first_lines.entry(pair.key.text.clone()) {
            MapEntry::Vacant(entry) => {
                entry.insert(pair.key.span.line);
                kept.push(pair);
            }
            MapEntry::Occupied(entry) => refuse_duplicate(&pair.key, *entry.get(), report),
        }
    }
    kept
}

fn refuse_duplicate(key: &Key<'_>, first_line: u32, report: &mut Report<'_>) {
    let help = format!("it is on line {first_line} already");
    report.fault(key.span, format!("`{}` stands here twice", found(&key.text)), help);
}

fn to_span(span: saphyr_parser::Span) -> Span {
    let (start, end) = (span.start, span.end);
    // What goes on over several lines is marked to the end of its first.
    let length = if start.line() == end.line() { span.len() } else { usize::MAX };
    Span {
        line: to_u32(start.line()),
        column: to_u32(start.col()).saturating_add(1),
        length: to_u32(length).max(1),
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
