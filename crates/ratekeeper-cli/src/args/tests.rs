use std::fs;
use std::path::Path;

use super::*;

/// The words behind each name of the program that begins a quotation, up to what names no command.
fn named(text: &str) -> Vec<Vec<&str>> {
    let is_name = |word: &&str| {
        !word.is_empty() && word.bytes().all(|it| it.is_ascii_lowercase() || it == b'-')
    };
    let quoted = text.split("`ratekeeper ").skip(1);
    quoted
        .map(|rest| {
            let words = rest.split(['`', '\n']).next().unwrap_or_default().split(' ');
            words.take_while(|it| is_name(it) && !it.starts_with('-')).take(2).collect()
        })
        .collect()
}

fn check(folder: &Path, wrong: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check(&path, wrong);
        } else if path.extension().is_some_and(|it| it == "rs" || it == "md" || it == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            let unknown = named(&text).into_iter().filter(|words| !is_command(words));
            let told = |words: Vec<&str>| format!("{}: {}", path.display(), words.join(" "));
            wrong.extend(unknown.map(told));
        }
    }
}

#[test]
fn every_command_that_a_message_or_a_page_names_exists() {
    assert!(is_command(&["override", "add"]) && !is_command(&["override", "nonsense"]));
    let mut wrong = Vec::new();
    for folder in ["crates", "docs"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        check(&root.join(folder), &mut wrong);
    }
    assert_eq!(wrong, Vec::<String>::new());
}
