use super::{TOKEN_CHARS_MAX, TOKENS_MAX, Tokens, bearer};
use crate::settings::Role;

const OPS: &str = "ops-secret-0123456789";
const WEB: &str = "web-secret-0123456789";

fn parse(text: &str) -> Result<Tokens, String> {
    Tokens::parse(text, "tokens.txt").map_err(|error| error.to_string())
}

#[test]
fn a_token_has_a_name_and_a_role() {
    let text = format!("# who\n\nops admin {OPS}\r\n  web\tdecide {WEB}   # the shop\n");
    let tokens = parse(&text).unwrap();
    assert_eq!(tokens.role_of(OPS.as_bytes()), Some(("ops", Role::Admin)));
    assert_eq!(tokens.role_of(WEB.as_bytes()), Some(("web", Role::Decide)));
    for other in ["", "ops", "ops-secret-012345678", "ops-secret-0123456789 ", "#"] {
        assert_eq!(tokens.role_of(other.as_bytes()), None, "{other:?}");
    }
    assert_eq!(tokens.role_of(&[b'x'; TOKEN_CHARS_MAX + 1]), None);
}

#[test]
fn in_the_environment_a_semicolon_ends_a_line() {
    let text = format!("ops admin {OPS}; web read {WEB};");
    let tokens = Tokens::parse_inline(&text, "RATEKEEPER_TOKENS").unwrap();
    assert_eq!(tokens.role_of(WEB.as_bytes()), Some(("web", Role::Read)));
    assert!(parse(&text).is_err());
}

#[test]
fn each_line_that_is_wrong_is_told_and_no_token_shown() {
    let long = "x".repeat(TOKEN_CHARS_MAX + 1);
    let name = "n".repeat(65);
    let text = format!(
        "ops admin {OPS}\nadmin {WEB}\n{WEB}\na b c d\nops read {WEB}\nweb root secret-0123456789-a\n\
         web read short\nlong read {long}\nö read secret-0123456789-b\n{name} read secret-0123456789-c\n\
         bad read sécret-0123456789\nagain decide {OPS}\nhash read #secret-0123456789\n"
    );
    let shown = parse(&text).unwrap_err();
    let expected = [
        "tokens.txt:2: expected three words",
        "tokens.txt:3: expected three words",
        "tokens.txt:4: expected three words",
        "tokens.txt:5: the name is on line 1 already",
        "tokens.txt:6: the second word is no role",
        "tokens.txt:7: the token has fewer than 16 characters",
        "tokens.txt:7: the name is on line 6 already",
        "tokens.txt:8: the token has more than 512",
        "tokens.txt:9: the first word is no name",
        "tokens.txt:10: the first word is no name",
        "tokens.txt:11: the token has a character that is not printable",
        "tokens.txt:12: the token is on line 1 already",
        "tokens.txt:13: expected three words",
    ];
    for (line, expected) in shown.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line}\nexpected {expected}");
    }
    assert_eq!(shown.lines().count(), expected.len(), "{shown}");
    assert!(!shown.contains("secret") && !shown.contains("xxx"), "{shown}");
}

#[test]
fn nobody_is_called_what_the_server_calls_itself_and_nobody() {
    for name in ["ratekeeper", "anybody", "Ratekeeper"] {
        let shown = parse(&format!("ops admin {OPS}\n{name} read {WEB}\n")).unwrap_err();
        let expected = "tokens.txt:2: the name is one of `ratekeeper` and `anybody`";
        assert!(shown.starts_with(expected), "{shown}");
    }
    assert!(parse(&format!("ratekeeper-2 admin {OPS}\n")).is_ok());
}

#[test]
fn a_list_without_a_token_is_refused() {
    for text in ["", "\n\n", "# nobody yet\n"] {
        let shown = parse(text).unwrap_err();
        assert!(shown.starts_with("tokens.txt: there is no token in it"), "{shown}");
    }
}

#[test]
fn there_are_bounds_on_tokens_and_on_faults() {
    let line = |n: usize| format!("n{n} read token-{n:016}\n");
    let lines = |count| (0..count).map(line).collect::<Vec<_>>().concat();
    assert!(parse(&lines(TOKENS_MAX)).is_ok());
    let shown = parse(&lines(TOKENS_MAX + 1)).unwrap_err();
    assert_eq!(shown, "tokens.txt:1025: there are more than 1024 tokens: use fewer");
    let shown = parse(&"wrong\n".repeat(50)).unwrap_err();
    assert_eq!(shown.lines().count(), 21);
    assert!(shown.ends_with("and 30 more"), "{shown}");
}

#[test]
fn debug_shows_names_only() {
    let tokens = parse(&format!("ops admin {OPS}\nweb read {WEB}\n")).unwrap();
    assert_eq!(format!("{tokens:?}"), r#"["ops", "web"]"#);
}

#[test]
fn a_bearer_is_one_word_behind_its_scheme() {
    let cases: [(&str, Option<&str>); 11] = [
        ("Bearer abc", Some("abc")),
        ("bearer abc", Some("abc")),
        ("BEARER   a.b-c_d~e+f/g=", Some("a.b-c_d~e+f/g=")),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearerabc", None),
        ("Bearer\tabc", None),
        ("Bearer abc def", None),
        ("Bearer abc ", None),
        ("Basic abc", None),
        ("Bearer ä", None),
    ];
    for (value, token) in cases {
        assert_eq!(bearer(value.as_bytes()), token.map(str::as_bytes), "{value:?}");
    }
}
