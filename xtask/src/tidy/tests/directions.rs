use super::super::directions::check;
use super::super::tree::Tree;
use super::{lines, metadata, own, path_dependency};

#[test]
fn dependencies_that_point_down_pass() {
    let metadata = metadata(&[
        own("tollgate", &[path_dependency("tollgate-testkit", Some("dev"))]),
        own("tollgate-protocol", &[path_dependency("tollgate", None)]),
        own("tollgate-cli", &[path_dependency("tollgate-protocol", None)]),
        own("tollgate-testkit", &[]),
        own("xtask", &[path_dependency("tollgate-testkit", None)]),
    ]);
    assert_eq!(check(&metadata, &Tree::of(&[])), []);
}

#[test]
fn dependencies_that_point_up_or_sideways_are_refused_in_tests_too() {
    let metadata = metadata(&[
        own("tollgate", &[path_dependency("tollgate-cli", Some("dev"))]),
        own("tollgate-protocol", &[path_dependency("tollgate-redis", None)]),
        own("tollgate-redis", &[]),
        own("tollgate-cli", &[]),
    ]);
    let manifest = ("crates/tollgate-protocol/Cargo.toml", "[dependencies]\ntollgate-redis.x\n");
    assert_eq!(lines(&check(&metadata, &Tree::of(&[manifest]))), [1, 2]);
}

#[test]
fn the_testkit_is_for_tests_only() {
    for kind in [None, Some("build")] {
        let metadata = metadata(&[
            own("tollgate-cli", &[path_dependency("tollgate-testkit", kind)]),
            own("tollgate-testkit", &[]),
        ]);
        let found = check(&metadata, &Tree::of(&[]));
        assert!(found[0].what.contains("dev-dependency"), "{found:?}");
    }
}

#[test]
fn the_tests_of_the_tracker_may_ask_the_engine_and_the_tracker_may_not() {
    for (kind, count) in [(Some("dev"), 0), (None, 1)] {
        let metadata = metadata(&[
            own("tollgate-tracker", &[path_dependency("tollgate", kind)]),
            own("tollgate", &[]),
        ]);
        assert_eq!(check(&metadata, &Tree::of(&[])).len(), count, "{kind:?}");
    }
}

#[test]
fn a_crate_without_a_place_is_refused() {
    let found = check(&metadata(&[own("tollgate-extra", &[])]), &Tree::of(&[]));
    assert_eq!(found[0].path, "crates/tollgate-extra/Cargo.toml");
}
