//! Words that belong in no file: other people's machines, promises, and talk about the work.

use super::Violation;

/// A phrase, and what to do instead. Each is glued from two halves, so that this file may list it.
#[rustfmt::skip]
const PHRASES: [(&str, &str); 15] = [
    (concat!("/wo", "rk/"), MACHINE_PATH),
    (concat!("/ro", "ot/"), MACHINE_PATH),
    (concat!("/ho", "me/"), MACHINE_PATH),
    (concat!("index.", "crates.io"), REGISTRY),
    (concat!("static.", "crates.io"), REGISTRY),
    (concat!("sparse", "+"), REGISTRY),
    (concat!("replace-", "with"), REGISTRY),
    (concat!("TO", "DO"), PROMISE),
    (concat!("FIX", "ME"), PROMISE),
    (concat!("X", "XX"), PROMISE),
    (concat!("issue", " #"), NUMBER),
    (concat!("Issue", " #"), NUMBER),
    (concat!("this ", "session"), TALK),
    (concat!("This ", "session"), TALK),
    (concat!("as an ", "AI"), TALK),
];

const MACHINE_PATH: &str = "the path of one machine: write it relative to the root";
const REGISTRY: &str = "where crates are fetched from is each machine's own setting: remove it";
const PROMISE: &str = "a promise: keep it now, or remove it";
const NUMBER: &str = "a number that a reader cannot look up here: give the reason itself";
const TALK: &str = "talk about the work, not the program: say what the program does";

/// Every phrase of the list in `text`.
pub(super) fn check(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (phrase, remedy) in PHRASES {
            if stands_alone(line, phrase) {
                let what = format!("`{phrase}`: {remedy}");
                violations.push(Violation::new(path, index + 1, what));
            }
        }
    }
    violations
}

/// Whether `phrase` is in `line`, not as a part of a longer word or path.
fn stands_alone(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(start, _)| {
        let (before, rest) = line.split_at(start);
        let after = &rest[phrase.len()..];
        begins(before, phrase) && ends(phrase, after)
    })
}

fn begins(before: &str, phrase: &str) -> bool {
    let Some(last) = before.chars().next_back() else { return true };
    let in_path = phrase.starts_with('/') && "-.~}".contains(last);
    !in_path && last != '_' && !last.is_alphanumeric()
}

fn ends(phrase: &str, after: &str) -> bool {
    let Some(first) = after.chars().next() else { return true };
    !phrase.ends_with(char::is_alphabetic) || first != '_' && !first.is_alphanumeric()
}
