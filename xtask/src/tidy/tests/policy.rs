use serde_json::{Value, json};

use super::super::Violation;
use super::super::policy::Policy;
use super::super::tree::Tree;
use super::{dependency, foreign, metadata, own, package, path_dependency};

const POLICY: &str = r#"
[graph]
all-features = true
[licenses]
allow = ["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"]
[bans]
wildcards = "deny"
allow-wildcard-paths = true
deny = [
  { crate = "loom", reason = "we have another" },
  { crate = "quanta", wrappers = ["governor"], reason = "only there" },
]
[sources]
unknown-registry = "deny"
unknown-git = "deny"
allow-registry = ["https://github.com/rust-lang/crates.io-index"]
"#;

fn check(packages: &[Value]) -> Vec<Violation> {
    let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n";
    let tree = Tree::of(&[("Cargo.lock", lock)]);
    Policy::parse(POLICY).unwrap().check(&metadata(packages), &tree)
}

#[test]
fn licences_are_evaluated_as_spdx_says() {
    let accepted = [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0-only OR MIT",
        "(GPL-3.0-only OR MIT) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only",
        "GPL-3.0-only AND Zlib OR MIT",
    ];
    for licence in accepted {
        assert_eq!(check(&[foreign("a", licence, &[])]), [], "{licence}");
    }
    let refused = [
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "GPL-3.0-only AND (MIT OR Unicode-3.0)",
        "Apache-2.0",
        "Apache-2.0 WITH Classpath-exception-2.0",
        "Invented-1.0",
        "",
    ];
    for licence in refused {
        assert_eq!(check(&[foreign("a", licence, &[])]).len(), 1, "{licence}");
    }
}

#[test]
fn a_crate_without_a_licence_is_refused_where_the_lock_file_names_it() {
    let mut nameless = foreign("a", "MIT", &[]);
    nameless["license"] = json!(null);
    let found = check(&[nameless]);
    assert_eq!((found[0].path.as_str(), found[0].line), ("Cargo.lock", 2));
}

#[test]
fn a_banned_crate_is_refused_with_the_reason() {
    let found =
        check(&[own("ratekeeper", &[dependency("loom", "^1")]), foreign("loom", "MIT", &[])]);
    assert_eq!(found.len(), 1);
    assert!(found[0].what.ends_with("ratekeeper uses it: we have another"), "{found:?}");
}

#[test]
fn a_banned_crate_passes_through_its_wrapper_only() {
    let quanta = foreign("quanta", "MIT", &[]);
    let governor = foreign("governor", "MIT", &[dependency("quanta", "^1")]);
    assert_eq!(check(&[quanta.clone(), governor.clone()]), []);
    let ratekeeper = own("ratekeeper", &[dependency("quanta", "^1")]);
    assert_eq!(check(&[quanta, governor, ratekeeper]).len(), 1);
}

#[test]
fn only_listed_registries_pass() {
    for source in ["registry+https://mirror.example/index", "git+https://github.com/a/a?rev=1"] {
        assert_eq!(check(&[package("a", Some(source), "MIT", &[])]).len(), 1, "{source}");
    }
}

#[test]
fn a_version_that_says_nothing_is_refused_except_between_our_crates() {
    let ratekeeper = own("ratekeeper", &[]);
    let cli = own("ratekeeper-cli", &[path_dependency("ratekeeper", None)]);
    assert_eq!(check(&[ratekeeper, cli]), []);
    assert_eq!(check(&[own("ratekeeper", &[dependency("a", "*")])]).len(), 1);
}

#[test]
fn a_policy_that_would_not_be_checked_is_refused() {
    let faults = [
        ("reason = \"we have another\"", "reason = \" \""),
        (", reason = \"only there\"", ""),
        ("unknown-git = \"deny\"", "unknown-git = \"maybe\""),
        ("[sources]", "[advisories]\n[sources]"),
        ("\"MIT\"", "\"Invented-1.0\""),
    ];
    for (right, wrong) in faults {
        assert!(POLICY.contains(right), "{right}");
        assert!(Policy::parse(&POLICY.replace(right, wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn our_own_policy_can_be_read() {
    Policy::parse(include_str!("../../../../deny.toml")).unwrap();
}
