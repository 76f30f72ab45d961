//! The settings file.

use std::path::Path;

use ratekeeper::limits::document::{
    Entry, Node, Pair, Report, Value, describe, found, nearest, read,
};
use ratekeeper::limits::{Faults, Source};

use super::Settings;
use super::table::{SETTINGS, Setting};

impl Settings {
    /// Sets what the file says. Paths in it are relative to `folder`. Refuses what it does not
    /// know, all of it at once.
    pub fn apply_file(&mut self, source: &Source<'_>, folder: &Path) -> Result<(), Faults> {
        let mut report = Report::new(source);
        let mut reading = Reading { settings: self.clone(), folder };
        let document = read(source.text, &mut report, |entry, report| match entry {
            Entry::Pair(pair) | Entry::Duplicate(pair) => reading.top(pair, report),
            Entry::Item(item) => {
                report.fault(item.span, "the document is a list", EXPECTED);
            }
        });
        if let Some(root) = &document.root
            && matches!(root.value, Value::Scalar { .. })
        {
            report.fault(root.span, format!("the document is {}", describe(root)), EXPECTED);
        }
        let settings = reading.settings;
        Faults::check([report].into_iter())?;
        *self = settings;
        Ok(())
    }
}

const EXPECTED: &str = "expected settings such as `udp: {listen: 127.0.0.1:2000}`";

struct Reading<'a> {
    settings: Settings,
    folder: &'a Path,
}

impl Reading<'_> {
    /// A setting of its own, or a section of several.
    fn top(&mut self, pair: &Pair<'_>, report: &mut Report<'_>) {
        let section = &*pair.key.text;
        match &pair.value.value {
            _ if Setting::named(section).is_some() => self.one(section, pair, report),
            _ if !sections().any(|known| known == section) => {
                let known = SETTINGS.iter().map(|s| s.name).filter(|name| !name.contains('.'));
                unknown(pair, section, known.chain(sections()), report);
            }
            Value::Mapping(pairs) => {
                for pair in pairs {
                    let name = format!("{section}.{}", pair.key.text);
                    if Setting::named(&name).is_some() {
                        self.one(&name, pair, report);
                    } else {
                        let known = SETTINGS.iter().filter_map(|s| s.name.split_once('.'));
                        let known = known.filter(|(of, _)| *of == section).map(|(_, name)| name);
                        unknown(pair, &name, known, report);
                    }
                }
            }
            // An empty section says nothing: its settings may all be commented out.
            Value::Null | Value::Refused => {}
            _ => {
                let message = format!("{section} is {}", describe(&pair.value));
                report.fault(pair.value.span, message, "expected a mapping of settings");
            }
        }
    }

    fn one(&mut self, name: &str, pair: &Pair<'_>, report: &mut Report<'_>) {
        let Some(setting) = Setting::named(name) else { return };
        let Some(text) = text(&pair.value) else {
            if !matches!(pair.value.value, Value::Refused) {
                let message = format!("{name} is {}", describe(&pair.value));
                report.fault(pair.value.span, message, format!("expected {}", setting.value));
            }
            return;
        };
        if setting.is_secret() {
            report.hide(pair.value.span);
        }
        let path = self.folder.join(&text).display().to_string();
        let is_path = |words: &[&str]| !text.is_empty() && !words.contains(&&*text);
        let is_file = setting.no_path.is_some_and(is_path);
        let set = setting.set(&mut self.settings, if is_file { &path } else { &text });
        if let Err(error) = set {
            let message = format!("{name} is `{}`", found(setting.shown(&text)));
            report.fault(pair.value.span, message, error.to_string());
        }
    }
}

fn sections() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter_map(|setting| setting.name.split_once('.')).map(|(section, _)| section)
}

/// A text, or a list of texts, which is the same as one with commas between.
fn text(node: &Node<'_>) -> Option<String> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text.to_string()),
        Value::List(items) => {
            let words = items.iter().map(|item| match &item.value {
                Value::Scalar { text, .. } => Some(&**text),
                _ => None,
            });
            words.collect::<Option<Vec<_>>>().map(|words| words.join(","))
        }
        Value::Null | Value::Mapping(_) | Value::Refused => None,
    }
}

fn unknown(
    pair: &Pair<'_>,
    name: &str,
    known: impl Iterator<Item = &'static str>,
    report: &mut Report<'_>,
) {
    let mut known: Vec<_> = known.collect();
    known.dedup();
    let help = match nearest(&pair.key.text, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected {}", known.join(", ")),
    };
    report.fault(pair.key.span, format!("unknown setting `{}`", found(name)), help);
}
