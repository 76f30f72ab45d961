//! The limits while their files are being read, when some may still turn out to be wrong.

use std::collections::HashMap;
use std::sync::Arc;

use super::fault::{Faults, Report, Span};
use super::field::found;
use super::name::{self, KNOWN_NAMES, KnownName};
use super::{
    DefaultLimit, Hint, IdFormat, Limit, Limits, NamedLimit, Origin, Override, Source, defaults,
    overrides,
};
use crate::algorithm::Share;
use crate::store::shared::Sharing;

/// How many names there can be.
pub const NAMES_MAX: usize = 1 << 16;
/// How many overrides there can be.
pub const OVERRIDES_MAX: usize = 1 << 20;
/// How many hints are given. More would say the same of other lines.
pub const HINTS_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Those of the defaults file first.
    names: Vec<DraftName>,
    places: HashMap<Box<str>, usize>,
    overrides: usize,
    /// Whether part of the defaults file could not be read, so that names may be missing.
    pub(super) lacks_names: bool,
    hints: Vec<Hint>,
    /// The known names whose entries do not show that they are known, and where they are.
    pub(super) known: Vec<(Origin, KnownName)>,
}

#[derive(Debug)]
pub(super) struct DraftName {
    pub(super) name: Box<str>,
    pub(super) number: Option<u32>,
    pub(super) is_shadow: bool,
    pub(super) sharing: Sharing,
    pub(super) share: Share,
    pub(super) id_format: IdFormat,
    pub(super) default: Option<DefaultLimit>,
    pub(super) overrides: Vec<DraftOverride>,
}

/// An override whose id is right, though its limit may not be.
#[derive(Debug)]
pub(super) struct DraftOverride {
    pub(super) id: Box<str>,
    pub(super) span: Span,
    pub(super) limit: Option<Limit>,
    pub(super) comment: Option<Box<str>>,
}

pub(super) fn parse(
    defaults: &Source<'_>,
    overrides: Option<&Source<'_>>,
) -> Result<Limits, Faults> {
    let mut draft = Draft::default();
    let mut defaults_report = Report::new(defaults);
    defaults::read(defaults.text, &mut draft, &mut defaults_report);

    let overrides_report = overrides.map(|source| {
        let mut report = Report::new(source);
        overrides::read(source.text, &mut draft, &mut report);
        draft.sort_overrides(&mut report);
        report
    });
    let file = overrides_report.as_ref().map_or("", |report| report.file()).into();
    Faults::check([Some(defaults_report), overrides_report].into_iter().flatten())?;
    Ok(draft.finish(&file))
}

impl Draft {
    pub(super) fn declare(&mut self, name: DraftName) {
        self.places.insert(name.name.clone(), self.names.len());
        self.names.push(name);
    }

    /// Remembers something that is likely not meant.
    pub(super) fn hint(&mut self, file: &Arc<str>, span: Span, text: &str) {
        if self.hints.len() < HINTS_MAX {
            let origin = Origin { file: file.clone(), line: span.line };
            self.hints.push(Hint { origin, text: text.into() });
        }
    }

    pub(super) fn has_all_names(&self) -> bool {
        self.names.len() >= NAMES_MAX
    }

    /// The place of a name that can have overrides: one that was declared, or one that is known.
    pub(super) fn place(&mut self, name: &str) -> Option<usize> {
        if let Some(place) = self.places.get(name) {
            return Some(*place);
        }
        let known = name::known_name(name)?;
        self.declare(DraftName {
            name: name.into(),
            number: Some(known.number),
            is_shadow: false,
            sharing: Sharing::default(),
            share: Share::default(),
            id_format: known.id_format,
            default: None,
            overrides: Vec::new(),
        });
        self.places.get(name).copied()
    }

    pub(super) fn id_format(&self, place: usize) -> IdFormat {
        self.names.get(place).map(|name| name.id_format).unwrap_or_default()
    }

    pub(super) fn name(&self, place: usize) -> &str {
        self.names.get(place).map(|name| &*name.name).unwrap_or_default()
    }

    pub(super) fn add_override(&mut self, place: usize, draft: DraftOverride) {
        if let Some(name) = self.names.get_mut(place) {
            name.overrides.push(draft);
            self.overrides = self.overrides.saturating_add(1);
        }
    }

    pub(super) fn has_all_overrides(&self) -> bool {
        self.overrides >= OVERRIDES_MAX
    }

    /// The name that `name` is likely a misspelling of.
    pub(super) fn nearest_name(&self, name: &str) -> Option<&str> {
        let declared = self.names.iter().map(|declared| &*declared.name);
        name::nearest(name, KNOWN_NAMES.iter().map(|known| known.name).chain(declared))
    }

    /// Sorts the overrides by id, which brings two for the same id together.
    fn sort_overrides(&mut self, report: &mut Report<'_>) {
        for name in &mut self.names {
            // The sort is stable: of two equal ids, the first in the file stays the first.
            name.overrides.sort_by(|a, b| a.id.cmp(&b.id));
            for chunk in name.overrides.chunk_by(|a, b| a.id == b.id) {
                let [first, again @ ..] = chunk else { continue };
                for second in again {
                    let message =
                        format!("`{}:{}` is overridden twice", name.name, found(&second.id));
                    let help = format!("it is on line {} already", first.span.line);
                    report.fault(second.span, message, help);
                }
            }
        }
    }

    /// What has no fault. `file` is where the overrides come from.
    fn finish(mut self, file: &Arc<str>) -> Limits {
        let only_overridden = |name: &DraftName| name.default.is_none();
        // Known names that only have overrides come last, in an order that no file decides.
        self.names.sort_by_key(|name| only_overridden(name).then_some(name.number));
        let names: Vec<_> = self.names.into_iter().map(|name| name.finish(file)).collect();
        let place = |(place, named): (usize, &NamedLimit)| (named.name.clone(), place);
        let places = names.iter().enumerate().map(place).collect();
        let known: Vec<_> = self.known.iter().map(|(_, known)| *known).collect();
        // One for all of them, where the first is: a file that means them has six.
        let hint = self.known.into_iter().next().map(|(at, _)| Hint::known_names(at, &known));
        Limits { names, places, hints: hint.into_iter().chain(self.hints).collect() }
    }
}

impl DraftName {
    fn finish(self, file: &Arc<str>) -> NamedLimit {
        let finish = |draft: DraftOverride| {
            let origin = Origin { file: file.clone(), line: draft.span.line };
            let DraftOverride { id, limit, comment, .. } = draft;
            limit.map(|limit| Override { id, limit, origin, comment })
        };
        NamedLimit {
            name: self.name,
            number: self.number,
            is_bucket: false,
            is_shadow: self.is_shadow,
            sharing: self.sharing,
            share: self.share,
            id_format: self.id_format,
            default: self.default,
            overrides: self.overrides.into_iter().filter_map(finish).collect(),
        }
    }
}
