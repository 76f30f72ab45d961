use super::super::words::check;
use super::lines;

/// Each phrase in two halves, so that this file passes the check it tests.
const REFUSED: [&str; 15] = [
    concat!("cd /wo", "rk/tree"),
    concat!("in `/ro", "ot/x`"),
    concat!("file:///ho", "me/me/x"),
    concat!("https://index.", "crates.io/"),
    concat!("https://static.", "crates.io/"),
    concat!("\"sparse", "+https://mirror/\""),
    concat!("replace-", "with = \"mirror\""),
    concat!("// TO", "DO: later"),
    concat!("FIX", "ME"),
    concat!("// X", "XX"),
    concat!("see issue", " #12"),
    concat!("Issue", " #12"),
    concat!("done in this ", "session."),
    concat!("This ", "session"),
    concat!("as an ", "AI, I"),
];

#[test]
fn every_phrase_of_the_list_is_refused() {
    for line in REFUSED {
        let text = format!("fine\n{line}\n");
        assert_eq!(lines(&check("a.md", &text)), [2], "{line}");
    }
}

#[test]
fn parts_of_longer_words_and_paths_pass() {
    let fine = [
        concat!("tests/ho", "me/a.yaml"),
        concat!("~/wo", "rk/tree"),
        concat!("MASTO", "DON"),
        concat!("X", "XXL"),
        concat!("as an ", "AIR gap"),
        "the issue is this: sessions end",
    ];
    for line in fine {
        assert_eq!(check("a.md", line), [], "{line}");
    }
}
