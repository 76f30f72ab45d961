//! Rules about the shape of a file: its name, its length, its white space.

use super::{Violation, has_extension};

/// A file that is longer does more than one thing.
const RUST_LINES_MAX: usize = 500;
/// A map is read in one sitting.
const ARCHITECTURE_LINES_MAX: usize = 200;

/// What people write; a recorded transcript or a test vector may end a line as it likes.
const WRITTEN: [&str; 8] = ["rs", "md", "toml", "html", "css", "js", "lua", "sh"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "common", "helpers", "manager"];

/// The name, the length and the white space of one file.
pub(super) fn check(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(name(path));
    violations.extend(length(path, text));
    violations.extend(layout(path, text));
    if WRITTEN.iter().any(|extension| has_extension(path, extension)) {
        violations.extend(white_space(path, text));
        violations.extend(last_newline(path, text));
    }
    violations
}

/// Whether `name` is one that says nothing.
pub(super) fn is_empty_name(name: &str) -> bool {
    EMPTY_NAMES.contains(&name)
}

fn name(path: &str) -> Option<Violation> {
    let stem = |part: &str| part.split('.').next().is_some_and(is_empty_name);
    let part = path.split('/').find(|part| stem(part))?;
    let what = format!("the name `{part}` says nothing: name it after what is inside");
    Some(Violation::new(path, 1, what))
}

fn length(path: &str, text: &str) -> Option<Violation> {
    let (max, remedy) = if has_extension(path, "rs") {
        (RUST_LINES_MAX, "split it where its subject changes")
    } else if path == "ARCHITECTURE.md" {
        (ARCHITECTURE_LINES_MAX, "move the detail beside the code it explains")
    } else {
        return None;
    };
    let lines = text.lines().count();
    (lines > max)
        .then(|| Violation::new(path, max + 1, format!("{lines} lines, more than {max}: {remedy}")))
}

/// One way to lay out modules: `foo.rs` beside `foo/`, with its unit tests in `foo/tests.rs`.
fn layout(path: &str, text: &str) -> Option<Violation> {
    if !has_extension(path, "rs") || !path.contains("/src/") {
        return None;
    }
    if path.ends_with("/mod.rs") {
        return Some(Violation::new(path, 1, "a module is `foo.rs` beside its folder `foo/`"));
    }
    let tests = "unit tests of `foo.rs` are in `foo/tests.rs`: move them there";
    if path.ends_with("_tests.rs") {
        return Some(Violation::new(path, 1, tests));
    }
    let inline = text.lines().position(|line| line == "mod tests {")?;
    Some(Violation::new(path, inline + 1, tests))
}

fn white_space(path: &str, text: &str) -> Vec<Violation> {
    let no_tabs = has_extension(path, "rs") || has_extension(path, "md");
    let mut violations = Vec::new();
    // Not `lines()`, which would hide a carriage return.
    for (index, line) in text.split('\n').enumerate() {
        if line.trim_end().len() < line.len() {
            violations.push(Violation::new(path, index + 1, "trailing white space: remove it"));
        }
        if no_tabs && line.trim_end().contains('\t') {
            violations.push(Violation::new(path, index + 1, "a tab: use spaces, or write `\\t`"));
        }
    }
    violations
}

fn last_newline(path: &str, text: &str) -> Option<Violation> {
    let last = text.lines().count();
    (last > 0 && !text.ends_with('\n'))
        .then(|| Violation::new(path, last, "no newline at the end of the file: add one"))
}
