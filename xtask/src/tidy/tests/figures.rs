use super::super::Tree;
use super::super::figures::table;

#[test]
fn shipped_code_is_counted_and_nothing_else() {
    let code =
        "//! A page.\n\npub struct TwoWords;\n#[inline]\npub(crate) fn a() {}\nenum One {}\n";
    let tree = Tree::of(&[
        ("crates/a/src/lib.rs", code),
        ("crates/b/src/lib.rs", "struct One;\n"),
        ("crates/a/src/lib/tests.rs", "struct Test;\n"),
        ("crates/a/tests/it/main.rs", "struct Test;\n"),
        ("crates/ratekeeper-oracle/src/lib.rs", "struct Judge;\n"),
    ]);
    let table = table(&tree);
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["a", "1", "4", "1", "0", "1"]);
    assert_eq!(rows[3], ["all", "2", "5", "1", "0", "1"]);
    let names = "3 types, of which 2 (66 %) share their name with another and 2 (66 %) have a name of one word";
    assert_eq!(table.lines().last(), Some(names));
}
