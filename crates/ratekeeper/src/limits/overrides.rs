//! The overrides file, in either of its forms: a mapping of `Name:id: {burst, count, period}`, or
//! a list of `- Name: {burst, count, period, ids: [{id, comment}]}`.

use std::net::IpAddr;

use super::defaults::refuse_document;
use super::draft::{Draft, DraftOverride, OVERRIDES_MAX};
use super::fault::{Report, Span};
use super::field::{self, COMMENT_BYTES_MAX, Fields, Owner, describe, found};
use super::name::check_name;
use super::yaml::{self, Entry, Key, Node, Pair, Value};
use super::{IdBuffer, IdFormat, Limit};

const FIELDS: [&str; 3] = ["burst", "count", "period"];
const LIST_FIELDS: [&str; 4] = ["burst", "count", "period", "ids"];
const ID_FIELDS: [&str; 2] = ["id", "comment"];

const EXPECTED: &str =
    "expected overrides such as `NewOrdersPerAccount:12345678: {burst: 20, count: 20, period: 1s}`";
const EXPECTED_ENTRY: &str = "expected `- Name: {burst, count, period, ids}`";
const EXPECTED_IDS: &str = "expected a list such as `[{id: 12345678, comment: why}]`";

/// Adds to `draft` what the file says.
pub(super) fn read(text: &str, draft: &mut Draft, report: &mut Report<'_>) {
    let document = yaml::read(text, report, |entry, report| match entry {
        Entry::Pair(pair) => read_pair(pair, draft, report),
        // Its name and id are checked where they stand first.
        Entry::Duplicate(pair) => {
            read_limit(pair, report);
        }
        Entry::Item(item) => read_item(item, draft, report),
    });
    if document.is_empty {
        refuse_document(&document, EXPECTED, report);
    }
}

/// `Name:id: {burst, count, period}`. The name ends at the first colon; ids have colons too.
fn read_pair(pair: &Pair<'_>, draft: &mut Draft, report: &mut Report<'_>) {
    let key = &pair.key;
    let limit = read_limit(pair, report);
    let Some((name, id)) = key.text.split_once(':') else {
        let message = format!("`{}` has no colon", found(&key.text));
        let help = "expected a name, a colon and an id, such as NewOrdersPerAccount:12345678";
        report.fault(key.span, message, help);
        return;
    };
    let (name_span, id_span) = split_span(key, name, id);
    let Some(place) = find_name(name, name_span, draft, report) else { return };
    add(Addition { place, id, span: id_span, limit, comment: None }, draft, report);
}

fn read_limit(pair: &Pair<'_>, report: &mut Report<'_>) -> Option<Limit> {
    Fields::read((&pair.key).into(), &pair.value, &FIELDS, report)?.limit(report)
}

/// Where the name and the id stand within the key.
fn split_span(key: &Key<'_>, name: &str, id: &str) -> (Span, Span) {
    let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    let (name_length, id_length) = (count(name), count(id));
    let length = name_length.saturating_add(1).saturating_add(id_length);
    let quote = u32::from(!key.is_plain);
    if key.span.length != length.saturating_add(quote.saturating_mul(2)) {
        // Something in the quotes is escaped; then it takes the key as a whole to point at it.
        return (key.span, key.span);
    }
    let column = key.span.column.saturating_add(quote);
    let name_span = Span { column, length: name_length.max(1), ..key.span };
    let id_column = column.saturating_add(name_length).saturating_add(1);
    (name_span, Span { column: id_column, length: id_length.max(1), ..key.span })
}

/// `- Name: {burst, count, period, ids: [{id, comment}]}`
fn read_item(item: &Node<'_>, draft: &mut Draft, report: &mut Report<'_>) {
    match &item.value {
        Value::Mapping(pairs) => read_names(item.span, pairs, draft, report),
        Value::Refused => {}
        _ => report.fault(item.span, format!("the entry is {}", describe(item)), EXPECTED_ENTRY),
    }
}

/// The one name of an entry. Each of several is checked as if it had an entry of its own.
fn read_names(span: Span, pairs: &[Pair<'_>], draft: &mut Draft, report: &mut Report<'_>) {
    if pairs.is_empty() {
        report.fault(span, "the entry is empty", EXPECTED_ENTRY);
    }
    if let [_, second, ..] = pairs {
        let help = "begin an entry of its own with `- `, or indent the fields further";
        report.fault(second.key.span, "the entry has a second name", help);
    }
    match pairs {
        [Pair { key, value: Node { value: Value::Null, .. } }, rest @ ..]
            if rest.iter().any(is_list_field) =>
        {
            let place = find_name(&key.text, key.span, draft, report);
            read_fields(&Fields::of(key.into(), rest, &LIST_FIELDS, report), place, draft, report);
        }
        [pair] => read_name(pair, draft, report),
        _ => {
            let names = pairs.iter().filter(|pair| !is_list_field(pair));
            names.for_each(|pair| read_name(pair, draft, report));
        }
    }
}

/// Whether it is a field that should be indented further, rather than a name.
fn is_list_field(pair: &Pair<'_>) -> bool {
    LIST_FIELDS.contains(&&*pair.key.text)
}

fn read_name(pair: &Pair<'_>, draft: &mut Draft, report: &mut Report<'_>) {
    let Pair { key, value } = pair;
    let place = find_name(&key.text, key.span, draft, report);
    if let Some(fields) = Fields::read(key.into(), value, &LIST_FIELDS, report) {
        read_fields(&fields, place, draft, report);
    }
}

fn read_fields(
    fields: &Fields<'_, '_>,
    place: Option<usize>,
    draft: &mut Draft,
    report: &mut Report<'_>,
) {
    let limit = fields.limit(report);
    fields.refuse_missing(&["ids"], report);
    if let Some(ids) = fields.find("ids") {
        read_ids(ids, place, limit, draft, report);
    }
}

fn read_ids(
    ids: &Pair<'_>,
    place: Option<usize>,
    limit: Option<Limit>,
    draft: &mut Draft,
    report: &mut Report<'_>,
) {
    let items = match &ids.value.value {
        Value::List(items) if !items.is_empty() => items,
        Value::List(_) => {
            report.fault(ids.value.span, "ids is empty", EXPECTED_IDS);
            return;
        }
        Value::Null => {
            report.fault(ids.key.span, "ids has no value", EXPECTED_IDS);
            return;
        }
        Value::Refused => return,
        _ => {
            let message = format!("ids is {}", describe(&ids.value));
            report.fault(ids.value.span, message, EXPECTED_IDS);
            return;
        }
    };
    for item in items {
        let Some((id, span, comment)) = read_id(item, report) else { continue };
        let Some(place) = place else { continue };
        add(Addition { place, id, span, limit, comment }, draft, report);
    }
}

/// `{id, comment}`
fn read_id<'t>(
    item: &'t Node<'_>,
    report: &mut Report<'_>,
) -> Option<(&'t str, Span, Option<Box<str>>)> {
    let owner = Owner { name: "an item of ids", span: item.span };
    let fields = Fields::read(owner, item, &ID_FIELDS, report)?;
    fields.refuse_missing(&["id"], report);
    let comment = fields.find("comment").and_then(|pair| read_comment(pair, report));
    let pair = fields.find("id")?;
    let id = field::text(pair, "expected an id such as 12345678", report)?;
    Some((id, pair.value.span, comment))
}

fn read_comment(pair: &Pair<'_>, report: &mut Report<'_>) -> Option<Box<str>> {
    // A comment that was left empty is no comment.
    if matches!(&pair.value.value, Value::Null) {
        return None;
    }
    let text = field::text(pair, "expected a text", report)?;
    if text.len() > COMMENT_BYTES_MAX {
        let message = format!("comment is longer than {COMMENT_BYTES_MAX} bytes");
        report.fault(pair.value.span, message, "write a shorter one");
        return None;
    }
    Some(text.into())
}

struct Addition<'t> {
    place: usize,
    id: &'t str,
    span: Span,
    limit: Option<Limit>,
    comment: Option<Box<str>>,
}

fn add(addition: Addition<'_>, draft: &mut Draft, report: &mut Report<'_>) {
    let Addition { place, id, span, limit, comment } = addition;
    let mut buffer = IdBuffer::new();
    let id: Box<str> = match draft.id_format(place).canonical_in_file(id, &mut buffer) {
        Ok(id) => id.into(),
        Err(error) => {
            // The errors are written to be read alone: what is wrong, a colon, what to do.
            let text = error.to_string();
            let (message, help) = text.split_once(": ").unwrap_or((&text, "correct it"));
            report.fault(span, message, help);
            return;
        }
    };
    if draft.has_all_overrides() {
        let message = format!("there are more than {OVERRIDES_MAX} overrides");
        report.fault(span, message, "raise the default instead");
    } else {
        hint_at_network(place, &id, span, draft, report);
        draft.add_override(place, DraftOverride { id, span, limit, comment });
    }
}

/// An override is for one id. Where ids are any text, a network is taken for one.
fn hint_at_network(place: usize, id: &str, span: Span, draft: &mut Draft, report: &Report<'_>) {
    if draft.id_format(place) != IdFormat::Any || !is_network(id) {
        return;
    }
    let text = format!(
        "`{id}` is not read as a network: ids of `{}` are any text, so this override applies only to the \
         id spelled `{id}`, and not to addresses in that network",
        draft.name(place)
    );
    draft.hint(report.file(), span, &text);
}

/// `10.0.0.0/8`
fn is_network(id: &str) -> bool {
    let Some((address, bits)) = id.split_once('/') else { return false };
    address.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}

/// The place of the name in the draft. Reports a name that no limit has.
fn find_name(name: &str, span: Span, draft: &mut Draft, report: &mut Report<'_>) -> Option<usize> {
    if let Err(error) = check_name(name) {
        report.fault(span, error.to_string(), error.help());
        return None;
    }
    let place = draft.place(name);
    // A name that is not there may be in the part of the defaults file that could not be read.
    if place.is_none() && !draft.lacks_names {
        let help = match draft.nearest_name(name) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "declare it in the defaults file".into(),
        };
        report.fault(span, format!("unknown name `{}`", found(name)), help);
    }
    place
}
