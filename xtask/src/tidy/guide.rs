//! The guide of the tracker compiles with the dependencies that its page lists, and no others.
//!
//! A crate of its own compiles its blocks; here the page is compared with the manifest of that crate.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::Violation;
use super::tree::Tree;

const PAGE: &str = "docs/tracker.md";
const MANIFEST: &str = "crates/ratekeeper-tracker/guide/Cargo.toml";
const WORKSPACE: &str = "Cargo.toml";
const LIST_BEGINS: &str = "```toml\n[dependencies]\n";
const LIST_ENDS: &str = "\n```";

/// A version, where one is asked for, and the features that are switched on.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    version: Option<String>,
    features: BTreeSet<String>,
}

/// Dependencies that the page lists otherwise than the crate that compiles its blocks has them.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    if !tree.has(PAGE) {
        return Vec::new();
    }
    let page = tree.text(PAGE);
    let Some(start) = page.find(LIST_BEGINS) else {
        let what = "it lists no dependencies in a block of TOML: say which its blocks need";
        return vec![Violation::new(PAGE, 1, what)];
    };
    let list = &page[start + LIST_BEGINS.len()..];
    let list = &list[..list.find(LIST_ENDS).unwrap_or(list.len())];
    let line = page[..start].matches('\n').count() + 1;
    let listed = wanted(&parse(list), &Table::new());
    let ours = table(&parse(tree.text(WORKSPACE)), &["workspace", "dependencies"]);
    let compiled = wanted(&table(&parse(tree.text(MANIFEST)), &["dependencies"]), &ours);
    if is_same(&listed, &compiled) {
        return Vec::new();
    }
    let what = format!(
        "it lists {listed:?}, and {MANIFEST} compiles its blocks with {compiled:?}: make both the same"
    );
    vec![Violation::new(PAGE, line, what)]
}

fn is_same(listed: &BTreeMap<String, Wanted>, compiled: &BTreeMap<String, Wanted>) -> bool {
    let is_as_listed = |(name, wanted): (&String, &Wanted)| {
        compiled.get(name).is_some_and(|compiled| {
            // What comes from a repository has no version.
            let version = wanted.version.is_none() || wanted.version == compiled.version;
            version && wanted.features == compiled.features
        })
    };
    listed.len() == compiled.len() && listed.iter().all(is_as_listed)
}

fn wanted(dependencies: &Table, ours: &Table) -> BTreeMap<String, Wanted> {
    let of = |(name, value): (&String, &Value)| {
        let inherited = ours.get(name).and_then(version);
        let features = value.get("features").and_then(Value::as_array).into_iter().flatten();
        let features = features.filter_map(Value::as_str).map(str::to_owned).collect();
        (name.clone(), Wanted { version: version(value).or(inherited), features })
    };
    dependencies.iter().map(of).collect()
}

fn version(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value.get("version")?.as_str()).map(str::to_owned)
}

/// A text that is no TOML has nothing in it, which is then not what is wanted.
fn parse(text: &str) -> Table {
    toml::from_str(text).unwrap_or_default()
}

fn table(of: &Table, names: &[&str]) -> Table {
    let mut table = of.clone();
    for name in names {
        table = table.get(*name).and_then(Value::as_table).cloned().unwrap_or_default();
    }
    table
}
