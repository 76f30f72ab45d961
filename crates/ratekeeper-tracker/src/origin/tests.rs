use super::Origin;

#[test]
fn an_origin_is_the_same_however_it_is_written() {
    let origin = Origin::of("https://api.example.com/v1/things?page=2#top");
    for same in [
        "https://api.example.com",
        "HTTPS://API.Example.COM:443/other",
        "https://user:password@api.example.com?x=/",
        "https://api.example.com./",
        "https://api.example.com:/",
    ] {
        assert_eq!(origin, Origin::of(same), "{same}");
        assert_eq!(origin.key(), Origin::of(same).key(), "{same}");
        assert_eq!(Origin::of(same).to_string(), "https://api.example.com");
    }
}

#[test]
fn scheme_host_and_port_tell_origins_apart() {
    let all = [
        "https://api.example.com",
        "http://api.example.com",
        "https://api.example.com:8443",
        "https://api.example.com.evil.org",
        "https://api.example.com@evil.org/",
        "https://[::1]:8080",
        "https://[::1]",
        "",
    ];
    for (index, one) in all.iter().enumerate() {
        for (other_index, other) in all.iter().enumerate() {
            let (a, b) = (Origin::of(one), Origin::of(other));
            assert_eq!(a == b, index == other_index, "{one} {other}");
            assert_eq!(a.key() == b.key(), index == other_index, "{one} {other}");
        }
    }
}

#[test]
fn what_is_no_url_has_no_origin() {
    for url in ["", "/things", "api.example.com", "://", "mailto:somebody@example.com"] {
        assert!(Origin::of(url).is_empty(), "{url}");
        assert_eq!(Origin::of(url).to_string(), "", "{url}");
    }
}

#[test]
fn nobody_reads_a_password_or_ten_thousand_bytes() {
    let long = format!("https://user:secret@{}.com/", "a".repeat(10_000));
    let origin = Origin::of(&long);
    assert!(origin.to_string().len() <= 200);
    assert!(!format!("{origin:?}").contains("secret"));
    assert_eq!(Origin::of("http://[::1]:8080/").to_string(), "http://[::1]:8080");
}
