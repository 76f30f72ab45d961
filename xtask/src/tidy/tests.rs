//! Each rule, shown to refuse what it should and nothing else.

mod code;
mod directions;
mod figures;
mod guide;
mod markdown;
mod policy;
mod text;
mod words;

use serde_json::{Value, json};

use super::metadata::Metadata;
use super::{Violation, subcommands};

/// The lines at which something was found.
fn lines(violations: &[Violation]) -> Vec<usize> {
    violations.iter().map(|violation| violation.line).collect()
}

/// What cargo would say about these crates, all of them in one workspace.
fn metadata(packages: &[Value]) -> Metadata {
    let ids: Vec<&Value> = packages.iter().map(|package| &package["id"]).collect();
    let ours = packages.iter().filter(|package| package["source"].is_null());
    let node =
        |package: &Value| json!({ "id": package["id"], "dependencies": used(package, &ids) });
    let value = json!({
        "packages": packages,
        "resolve": { "nodes": packages.iter().map(node).collect::<Vec<_>>() },
        "workspace_members": ours.map(|package| &package["id"]).collect::<Vec<_>>(),
        "workspace_root": "/checkout",
    });
    serde_json::from_value(value).unwrap()
}

/// The ids, here the names, of the crates that a crate is built with.
fn used<'a>(package: &'a Value, ids: &[&Value]) -> Vec<&'a Value> {
    let dependencies = package["dependencies"].as_array().unwrap();
    dependencies.iter().map(|d| &d["name"]).filter(|name| ids.contains(name)).collect()
}

/// A crate of ours with these dependencies.
fn own(name: &str, dependencies: &[Value]) -> Value {
    package(name, None, "MIT OR Apache-2.0", dependencies)
}

/// A crate from crates.io.
fn foreign(name: &str, licence: &str, dependencies: &[Value]) -> Value {
    let source = "registry+https://github.com/rust-lang/crates.io-index";
    package(name, Some(source), licence, dependencies)
}

fn package(name: &str, source: Option<&str>, licence: &str, dependencies: &[Value]) -> Value {
    json!({
        "id": name,
        "name": name,
        "version": "1.0.0",
        "license": licence,
        "source": source,
        "dependencies": dependencies,
        "manifest_path": format!("/checkout/crates/{name}/Cargo.toml"),
    })
}

/// A dependency on a folder of ours; `kind` as cargo says it.
fn path_dependency(name: &str, kind: Option<&str>) -> Value {
    json!({ "name": name, "req": "*", "source": null, "kind": kind })
}

/// A dependency on a crate from crates.io.
fn dependency(name: &str, req: &str) -> Value {
    json!({ "name": name, "req": req, "source": "registry+https://x", "kind": null })
}

#[test]
fn a_violation_reads_like_a_compiler_message() {
    let violation = Violation::new("a/b.rs", 7, "what, and what to do");
    assert_eq!(violation.to_string(), "a/b.rs:7: what, and what to do");
}

#[test]
fn the_commands_are_those_of_the_command_line() {
    let names = subcommands();
    assert!(["test", "tidy", "help"].iter().all(|name| names.contains(&(*name).to_owned())));
}
