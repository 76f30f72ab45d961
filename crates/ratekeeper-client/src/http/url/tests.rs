use super::*;

#[test]
fn an_address_is_taken_with_or_without_its_slash() {
    for text in ["http://127.0.0.1:8080", "https://limits.example/", "http://[::1]:80/behind/"] {
        let url: Url = text.parse().unwrap();
        assert_eq!(url.to_string(), text.trim_end_matches('/'));
    }
    assert_eq!(Url::default().at("/v1/spend"), "http://127.0.0.1:8080/v1/spend");
}

#[test]
fn what_is_no_address_is_refused_with_advice() {
    for text in ["", "localhost:8080", "ftp://x", "http://", "http://a b", "http://u:p@x"] {
        assert!(text.parse::<Url>().is_err(), "{text}");
    }
    assert!("http://x/?a=b".parse::<Url>().unwrap_err().contains("`?`"));
    assert!("http://x/#a".parse::<Url>().unwrap_err().contains("`#`"));
}

#[test]
fn whatever_an_id_contains_it_stays_one_part_of_a_path() {
    assert_eq!(segment("ada"), "ada");
    assert_eq!(segment("2001:db8::/48"), "2001%3Adb8%3A%3A%2F48");
    assert_eq!(segment("a b?c&d=é%"), "a%20b%3Fc%26d%3D%C3%A9%25");
}
