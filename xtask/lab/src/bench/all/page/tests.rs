use super::*;

#[test]
fn only_what_is_generated_is_replaced() {
    let page = |text: &str| format!("before\n{BEGIN}{text}{END}\nbehind\n");
    let new = replaced(&page("old"), "new\n").unwrap();
    assert_eq!(new, page("\n\nnew\n\n"));
    assert_eq!(replaced(&new, "new").unwrap(), new);
    assert_eq!(replaced("no place", "new"), None);
}

#[test]
fn peers_that_were_not_measured_are_not_named() {
    let words = machine(&Past::default());
    assert!(words.starts_with("Measured on ") && words.ends_with('.'), "{words}");
    assert!(!words.contains("redis") && !words.contains("throttlecrab"), "{words}");
}

#[test]
fn a_length_is_told_in_minutes_and_seconds() {
    let told = [0, 59, 60, 3_725].map(|seconds| length(Duration::from_secs(seconds)));
    assert_eq!(told, ["0 s", "59 s", "1 min 0 s", "62 min 5 s"]);
}

#[test]
fn the_page_has_a_place_for_it() {
    let page = include_str!("../../../../../../docs/performance.md");
    assert!(replaced(page, "new").is_some());
}
