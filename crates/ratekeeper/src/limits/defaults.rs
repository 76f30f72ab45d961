//! The defaults file: `Name: {burst, count, period}`, if wanted `shadow`, `on_store_failure`, `lease`,
//! `share` and `on_full`, and for names of one's own `id` and `number`.

use std::collections::HashMap;

use super::draft::{Draft, DraftName, NAMES_MAX};
use super::fault::{Report, Span};
use super::field::{self, Fields, boolean, describe, found, whole_number};
use super::name::{self, KNOWN_NAMES, KnownName, check_name, nearest};
use super::yaml::{self, Document, Entry, Node, Pair, Value};
use super::{DefaultLimit, IdFormat, Limit, Origin};
use crate::Nanos;
use crate::algorithm::{OnFull, Share};
use crate::store::shared::{OnFailure, Sharing};

const FIELDS: [&str; 10] = [
    "burst",
    "count",
    "period",
    "id",
    "number",
    "shadow",
    "on_store_failure",
    "lease",
    "share",
    "on_full",
];
/// The longest time for which tokens can be taken in advance.
pub const LEASE_MAX: Nanos = Nanos::from_secs(10);
/// What a limit can say about asks that a shared store does not answer.
const ON_FAILURE: [(&str, OnFailure); 3] =
    [("local", OnFailure::Local), ("allow", OnFailure::Allow), ("deny", OnFailure::Deny)];
/// What a limit can say about new ids that find no room in its share of memory.
const ON_FULL: [(&str, OnFull); 2] = [("deny", OnFull::Deny), ("forget", OnFull::Forget)];
const EXPECTED: &str =
    "expected limits such as `NewOrdersPerAccount: {burst: 20, count: 20, period: 1s}`";

/// Which numbers are taken, and where the declaration is.
type Numbers = HashMap<u32, u32>;

/// Declares in `draft` what the file says.
pub(super) fn read(text: &str, draft: &mut Draft, report: &mut Report<'_>) {
    let mut numbers = Numbers::new();
    let document = yaml::read(text, report, |entry, report| match entry {
        // Its name is checked where it stands first, and it takes no number: that both have the
        // same one is no second fault.
        Entry::Duplicate(pair) => {
            read_terms(pair, &mut Numbers::new(), report);
        }
        Entry::Pair(pair) if draft.has_all_names() => {
            let message = format!("there are more than {NAMES_MAX} names");
            report.fault(pair.key.span, message, "use overrides for what differs by id");
        }
        Entry::Pair(pair) => read_entry(pair, &mut numbers, draft, report),
        Entry::Item(_) => {}
    });
    draft.lacks_names = !document.is_whole;
    match &document.root {
        Some(Node { value: Value::List(_) | Value::Scalar { .. }, .. }) => {
            refuse_document(&document, EXPECTED, report);
        }
        _ if document.is_empty => refuse_document(&document, EXPECTED, report),
        _ => {}
    }
}

/// Reports a document that is not what was expected, unless something else was reported.
pub(super) fn refuse_document(document: &Document<'_>, expected: &str, report: &mut Report<'_>) {
    let start = Span { line: 1, column: 1, length: 1 };
    match &document.root {
        _ if !document.is_whole => {}
        Some(Node { value: Value::Refused, .. }) => {}
        Some(root @ Node { value: Value::Scalar { .. }, .. }) => {
            report.fault(root.span, format!("the document is {}", describe(root)), expected);
        }
        Some(root) if !document.is_empty => {
            report.fault(root.span, format!("the document is {}", describe(root)), expected);
        }
        root => {
            let span = root.as_ref().map_or(start, |root| root.span);
            report.fault(span, "the document is empty", expected);
        }
    }
}

fn read_entry(pair: &Pair<'_>, numbers: &mut Numbers, draft: &mut Draft, report: &mut Report<'_>) {
    let key = &pair.key;
    let checked = check_name(&key.text);
    if let Err(error) = checked {
        report.fault(key.span, error.to_string(), error.help());
    }
    let known = name::known_name(&key.text);
    let terms = read_terms(pair, numbers, report);
    let Terms { limit, id_format, number, is_shadow, sharing, share, is_plain } = terms;
    if checked.is_err() {
        return;
    }
    let origin = Origin { file: report.file().clone(), line: key.span.line };
    if known.is_none()
        && let Some(near) = name::near_known_name(&key.text)
    {
        let text = format!("`{}` is a name of your own; did you mean `{near}`?", key.text);
        draft.hint(report.file(), key.span, &text);
    }
    // Who writes one of the two knows that the name means something.
    if let Some(known) = known.filter(|_| is_plain) {
        draft.known.push((origin.clone(), known));
    }
    draft.declare(DraftName {
        name: (*key.text).into(),
        number: known.map(|known| known.number).or(number),
        is_shadow,
        sharing,
        share,
        id_format: known.map(|known| known.id_format).or(id_format).unwrap_or_default(),
        default: limit.map(|limit| DefaultLimit { limit, origin }),
        overrides: Vec::new(),
    });
}

/// What the fields of an entry say, as far as they are right.
#[derive(Default)]
struct Terms {
    limit: Option<Limit>,
    id_format: Option<IdFormat>,
    number: Option<u32>,
    is_shadow: bool,
    sharing: Sharing,
    share: Share,
    /// Whether it says neither the format of its ids nor a number.
    is_plain: bool,
}

fn read_terms(pair: &Pair<'_>, numbers: &mut Numbers, report: &mut Report<'_>) -> Terms {
    let Pair { key, value } = pair;
    let known = name::known_name(&key.text);
    let Some(fields) = Fields::read(key.into(), value, &FIELDS, report) else {
        return Terms::default();
    };
    Terms {
        limit: fields.limit(report),
        id_format: fields.find("id").and_then(|pair| read_id_format(pair, known, report)),
        number: fields.find("number").and_then(|pair| read_number(pair, known, numbers, report)),
        is_shadow: fields.find("shadow").and_then(|pair| boolean(pair, report)).unwrap_or(false),
        sharing: read_sharing(&fields, report),
        share: read_share(&fields, report),
        is_plain: fields.find("id").is_none() && fields.find("number").is_none(),
    }
}

fn read_sharing(fields: &Fields<'_, '_>, report: &mut Report<'_>) -> Sharing {
    let failure = fields.find("on_store_failure").and_then(|pair| read_on_failure(pair, report));
    let lease = fields.find("lease").and_then(|pair| read_lease(pair, report));
    Sharing { on_failure: failure.unwrap_or_default(), lease }
}

fn read_on_failure(pair: &Pair<'_>, report: &mut Report<'_>) -> Option<OnFailure> {
    one_of(pair, &ON_FAILURE, "expected local, allow or deny", report)
}

fn read_share(fields: &Fields<'_, '_>, report: &mut Report<'_>) -> Share {
    let hundredths = fields.find("share").and_then(|pair| read_hundredths(pair, report));
    let on_full = fields
        .find("on_full")
        .and_then(|pair| one_of(pair, &ON_FULL, "expected deny or forget", report));
    let hundredths = hundredths.unwrap_or(Share::default().hundredths());
    Share::of_hundredths(hundredths, on_full.unwrap_or_default()).unwrap_or_default()
}

/// How many ordinary shares a limit wants, in hundredths.
fn read_hundredths(pair: &Pair<'_>, report: &mut Report<'_>) -> Option<u32> {
    let most = f64::from(Share::HUNDREDTHS_MAX) / 100.0;
    let hundredths = (field::decimal(pair, most, report)? * 100.0).round();
    if hundredths < 1.0 {
        let help = "expected a number such as 2, for twice an ordinary share, from 0.01 on";
        report.fault(pair.value.span, "share is too small", help);
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to HUNDREDTHS_MAX"
    )]
    Some(hundredths as u32)
}

/// What one of several words stands for.
fn one_of<T: Copy>(
    pair: &Pair<'_>,
    words: &[(&str, T)],
    expected: &str,
    report: &mut Report<'_>,
) -> Option<T> {
    let text = field::text(pair, expected, report)?;
    let known = words.iter().find(|(word, _)| *word == text);
    if known.is_none() {
        let help = format!("{expected}, found `{}`", found(text));
        let message = format!("{} does not have this value", pair.key.text);
        report.fault(pair.value.span, message, help);
    }
    known.map(|(_, meaning)| *meaning)
}

fn read_lease(pair: &Pair<'_>, report: &mut Report<'_>) -> Option<Nanos> {
    let lease = field::duration(pair, report)?;
    if lease > LEASE_MAX {
        let help = "tokens are taken in advance for that long: expected a duration such as 50ms";
        report.fault(pair.value.span, format!("lease is longer than {LEASE_MAX}"), help);
        return None;
    }
    Some(lease)
}

fn read_id_format(
    pair: &Pair<'_>,
    known: Option<KnownName>,
    report: &mut Report<'_>,
) -> Option<IdFormat> {
    let span = pair.value.span;
    let text = field::text(pair, "expected an id format such as ipAddress", report)?;
    let Ok(format) = text.parse() else {
        let help = match nearest(text, IdFormat::ALL.iter().map(|format| format.name())) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected {}", IdFormat::ALL.map(IdFormat::name).join(", ")),
        };
        report.fault(span, format!("unknown id format `{}`", found(text)), help);
        return None;
    };
    match known {
        Some(known) if known.id_format != format => {
            let message = format!("the ids of `{}` are {}", known.name, known.id_format);
            report.fault(span, message, "leave the field out, or use another name");
            None
        }
        _ => Some(format),
    }
}

fn read_number(
    pair: &Pair<'_>,
    known: Option<KnownName>,
    numbers: &mut Numbers,
    report: &mut Report<'_>,
) -> Option<u32> {
    let span = pair.value.span;
    let number = whole_number(pair, u32::MAX.into(), report)?;
    let number = u32::try_from(number).ok()?;
    let mut refuse = |message: String, help: &str| {
        report.fault(span, message, help);
        None
    };
    if let Some(known) = known {
        if known.number == number {
            return Some(number);
        }
        let message = format!("the number of `{}` is {}", known.name, known.number);
        return refuse(message, "leave the field out, or use another name");
    }
    if let Some(owner) = KNOWN_NAMES.iter().find(|known| known.number == number) {
        let message = format!("the number {number} stands for `{}`", owner.name);
        return refuse(message, "use another number");
    }
    if let Some(line) = numbers.insert(number, span.line) {
        return refuse(
            format!("the number {number} is taken on line {line}"),
            "use another number",
        );
    }
    Some(number)
}
