//! Which of our crates may depend on which: down only.

use super::Violation;
use super::metadata::{Dependency, Metadata, Package};
use super::tree::Tree;

/// What a crate's tests may use besides what the crate may use.
const FOR_TESTS: &str = "ratekeeper-testkit";

/// What the tests of single crates may use as well: the tracker's obey what the engine says, and the
/// server's share one of its limits among trackers.
const FOR_TESTS_OF: [(&str, &str); 2] =
    [("ratekeeper-tracker", "ratekeeper"), ("ratekeeper-server", "ratekeeper-tracker")];

/// The crates that may use everything: they are never shipped.
const UNBOUND: [&str; 2] = ["xtask", "lab"];

/// Each crate, and those below it.
const BELOW: [(&str, &[&str]); 14] = [
    ("ratekeeper-time", &[]),
    ("ratekeeper", &["ratekeeper-time"]),
    // The oracle shares no code with what it judges.
    ("ratekeeper-oracle", &[]),
    ("ratekeeper-protocol", &["ratekeeper"]),
    ("ratekeeper-redis", &["ratekeeper"]),
    ("ratekeeper-headers", &["ratekeeper-time"]),
    ("ratekeeper-tracker", &["ratekeeper-headers", "ratekeeper-time"]),
    ("ratekeeper-tracker-guide", &["ratekeeper-tracker"]),
    (
        "ratekeeper-server",
        &["ratekeeper", "ratekeeper-headers", "ratekeeper-protocol", "ratekeeper-redis"],
    ),
    ("ratekeeper-console", &["ratekeeper", "ratekeeper-server"]),
    ("ratekeeper-client", &["ratekeeper", "ratekeeper-console", "ratekeeper-server"]),
    (
        "ratekeeper-bench",
        &[
            "ratekeeper",
            "ratekeeper-client",
            "ratekeeper-console",
            "ratekeeper-oracle",
            "ratekeeper-protocol",
            "ratekeeper-server",
        ],
    ),
    (
        "ratekeeper-cli",
        &[
            "ratekeeper",
            "ratekeeper-bench",
            "ratekeeper-client",
            "ratekeeper-console",
            "ratekeeper-protocol",
            "ratekeeper-redis",
            "ratekeeper-server",
        ],
    ),
    (FOR_TESTS, &["ratekeeper-oracle"]),
];

/// Dependencies between our crates that do not point down.
pub(super) fn check(metadata: &Metadata, tree: &Tree) -> Vec<Violation> {
    let names: Vec<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    let bound = metadata.members().filter(|package| !UNBOUND.contains(&package.name.as_str()));
    bound
        .flat_map(|package| check_crate(package, &names, metadata.manifest(package), tree))
        .collect()
}

fn check_crate(package: &Package, ours: &[&str], path: &str, tree: &Tree) -> Vec<Violation> {
    let name = &package.name;
    let Some((_, below)) = BELOW.iter().find(|(known, _)| known == name) else {
        let what = format!("`{name}` has no place in the table of directions: add it to tidy");
        return vec![Violation::new(path, 1, what)];
    };
    let between_ours = package.dependencies.iter().filter(|d| ours.contains(&d.name.as_str()));
    let wrong = between_ours.filter(|dependency| !points_down(name, dependency, below));
    wrong.map(|dependency| violation(name, dependency, path, tree)).collect()
}

fn points_down(name: &str, dependency: &Dependency, below: &[&str]) -> bool {
    let other = dependency.name.as_str();
    let is_for_tests = other == FOR_TESTS || FOR_TESTS_OF.contains(&(name, other));
    dependency.kind.as_deref() == Some("dev") && is_for_tests || below.contains(&other)
}

fn violation(name: &str, dependency: &Dependency, path: &str, tree: &Tree) -> Violation {
    let what = if dependency.name == FOR_TESTS {
        format!("`{name}` depends on `{FOR_TESTS}`: only tests may, so make it a dev-dependency")
    } else {
        format!(
            "`{name}` depends on `{}`, which is not below it: move the shared part down",
            dependency.name
        )
    };
    let line = tree.line_where(path, |line| {
        line.strip_prefix(dependency.name.as_str()).is_some_and(|r| r.starts_with([' ', '.', '=']))
    });
    Violation::new(path, line, what)
}
