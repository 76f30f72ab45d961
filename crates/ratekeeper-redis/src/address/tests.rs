//! Addresses: what is read, what is refused, and what is never shown.

use super::*;

fn read(text: &str) -> Address {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_layout_has_its_spelling() {
    let shown = [
        ("redis://localhost", "redis://localhost:6379"),
        ("redis://localhost:7000/3", "redis://localhost:7000/3"),
        ("rediss://[::1]:7000", "rediss://[::1]:7000"),
        ("valkey://a", "redis://a:6379"),
        ("redis+sentinel://a,b:7/main", "redis+sentinel://a:26379,b:7/main"),
        ("rediss+cluster://a,b", "rediss+cluster://a:6379,b:6379"),
    ];
    for (text, expected) in shown {
        assert_eq!(read(text).to_string(), expected);
        assert_eq!(read(expected), read(text));
    }
}

#[test]
fn credentials_are_read_and_never_shown() {
    for text in [
        "redis://ada:s%40cret@localhost/2",
        "rediss+cluster://ada:s%40cret@a,b",
        "redis+sentinel://ada:s%40cret@a/main",
    ] {
        let address = read(text);
        assert_eq!(address.user.as_deref(), Some("ada"));
        assert_eq!(address.password.as_deref(), Some("s@cret"));
        let shown = format!("{address} {address:?} {:?}", Some(&address));
        assert!(!shown.contains("cret") && !shown.contains("ada"), "{shown}");
    }
    assert_eq!(read("redis://:only@a").password.as_deref(), Some("only"));
}

#[test]
fn what_is_wrong_is_said_without_repeating_secrets() {
    let wrong = [
        ("localhost:6379", "begin with"),
        ("http://a", "begin with"),
        ("redis+ring://a", "begin with"),
        ("redis://", "no host"),
        ("redis://u:secret@a,b", "several hosts"),
        ("redis://u:secret@a:port", "not host:port"),
        ("redis://u:secret@a/first", "must be a number"),
        ("redis+cluster://u:secret@a/1", "no databases"),
        ("redis+sentinel://u:secret@a", "call the primary"),
        ("redis://u:secret%4@a", "hexadecimal"),
        ("redis://u:secret@a?timeout=1", "not known"),
    ];
    for (text, expected) in wrong {
        let error = text.parse::<Address>().unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains(expected) || error.to_string().contains(expected), "{text}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn files_for_tls_without_tls_are_a_mistake() {
    let text = b"-----BEGIN CERTIFICATE-----\nno base64\n-----END CERTIFICATE-----\n".to_vec();
    let tls = Tls { authority: Some(PemFile { path: "ca.pem".into(), text }), client: None };
    let error = Access::new(&read("redis://a"), &tls).err().unwrap();
    assert!(error.to_string().contains("rediss"), "{error}");
    let error = Access::new(&read("rediss://a"), &tls).err().unwrap();
    assert!(error.to_string().contains("ca.pem"), "{error}");
}
