use super::super::markdown::{commands, crates_are_mentioned, links, untils};
use super::super::tree::Tree;
use super::lines;

#[test]
fn links_to_files_folders_headings_and_other_sites_pass() {
    let tree = Tree::of(&[("docs/a.md", ""), ("docs/deep/b.md", ""), ("README.md", "")]);
    let text = "[a](deep/b.md) [b](../README.md#top) [c](deep/) [d](#here) [e](..)\n\
                [f](https://example.org/x.md) ![g][ref] `[code](nowhere.md)`\n\n[ref]: ./a.md\n";
    assert_eq!(links("docs/a.md", text, &tree), []);
}

#[test]
fn links_that_lead_nowhere_are_refused() {
    let tree = Tree::of(&[("docs/a.md", ""), ("README.md", "")]);
    let text =
        "[a](README.md)\n\n[b](../../README.md)\n\n[c][ref]\n\n[d](/etc)\n\n[ref]: gone.md\n";
    assert_eq!(lines(&links("docs/a.md", text, &tree)), [1, 3, 5, 7]);
}

#[test]
fn commands_that_exist_pass_and_others_are_refused() {
    let names = ["test".to_owned(), "tidy".to_owned()];
    let fine = "`cargo xtask test`, `cargo xtask <command>`, `cargo xtask --help`, `cargo xtask`\n";
    assert_eq!(commands("a.md", fine, &names), []);
    let text = "run `cargo xtask tidy`\nthen `cargo xtask tests`\n";
    assert_eq!(lines(&commands("a.md", text, &names)), [2]);
}

#[test]
fn every_crate_is_on_the_map() {
    let manifests =
        [("crates/ratekeeper/Cargo.toml", ""), ("crates/ratekeeper-cli/Cargo.toml", "")];
    let with_map = |map| Tree::of(&[manifests[0], manifests[1], ("ARCHITECTURE.md", map)]);
    assert_eq!(crates_are_mentioned(&with_map("`ratekeeper` and ratekeeper-cli/\n")), []);
    let found = crates_are_mentioned(&with_map("`ratekeeper-cli` only\n"));
    assert_eq!(found.len(), 1);
    assert!(found[0].what.contains("`crates/ratekeeper`"));
}

#[test]
fn a_missing_map_is_refused() {
    assert_eq!(crates_are_mentioned(&Tree::of(&[])).len(), 1);
}

#[test]
fn an_example_that_lasts_until_a_day_that_comes_soon_is_refused() {
    let text = "{\"until\":\"2026-12-01T00:00:00Z\"}\n--until 2039-12-31\n`until`: 2040-01-01\n\
                \"until\": null\nuntil 2026 it was so\nuntil: 2041-01-01 until=2000-01-01\n";
    assert_eq!(lines(&untils("docs/a.md", text)), [1, 2, 6]);
}
