//! What cargo says about the workspace and everything it depends on.

use serde::Deserialize;

use crate::error::Error;
use crate::process::{command, output};

/// The part of the output of `cargo metadata` that the rules look at.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    pub(super) resolve: Resolve,
    workspace_members: Vec<String>,
    workspace_root: String,
}

/// A crate: one of ours, or one from elsewhere.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    /// Where it comes from; `None` if it is a folder of ours.
    pub(super) source: Option<String>,
    /// What its manifest asks for.
    pub(super) dependencies: Vec<Dependency>,
    manifest_path: String,
}

/// What a manifest asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) req: String,
    pub(super) source: Option<String>,
    /// `None` for an ordinary dependency, else `dev` or `build`.
    pub(super) kind: Option<String>,
}

/// What cargo made of it.
#[derive(Debug, Deserialize)]
pub(super) struct Resolve {
    pub(super) nodes: Vec<Node>,
}

/// A crate, and the crates it is built with.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) dependencies: Vec<String>,
}

impl Metadata {
    /// Asks cargo; refuses if the lock file is out of date.
    pub(super) fn read(all_features: bool) -> Result<Self, Error> {
        let mut args = vec!["metadata", "--format-version=1", "--locked"];
        if all_features {
            args.push("--all-features");
        }
        serde_json::from_slice(&output(command("cargo", &args))?).map_err(Error::Metadata)
    }

    /// Our own crates.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The path of a crate's manifest from the root.
    pub(super) fn manifest<'a>(&self, package: &'a Package) -> &'a str {
        let path = package.manifest_path.as_str();
        path.strip_prefix(&self.workspace_root).unwrap_or(path).trim_start_matches('/')
    }

    /// The crates that are built with `package`.
    pub(super) fn dependents(&self, package: &Package) -> Vec<&Package> {
        let users = self.resolve.nodes.iter().filter(|n| n.dependencies.contains(&package.id));
        let users: Vec<&str> = users.map(|node| node.id.as_str()).collect();
        self.packages.iter().filter(|package| users.contains(&package.id.as_str())).collect()
    }
}
