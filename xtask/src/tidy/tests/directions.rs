use super::super::directions::check;
use super::super::tree::Tree;
use super::{lines, metadata, own, path_dependency};

#[test]
fn dependencies_that_point_down_pass() {
    let metadata = metadata(&[
        own("ratekeeper", &[path_dependency("ratekeeper-testkit", Some("dev"))]),
        own("ratekeeper-protocol", &[path_dependency("ratekeeper", None)]),
        own("ratekeeper-cli", &[path_dependency("ratekeeper-protocol", None)]),
        own("ratekeeper-testkit", &[]),
        own("xtask", &[path_dependency("ratekeeper-testkit", None)]),
    ]);
    assert_eq!(check(&metadata, &Tree::of(&[])), []);
}

#[test]
fn dependencies_that_point_up_or_sideways_are_refused_in_tests_too() {
    let metadata = metadata(&[
        own("ratekeeper", &[path_dependency("ratekeeper-cli", Some("dev"))]),
        own("ratekeeper-protocol", &[path_dependency("ratekeeper-redis", None)]),
        own("ratekeeper-redis", &[]),
        own("ratekeeper-cli", &[]),
    ]);
    let manifest =
        ("crates/ratekeeper-protocol/Cargo.toml", "[dependencies]\nratekeeper-redis.x\n");
    assert_eq!(lines(&check(&metadata, &Tree::of(&[manifest]))), [1, 2]);
}

#[test]
fn the_testkit_is_for_tests_only() {
    for kind in [None, Some("build")] {
        let metadata = metadata(&[
            own("ratekeeper-cli", &[path_dependency("ratekeeper-testkit", kind)]),
            own("ratekeeper-testkit", &[]),
        ]);
        let found = check(&metadata, &Tree::of(&[]));
        assert!(found[0].what.contains("dev-dependency"), "{found:?}");
    }
}

#[test]
fn the_tests_of_the_tracker_may_ask_the_engine_and_the_tracker_may_not() {
    for (kind, count) in [(Some("dev"), 0), (None, 1)] {
        let metadata = metadata(&[
            own("ratekeeper-tracker", &[path_dependency("ratekeeper", kind)]),
            own("ratekeeper", &[]),
        ]);
        assert_eq!(check(&metadata, &Tree::of(&[])).len(), count, "{kind:?}");
    }
}

#[test]
fn a_crate_without_a_place_is_refused() {
    let found = check(&metadata(&[own("ratekeeper-extra", &[])]), &Tree::of(&[]));
    assert_eq!(found[0].path, "crates/ratekeeper-extra/Cargo.toml");
}
