use super::super::text::check;
use super::lines;

#[test]
fn clean_files_pass() {
    assert_eq!(check("src/a.rs", "fn a() {}\n"), []);
    assert_eq!(check("src/empty.rs", ""), []);
}

#[test]
fn names_that_say_nothing_are_refused_in_any_part_of_a_path() {
    for path in ["src/util.rs", "src/utils/a.rs", "tests/common/mod.rs", "helpers.md", "manager.rs"]
    {
        assert_eq!(check(path, "").len(), 1, "{path}");
    }
    assert_eq!(check("src/common_prefix.rs", ""), []);
}

#[test]
fn rust_files_have_at_most_500_lines() {
    assert_eq!(check("src/a.rs", &"a\n".repeat(500)), []);
    assert_eq!(lines(&check("src/a.rs", &"a\n".repeat(501))), [501]);
}

#[test]
fn the_map_has_at_most_200_lines_and_other_documents_any_number() {
    assert_eq!(check("ARCHITECTURE.md", &"a\n".repeat(200)), []);
    assert_eq!(lines(&check("ARCHITECTURE.md", &"a\n".repeat(201))), [201]);
    assert_eq!(check("GUIDE.md", &"a\n".repeat(201)), []);
}

#[test]
fn trailing_white_space_is_refused_also_before_a_line_feed_of_windows() {
    assert_eq!(lines(&check("a.toml", "a\nb \nc\r\n")), [2, 3]);
    assert_eq!(check("vectors/a.txt", "a \n"), []);
}

#[test]
fn tabs_are_refused_in_rust_and_markdown_only() {
    assert_eq!(lines(&check("a.rs", "a\n\tb\n")), [2]);
    assert_eq!(lines(&check("a.md", "a\tb\n")), [1]);
    assert_eq!(check("a.js", "\ta\n"), []);
}

#[test]
fn a_file_ends_with_a_newline() {
    assert_eq!(lines(&check("a.md", "a\nb")), [2]);
}

#[test]
fn modules_and_their_tests_are_laid_out_one_way() {
    let of = |path, text| check(path, text).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(of("crates/a/src/foo.rs", "mod tests;\n"), Vec::<String>::new());
    assert_eq!(of("crates/a/tests/it/shared/mod.rs", "mod tests {\n}\n"), Vec::<String>::new());
    for (path, text, line) in [
        ("crates/a/src/foo/mod.rs", "", 1),
        ("crates/a/src/foo_tests.rs", "", 1),
        ("crates/a/src/foo.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n", 4),
    ] {
        let told = of(path, text);
        assert!(told.len() == 1 && told[0].starts_with(&format!("{path}:{line}: ")), "{told:?}");
    }
}
