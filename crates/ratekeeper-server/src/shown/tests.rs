use super::*;

#[test]
fn what_is_not_seen_is_escaped_and_words_of_any_language_are_not() {
    for c in
        "\n\r\t\0\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{200b}\u{200e}\u{2028}\u{2029}\u{feff}".chars()
    {
        assert!(is_unseen(c), "{c:?}");
    }
    for c in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
        assert!(is_unseen(c), "{c:?}");
    }
    for c in "az 09 ~\\\"' äß é e\u{301} हिन्दी עברית 中文 🙂".chars() {
        assert!(!is_unseen(c), "{c:?}");
    }
}

#[test]
fn different_bytes_are_shown_differently_and_on_one_line() {
    let shown = |bytes: &[u8]| {
        let mut text = String::new();
        push_shown_bytes(bytes, &mut text);
        text
    };
    assert_eq!(shown(b"a\n\x1b[2J\\x0a"), r"a\x0a\x1b[2J\\x0a");
    assert_eq!(shown("\u{9b}2J\u{202e}ä".as_bytes()), r"\u{9b}2J\u{202e}ä");
    assert_eq!(shown(b"\xff\xc2\x9b\xc3"), r"\xff\u{9b}\xc3");
}
