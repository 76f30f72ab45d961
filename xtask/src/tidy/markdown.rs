//! Rules about the documents: what they point to is there.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::Violation;
use super::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";
const UNTIL: &str = "until";
/// Examples are copied for many years.
const UNTIL_YEAR_MIN: u32 = 2040;

/// Relative links that lead to nothing.
pub(super) fn links(path: &str, text: &str, tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            continue;
        };
        if !leads_somewhere(path, &dest_url, tree) {
            let line = text[..range.start].matches('\n').count() + 1;
            let what = format!("the link to `{dest_url}` leads nowhere: mend it");
            violations.push(Violation::new(path, line, what));
        }
    }
    violations
}

/// `cargo xtask` commands that do not exist.
pub(super) fn commands(path: &str, text: &str, subcommands: &[String]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (start, prefix) in line.match_indices("cargo xtask ") {
            let rest = &line[start + prefix.len()..];
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-');
            let name = &rest[..end.unwrap_or(rest.len())];
            // Not a name: a placeholder, or an option for all commands.
            if name.is_empty() || name.starts_with('-') || subcommands.iter().any(|s| s == name) {
                continue;
            }
            let what =
                format!("there is no `cargo xtask {name}`: mend the name or add the command");
            violations.push(Violation::new(path, index + 1, what));
        }
    }
    violations
}

/// Times until which something in an example lasts that will soon be over: whoever copies it is then
/// refused, and nobody reads the page again because of that.
pub(super) fn untils(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (start, word) in line.match_indices(UNTIL) {
            let rest =
                line[start + word.len()..].trim_start_matches(['"', '\'', ':', '=', ' ', '`']);
            if year(rest).is_some_and(|year| year < UNTIL_YEAR_MIN) {
                let what =
                    format!("it lasts until a day that comes soon: {UNTIL_YEAR_MIN} or later");
                violations.push(Violation::new(path, index + 1, what));
            }
        }
    }
    violations
}

/// The year of a date such as `2040-12-01`.
fn year(text: &str) -> Option<u32> {
    let (year, rest) = text.split_at_checked(4)?;
    if rest.starts_with('-') { year.parse().ok() } else { None }
}

/// Crates that the map does not mention.
pub(super) fn crates_are_mentioned(tree: &Tree) -> Vec<Violation> {
    if !tree.has(MAP) {
        return vec![Violation::new(MAP, 1, "there is no map of the code: write one")];
    }
    let missing = crate_folders(tree).into_iter().filter(|name| !mentions(tree.text(MAP), name));
    let what = |name| format!("`crates/{name}` is not mentioned: say what it is for");
    missing.map(|name| Violation::new(MAP, 1, what(name))).collect()
}

fn leads_somewhere(from: &str, target: &str, tree: &Tree) -> bool {
    let file = target.split('#').next().unwrap_or_default();
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    elsewhere || file.is_empty() || resolve(from, file).is_some_and(|path| tree.has(&path))
}

/// The path from the root of `target`, as seen from the file `from`; `None` if outside the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn crate_folders(tree: &Tree) -> BTreeSet<&str> {
    let inside = tree.files().filter_map(|(path, _)| path.strip_prefix("crates/"));
    inside.filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect()
}

/// Whether `name` is in `text` on its own: `ratekeeper-redis` does not mention `ratekeeper`.
fn mentions(text: &str, name: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    words.any(|word| word == name)
}
