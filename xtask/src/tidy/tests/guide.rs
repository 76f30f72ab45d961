use super::super::guide::check;
use super::super::tree::Tree;

const ROOT: &str = "[workspace.dependencies]\nclient = { version = \"0.13\", default-features = false }\nours = { path = \"ours\" }";
const MANIFEST: &str = "[dependencies]\nclient.workspace = true\nours = { workspace = true, features = [\"a\", \"b\"] }";

fn count(page: &str) -> usize {
    let manifest = "crates/ratekeeper-tracker/guide/Cargo.toml";
    let files = [("docs/tracker.md", page), ("Cargo.toml", ROOT), (manifest, MANIFEST)];
    check(&Tree::of(&files)).len()
}

fn page(list: &str) -> String {
    format!("# A page\n\n```toml\n[dependencies]\n{list}\n```\n\nAnd so on.\n")
}

#[test]
fn a_page_lists_what_its_blocks_are_compiled_with() {
    let right =
        "ours = { git = \"..\", features = [\"b\", \"a\"] }   # or another\nclient = \"0.13\"";
    assert_eq!(count(&page(right)), 0);
    assert!(check(&Tree::of(&[("docs/other.md", "")])).is_empty(), "there is no such page");
}

#[test]
fn what_is_missing_too_much_or_of_old_is_told() {
    let ours = "ours = { git = \"..\", features = [\"a\", \"b\"] }";
    for list in [
        ours.to_owned(),
        format!("{ours}\nclient = \"0.13\"\nmore = \"1\""),
        format!("{ours}\nclient = \"0.12\""),
        format!("{ours}\nclient = {{ version = \"0.13\", features = [\"json\"] }}"),
        "ours = { git = \"..\" }\nclient = \"0.13\"".to_owned(),
        "this is no TOML".to_owned(),
    ] {
        assert_eq!(count(&page(&list)), 1, "{list}");
    }
    assert_eq!(count("# A page that lists nothing\n"), 1);
}
