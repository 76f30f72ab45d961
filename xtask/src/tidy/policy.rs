//! The policy on other people's crates in `deny.toml`, whose form is cargo-deny's.
//!
//! Only the settings that are checked here can be written: anything else in the file is refused,
//! so that no line of it is a wish.

use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use super::Violation;
use super::metadata::{Metadata, Package};
use super::tree::Tree;
use crate::error::Error;

const LOCK: &str = "Cargo.lock";

/// What the file says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

/// Which crates are looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Graph {
    pub(super) all_features: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    allow: Vec<Allowed>,
}

/// A licence that we accept.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Allowed(Licensee);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    wildcards: Level,
    allow_wildcard_paths: bool,
    deny: Vec<Ban>,
}

/// A crate that is refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    /// Why it is refused and, if there are wrappers, why they are excepted.
    reason: Reason,
    /// Crates that may depend on it nevertheless.
    #[serde(default)]
    wrappers: Vec<String>,
}

/// At least a word.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Reason(String);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
    allow_registry: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Allow,
    Deny,
}

impl TryFrom<String> for Allowed {
    type Error = String;

    fn try_from(licence: String) -> Result<Self, String> {
        Licensee::parse(&licence).map(Self).map_err(|error| format!("`{licence}`: {error}"))
    }
}

impl TryFrom<String> for Reason {
    type Error = &'static str;

    fn try_from(reason: String) -> Result<Self, &'static str> {
        if reason.trim().is_empty() { Err("the reason is empty") } else { Ok(Self(reason)) }
    }
}

impl Policy {
    /// Reads the policy; refuses settings that nothing would check, and bans without a reason.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(Error::Policy)
    }

    /// Everything the workspace is built from that the policy refuses.
    pub(super) fn check(&self, metadata: &Metadata, tree: &Tree) -> Vec<Violation> {
        let mut violations = self.wildcards(metadata, tree);
        for package in &metadata.packages {
            let faults = [self.licence(package), self.ban(package, metadata), self.source(package)];
            let at = |what| Violation::new(LOCK, lock_line(package, tree), what);
            violations.extend(faults.into_iter().flatten().map(at));
        }
        violations
    }

    fn licence(&self, package: &Package) -> Option<String> {
        let Package { name, version, license, .. } = package;
        let Some(license) = license else {
            return Some(format!("{name} {version} names no licence: do without it"));
        };
        // Older manifests write `MIT/Apache-2.0` for `MIT OR Apache-2.0`.
        let expression = match Expression::parse_mode(license, ParseMode::LAX) {
            Ok(expression) => expression,
            Err(error) => {
                return Some(format!("{name} {version} has a licence unknown to SPDX: {error}"));
            }
        };
        let allow = &self.licenses.allow;
        let accepted =
            expression.evaluate(|req| allow.iter().any(|Allowed(own)| own.satisfies(req)));
        (!accepted).then(|| {
            format!("{name} {version} is licensed `{license}`: do without it, or allow the licence in deny.toml")
        })
    }

    fn ban(&self, package: &Package, metadata: &Metadata) -> Option<String> {
        let ban = self.bans.deny.iter().find(|ban| ban.name == package.name)?;
        let users = metadata.dependents(package);
        let user = users.into_iter().find(|user| !ban.wrappers.contains(&user.name))?;
        Some(format!("{} is banned, and {} uses it: {}", ban.name, user.name, ban.reason.0))
    }

    fn source(&self, package: &Package) -> Option<String> {
        let source = package.source.as_deref()?;
        let refused = match source.strip_prefix("registry+") {
            Some(url) => {
                self.sources.unknown_registry == Level::Deny
                    && !self.sources.allow_registry.iter().any(|allowed| allowed == url)
            }
            None => self.sources.unknown_git == Level::Deny,
        };
        refused.then(|| {
            format!(
                "{} comes from `{source}`: take it from a source that deny.toml allows",
                package.name
            )
        })
    }

    fn wildcards(&self, metadata: &Metadata, tree: &Tree) -> Vec<Violation> {
        if self.bans.wildcards == Level::Allow {
            return Vec::new();
        }
        let mut violations = Vec::new();
        for package in metadata.members() {
            let path = metadata.manifest(package);
            for dependency in package.dependencies.iter().filter(|d| d.req == "*") {
                if dependency.source.is_none() && self.bans.allow_wildcard_paths {
                    continue;
                }
                let line = tree.line_where(path, |line| line.starts_with(&dependency.name));
                let what = format!("any version of `{}` would do: name one", dependency.name);
                violations.push(Violation::new(path, line, what));
            }
        }
        violations
    }
}

/// The line of the lock file that names this version of this crate.
fn lock_line(package: &Package, tree: &Tree) -> usize {
    let name = format!("name = \"{}\"", package.name);
    let version = format!("version = \"{}\"", package.version);
    let lines: Vec<&str> = tree.text(LOCK).lines().collect();
    let found = lines.windows(2).position(|pair| pair == [name.as_str(), version.as_str()]);
    found.map_or(1, |index| index + 1)
}
