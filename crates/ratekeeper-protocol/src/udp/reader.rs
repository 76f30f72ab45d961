//! From the text of a rules file to rules, or to everything that is wrong with it.

use ratekeeper::Limits;
use ratekeeper::algorithm::average::{self, RuleError};
use ratekeeper::limiter::EVERYBODY;
use ratekeeper::limits::document::{
    self, Document, Entry, Fields, Node, Owner, Pair, Report, Span, Value, boolean, decimal,
    describe, found, nearest, text,
};
use ratekeeper::limits::{Faults, IdBuffer, NamedLimit, Source};

use super::codec::{Verdict, whole};
use super::owners::Owners;
use super::pattern::{NO_REFERENCE, Pattern, Patterns, Template, Wrong};
use super::rules::{
    Action, CountRule, DEFAULT_VERDICT, DefaultRule, RULES_MAX, Rewrite, Rule, Rules,
};

const LISTS: [&str; 4] = ["count", "rewrite", "rules", "default"];
const COUNT_FIELDS: [&str; 2] = ["match", "key"];
const REWRITE_FIELDS: [&str; 3] = ["match", "unless", "to"];
const RULE_FIELDS: [&str; 10] =
    ["match", "limit", "period", "strict", "stats", "key", "over_limit", "rate", "use", "id"];
const DEFAULT_FIELDS: [&str; 9] =
    ["limit", "period", "strict", "stats", "key", "over_limit", "rate", "use", "id"];

const EXPECTED: &str =
    "expected lists such as `rules: [{match: ^ws global$, limit: 22, period: 20}]`";
const EXPECTED_PATTERN: &str = "expected a regular expression such as '^ws global$'";
const EXPECTED_KEY: &str = "expected a key such as 'ws global', or with a group 'ws $1'";

const EXPECTED_REFERENCE: &str =
    r"expected a group such as $1, ${1} or ${1:lower}; $$ is a dollar sign, \\ a backslash";

/// More uses than this in [`COUNT_PERIOD_SECS`] are over the limit in the statistics of a count rule.
const COUNT_LIMIT: f64 = 3.0;
const COUNT_PERIOD_SECS: f64 = 3.0;

pub(super) fn read(source: &Source<'_>, limits: &Limits) -> Result<Rules, Faults> {
    let mut report = Report::new(source);
    let mut draft = Draft::default();
    let document = document::read(source.text, &mut report, |entry, report| {
        draft.read_entry(entry, limits, report);
    });
    refuse_document(&document, &mut report);
    let rules = draft.finish(&mut report);
    Faults::check([report].into_iter())?;
    // Where one of them could not be made, that was a fault.
    Ok(rules.unwrap_or_else(Rules::none))
}

fn refuse_document(document: &Document<'_>, report: &mut Report<'_>) {
    if let Some(root @ Node { value: Value::Scalar { .. } | Value::List(_), .. }) = &document.root
        && document.is_whole
    {
        report.fault(root.span, format!("the document is {}", describe(root)), EXPECTED);
    }
}

/// What was right so far, and the texts of the expressions.
#[derive(Default)]
struct Draft {
    counts: Vec<CountRule>,
    rewrites: Vec<Rewrite>,
    rules: Vec<Rule>,
    default: Option<DefaultRule>,
    count_texts: Vec<String>,
    rewrite_texts: Vec<String>,
    rule_texts: Vec<String>,
}

impl Draft {
    fn read_entry(&mut self, entry: &Entry<'_>, limits: &Limits, report: &mut Report<'_>) {
        let (Entry::Pair(pair) | Entry::Duplicate(pair)) = entry else { return };
        match &*pair.key.text {
            "count" => each(pair, "a count rule", report, |item, report| {
                if let Some((rule, text)) = read_count(item, report) {
                    self.counts.push(rule);
                    self.count_texts.push(text);
                }
            }),
            "rewrite" => each(pair, "a rewrite", report, |item, report| {
                if let Some((rewrite, text)) = read_rewrite(item, report) {
                    self.rewrites.push(rewrite);
                    self.rewrite_texts.push(text);
                }
            }),
            "rules" => each(pair, "a rule", report, |item, report| {
                if let Some((rule, text)) = read_rule(item, limits, report) {
                    self.rules.push(rule);
                    self.rule_texts.push(text);
                }
            }),
            "default" => self.default = read_default(pair, limits, report),
            _ => document::refuse_unknown(&pair.key, &LISTS, report),
        }
    }

    /// Gives the keys of every rule a share of memory of their own; those of the default have none.
    fn share_out(&mut self) -> Owners {
        let deciding = self.rules.iter_mut().zip(&self.rule_texts).zip(1..);
        let deciding = deciding.filter_map(|((rule, text), place)| match &mut rule.action {
            Action::Average(rule, _) => Some(("rule", place, text, rule)),
            Action::Fixed(_) | Action::Named { .. } => None,
        });
        let counting = self.counts.iter_mut().zip(&self.count_texts).zip(1..);
        let counting =
            counting.map(|((count, text), place)| ("count", place, text, &mut count.rule));
        let mut owners = Owners::default();
        for (list, place, text, rule) in deciding.chain(counting) {
            *rule = rule.owned_by(owners.add(list, place, text));
        }
        owners
    }

    fn finish(mut self, report: &mut Report<'_>) -> Option<Rules> {
        let owners = self.share_out();
        let texts = self.count_texts.iter().chain(&self.rewrite_texts).chain(&self.rule_texts);
        let texts: Vec<&str> = texts.map(String::as_str).collect();
        let patterns = together(&texts, report);
        Some(Rules {
            counts: self.counts,
            rewrites: self.rewrites,
            deciding: self.rules,
            default: self.default.unwrap_or_default(),
            patterns: patterns?,
            owners,
        })
    }
}

impl Rules {
    /// No rules: every key gets the default.
    fn none() -> Self {
        Self {
            counts: Vec::new(),
            rewrites: Vec::new(),
            deciding: Vec::new(),
            default: DefaultRule::default(),
            patterns: Patterns::default(),
            owners: Owners::default(),
        }
    }
}

impl Default for DefaultRule {
    fn default() -> Self {
        Self { action: Action::Fixed(DEFAULT_VERDICT), stats: true }
    }
}

fn together(texts: &[&str], report: &mut Report<'_>) -> Option<Patterns> {
    let refuse = |wrong: Wrong| {
        let span = Span { line: 1, column: 1, length: 1 };
        let message = format!("the expressions together {}", wrong.what);
        report.fault(span, message, "use fewer or simpler ones");
    };
    Patterns::new(texts).map_err(refuse).ok()
}

/// Every item of a list of rules, up to [`RULES_MAX`]. No value is an empty list.
fn each<'t>(
    pair: &'t Pair<'_>,
    what: &'static str,
    report: &mut Report<'_>,
    mut take: impl FnMut(&Fields<'t, '_>, &mut Report<'_>),
) {
    let name = &pair.key.text;
    let known: &[&str] = match &**name {
        "count" => &COUNT_FIELDS,
        "rewrite" => &REWRITE_FIELDS,
        _ => &RULE_FIELDS,
    };
    let items = match &pair.value.value {
        Value::List(items) => items,
        Value::Null | Value::Refused => return,
        _ => {
            let message = format!("{name} is {}", describe(&pair.value));
            let help = format!("expected a list of rules, each with {}", known.join(", "));
            report.fault(pair.value.span, message, help);
            return;
        }
    };
    if let Some(item) = items.get(RULES_MAX) {
        let message = format!("{name} has more than {RULES_MAX} rules");
        report.fault(item.span, message, "let an expression fit more keys");
    }
    for item in items.iter().take(RULES_MAX) {
        let owner = Owner { name: what, span: item.span };
        if let Some(fields) = Fields::read(owner, item, known, report) {
            take(&fields, report);
        }
    }
}

fn read_count(fields: &Fields<'_, '_>, report: &mut Report<'_>) -> Option<(CountRule, String)> {
    fields.refuse_missing(&["match"], report);
    let pattern = pattern(fields, "match", report);
    let groups = pattern.as_ref().map(|(pattern, _)| pattern.groups());
    let key = template(fields, "key", EXPECTED_KEY, groups, report);
    let (pattern, text) = pattern?;
    let rule = average::Rule::new(COUNT_LIMIT, COUNT_PERIOD_SECS, true).ok()?;
    Some((CountRule { pattern, key: key?, rule }, text))
}

fn read_rewrite(fields: &Fields<'_, '_>, report: &mut Report<'_>) -> Option<(Rewrite, String)> {
    fields.refuse_missing(&["match", "to"], report);
    let pattern = pattern(fields, "match", report);
    let groups = pattern.as_ref().map(|(pattern, _)| pattern.groups());
    let unless = fields.find("unless").map(|_| self::pattern(fields, "unless", report));
    let to = match fields.find("to").map(|pair| &pair.value.value) {
        // To take something out of a key.
        Some(Value::Scalar { text, .. }) if text.is_empty() => Some(Some(Template::text(""))),
        _ => template(fields, "to", "expected a text, or '' for none", groups, report),
    };
    let unless = match unless {
        Some(unless) => Some(unless?.0),
        None => None,
    };
    let (pattern, text) = pattern?;
    Some((Rewrite { pattern, unless, to: to?? }, text))
}

fn read_rule(
    fields: &Fields<'_, '_>,
    limits: &Limits,
    report: &mut Report<'_>,
) -> Option<(Rule, String)> {
    fields.refuse_missing(&["match"], report);
    let pattern = pattern(fields, "match", report);
    let groups = pattern.as_ref().map(|(pattern, _)| pattern.groups());
    let stats = flag(fields, "stats", false, report);
    let action = read_action(fields, groups, limits, report);
    let (pattern, text) = pattern?;
    Some((Rule { pattern, action: action?, stats: stats? }, text))
}

fn read_default(pair: &Pair<'_>, limits: &Limits, report: &mut Report<'_>) -> Option<DefaultRule> {
    let pairs = match &pair.value.value {
        Value::Mapping(pairs) => pairs.as_slice(),
        Value::Null => &[],
        _ => {
            Fields::read((&pair.key).into(), &pair.value, &DEFAULT_FIELDS, report)?;
            return None;
        }
    };
    let fields = Fields::of((&pair.key).into(), pairs, &DEFAULT_FIELDS, report);
    let stats = flag(&fields, "stats", true, report);
    // A default that says no more than what is printed is one that never refuses.
    let action = if ["limit", "period", "over_limit", "rate", "use", "key", "strict", "id"]
        .iter()
        .any(|field| fields.find(field).is_some())
    {
        // All of the key can be taken, as if an expression had fitted it.
        read_action(&fields, Some(1), limits, report)
    } else {
        Some(Action::Fixed(DEFAULT_VERDICT))
    };
    Some(DefaultRule { action: action?, stats: stats? })
}

/// One of the three ways to decide; which one, the fields say.
fn read_action(
    fields: &Fields<'_, '_>,
    groups: Option<usize>,
    limits: &Limits,
    report: &mut Report<'_>,
) -> Option<Action> {
    let has = |name: &str| fields.find(name).is_some();
    let (others, what, help): (&[&str], _, _) = if has("use") {
        let others = &["limit", "period", "strict", "key", "over_limit", "rate"];
        (others, "use", "a named limit has its own numbers: leave one of the two out")
    } else if has("over_limit") || has("rate") {
        let what = if has("over_limit") { "over_limit" } else { "rate" };
        (&["strict", "key", "id"], what, "a fixed answer keeps no state: leave one of the two out")
    } else {
        (&["id"], "limit", "an id is for a named limit: add `use`, or use `key` instead")
    };
    let both: Vec<_> = others.iter().filter_map(|other| fields.find(other)).collect();
    for pair in &both {
        report.fault(pair.key.span, format!("{} does not go with {what}", pair.key.text), help);
    }
    let action = if has("use") {
        read_named(fields, groups, limits, report)
    } else if has("over_limit") || has("rate") {
        read_fixed(fields, report)
    } else {
        read_average(fields, groups, report)
    };
    action.filter(|_| both.is_empty())
}

fn read_average(
    fields: &Fields<'_, '_>,
    groups: Option<usize>,
    report: &mut Report<'_>,
) -> Option<Action> {
    fields.refuse_missing(&["limit", "period"], report);
    let limit = number(fields, "limit", average::Rule::LIMIT_MAX, report);
    let period = number(fields, "period", average::Rule::PERIOD_SECS_MAX, report);
    let strict = flag(fields, "strict", false, report);
    let key = template(fields, "key", EXPECTED_KEY, groups, report);
    let rule = average::Rule::new(limit??, period??, strict?);
    let rule = rule.map_err(|error| {
        let field = match error {
            RuleError::Limit => "limit",
            RuleError::Period => "period",
        };
        if let Some(pair) = fields.find(field) {
            report.fault(pair.value.span, error.to_string(), "expected a number such as 20");
        }
    });
    Some(Action::Average(rule.ok()?, key?))
}

fn read_fixed(fields: &Fields<'_, '_>, report: &mut Report<'_>) -> Option<Action> {
    let over = match fields.find("over_limit").map(|pair| &pair.value.value) {
        // As the answer writes it.
        Some(Value::Scalar { text, is_plain: true }) if text == "Y" => Some(true),
        Some(Value::Scalar { text, is_plain: true }) if text == "N" => Some(false),
        _ => flag(fields, "over_limit", DEFAULT_VERDICT.over, report),
    };
    let most = average::Rule::LIMIT_MAX;
    let rate = number(fields, "rate", most, report);
    let limit = number(fields, "limit", most, report);
    let period = number(fields, "period", average::Rule::PERIOD_SECS_MAX, report);
    Some(Action::Fixed(Verdict {
        over: over?,
        rate: rate?.unwrap_or(DEFAULT_VERDICT.rate),
        limit: limit?.unwrap_or(DEFAULT_VERDICT.limit),
        period_secs: period?.map_or(DEFAULT_VERDICT.period_secs, whole),
    }))
}

fn read_named(
    fields: &Fields<'_, '_>,
    groups: Option<usize>,
    limits: &Limits,
    report: &mut Report<'_>,
) -> Option<Action> {
    let pair = fields.find("use")?;
    let name = text(pair, "expected the name of a limit", report);
    let named = name.and_then(|name| {
        let named = limits.named(name);
        if named.is_none() {
            let help = match nearest(name, limits.iter().map(NamedLimit::name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "declare it in the limits file".into(),
            };
            report.fault(pair.value.span, format!("unknown limit `{}`", found(name)), help);
        }
        named
    });
    let id = template(fields, "id", "expected an id, such as $1", groups, report)?;
    // Of a group, if there is one; a limit that is asked for without an id is everybody's.
    let id = id.unwrap_or_else(|| match groups {
        Some(2..) => Template::group(1),
        _ => Template::text(EVERYBODY),
    });
    let named = named?;
    if groups.is_some()
        && let Some(constant) = id.constant()
        && let Ok(constant) = std::str::from_utf8(constant)
        && let Err(error) = named.id_format().canonical(constant, &mut IdBuffer::new())
    {
        let span = fields.find("id").unwrap_or(pair).value.span;
        let message = format!("`{}` is not an id of `{}`", found(constant), named.name());
        let error = error.to_string();
        let expected = error.split_once(": ").map_or(&*error, |(_, expected)| expected);
        report.fault(span, message, format!("take a group of match, as in `id: $1`; {expected}"));
        return None;
    }
    Some(Action::Named { limit: named.name().into(), id })
}

/// The number of a field; `Some(None)` if it is not there, `None` if it is wrong.
#[expect(clippy::option_option, reason = "the two differ, and one of them is a fault")]
fn number(
    fields: &Fields<'_, '_>,
    name: &str,
    max: f64,
    report: &mut Report<'_>,
) -> Option<Option<f64>> {
    match fields.find(name) {
        Some(pair) => decimal(pair, max, report).map(Some),
        None => Some(None),
    }
}

fn flag(
    fields: &Fields<'_, '_>,
    name: &str,
    default: bool,
    report: &mut Report<'_>,
) -> Option<bool> {
    fields.find(name).map_or(Some(default), |pair| boolean(pair, report))
}

/// The expression of a field, and its text.
fn pattern(
    fields: &Fields<'_, '_>,
    name: &str,
    report: &mut Report<'_>,
) -> Option<(Pattern, String)> {
    let pair = fields.find(name)?;
    let text = match &pair.value.value {
        // An expression that fits every key.
        Value::Scalar { text, is_plain: false } if text.is_empty() => "",
        _ => text(pair, EXPECTED_PATTERN, report)?,
    };
    match Pattern::new(text) {
        Ok(pattern) => Some((pattern, text.to_owned())),
        Err(wrong) => {
            refuse(pair, text, wrong, EXPECTED_PATTERN, report);
            None
        }
    }
}

/// The template of a field; `Some(None)` if it is not there, `None` if it is wrong.
#[expect(clippy::option_option, reason = "the two differ, and one of them is a fault")]
fn template(
    fields: &Fields<'_, '_>,
    name: &str,
    expected: &str,
    groups: Option<usize>,
    report: &mut Report<'_>,
) -> Option<Option<Template>> {
    let Some(pair) = fields.find(name) else { return Some(None) };
    let text = text(pair, expected, report)?;
    // Where the expression is wrong, nobody knows its groups.
    match Template::new(text, groups.unwrap_or(usize::MAX)) {
        Ok(template) => Some(Some(template)),
        Err(wrong) => {
            let help = if wrong.what == NO_REFERENCE { EXPECTED_REFERENCE } else { expected };
            refuse(pair, text, wrong, help, report);
            None
        }
    }
}

/// Points at the character that is wrong, if the text stands in the file as it is.
fn refuse(pair: &Pair<'_>, text: &str, wrong: Wrong, help: &str, report: &mut Report<'_>) {
    let span = pair.value.span;
    let is_plain = matches!(&pair.value.value, Value::Scalar { is_plain: true, .. });
    let inside = Span { column: span.column.saturating_add(u32::from(!is_plain)), ..span };
    match wrong.at.and_then(|at| u32::try_from(at).ok()) {
        Some(at) if report.has_text_at(inside, text) => {
            let column = inside.column.saturating_add(at);
            report.fault(Span { column, length: 1, ..span }, wrong.what, help);
        }
        Some(_) => report.fault(span, wrong.what, help),
        None => report.fault(span, format!("{} {}", pair.key.text, wrong.what), help),
    }
}
