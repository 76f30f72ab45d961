use super::super::code::check;
use super::lines;

#[test]
fn restricted_code_is_refused_where_it_is_not_listed() {
    let refused = [
        "unsafe { work() }",
        "let now = std::time::Instant::now();",
        "let now = SystemTime::now();",
        "let home = env::var(NAME);",
        "let home = std::env::var_os(NAME);",
        "for pair in env::vars() {}",
        "std::thread::sleep(PAUSE);",
        "#[ignore] fn a() {}",
        "#[ignore = \"slow\"] fn a() {}",
        "dbg!(a);",
    ];
    for code in refused {
        let text = format!("fn first() {{\n{code}\n}}\n");
        assert_eq!(lines(&check("crates/ratekeeper/src/limiter.rs", &text)), [2], "{code}");
    }
}

#[test]
fn listed_files_and_folders_may_use_what_they_are_listed_for() {
    assert_eq!(check("crates/ratekeeper/src/store/prefetch.rs", "unsafe { a() }"), []);
    assert_eq!(check("crates/ratekeeper-time/src/lib.rs", "Instant::now();"), []);
    assert_eq!(check("xtask/src/bench.rs", "Instant::now();"), []);
    assert_eq!(lines(&check("crates/ratekeeper-time/src/lib.rs", "unsafe { a() }")), [1]);
    assert_eq!(lines(&check("crates/xtask/src/a.rs", "Instant::now();")), [1]);
}

#[test]
fn comments_strings_and_longer_names_pass() {
    let text = "/// Never `unsafe`, and no dbg!(a).\n\
                // Instant::now() is elsewhere.\n\
                #[allow(unsafe_code)]\n\
                const TEXT: &str = \"thread::sleep #[ignore]\";\n";
    assert_eq!(check("a.rs", text), []);
}

#[test]
fn names_that_say_nothing_are_refused() {
    assert_eq!(lines(&check("a.rs", "impl A {\n  pub fn get_it(&self) {}\n}")), [2]);
    assert_eq!(lines(&check("a.rs", "\nmod utils {}")), [2]);
    assert_eq!(check("a.rs", "fn get() {} fn budget_left() {} mod store;"), []);
}

#[test]
fn what_is_not_rust_is_said_to_be_not_rust() {
    assert_eq!(lines(&check("a.rs", "fn a() {}\n}")), [2]);
}
