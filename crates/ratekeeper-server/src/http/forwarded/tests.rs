use std::net::IpAddr;

use ipnet::IpNet;

use super::{ForwardedError, HOP_BYTES_MAX, HOPS_MAX, client};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn trusted() -> Vec<IpNet> {
    ["10.0.0.0/8", "127.0.0.0/8", "2001:db8::/32"].map(|network| network.parse().unwrap()).to_vec()
}

fn ask(peer: &str, fields: &[&str]) -> Result<IpAddr, ForwardedError> {
    client(ip(peer), fields.iter().map(|field| field.as_bytes()), &trusted())
}

#[test]
fn the_first_from_the_right_that_is_not_trusted_is_the_client() {
    let cases: [(&str, &[&str], &str); 14] = [
        ("10.0.0.1", &["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", &["192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", &["192.0.2.7", "10.0.0.2,10.0.0.3"], "192.0.2.7"),
        ("10.0.0.1", &["192.0.2.7,198.51.100.1", "10.0.0.2"], "198.51.100.1"),
        // Written by the client, to be taken for another.
        ("10.0.0.1", &["203.0.113.9, 192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", &["127.0.0.1, 10.0.0.9, 192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", &["what ever he likes, 192.0.2.7"], "192.0.2.7"),
        ("192.0.2.1", &["203.0.113.9"], "192.0.2.1"),
        ("192.0.2.1", &["not an address"], "192.0.2.1"),
        // Nobody but proxies.
        ("10.0.0.1", &[], "10.0.0.1"),
        ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", &["", " , ,", "\t192.0.2.7 ,,"], "192.0.2.7"),
        // IPv4 is IPv4, however it is written.
        ("::ffff:10.0.0.1", &["::ffff:192.0.2.7, ::ffff:10.0.0.2"], "192.0.2.7"),
        ("2001:db8::1", &["2001:db9::1, 2001:db8::2"], "2001:db9::1"),
    ];
    for (peer, fields, expected) in cases {
        assert_eq!(ask(peer, fields), Ok(ip(expected)), "{peer} {fields:?}");
    }
}

#[test]
fn an_entry_is_read_in_every_form_that_proxies_write() {
    let forms = [
        ("1.2.3.4", "1.2.3.4"),
        ("1.2.3.4:567", "1.2.3.4"),
        ("\"1.2.3.4:567\"", "1.2.3.4"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[::1]:80", "::1"),
        ("\"[::1]\"", "::1"),
        ("\"[::1]:80\"", "::1"),
        ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
    ];
    for (form, expected) in forms {
        assert_eq!(ask("10.0.0.1", &[form]), Ok(ip(expected)), "{form}");
    }
}

#[test]
fn an_entry_of_a_trusted_proxy_that_is_no_address_is_named() {
    let long = format!("1.2.3.4{}", " ".repeat(HOP_BYTES_MAX) + "x");
    let wrong = [
        "unknown",
        "_hidden",
        "1.2.3",
        "01.2.3.4",
        "1.2.3.4:",
        "1.2.3.4:99999",
        "[::1",
        "::1]",
        "[1.2.3.4]",
        "\"1.2.3.4",
        "for=1.2.3.4",
        "fe80::1%eth0",
        "1.2.3.4 5.6.7.8",
        "example.org",
        &long,
    ];
    for entry in wrong {
        for field in [entry.to_owned(), format!("192.0.2.7, {entry}, 10.0.0.2")] {
            let error = ask("10.0.0.1", &[&field]).unwrap_err();
            let ForwardedError::NoAddress(shown) = &error else { panic!("{error}") };
            assert!(shown.len() <= 4 * HOP_BYTES_MAX);
            assert!(
                error.to_string().contains(&entry[..7.min(entry.len())].replace('"', "\\\"")),
                "{error}"
            );
        }
    }
    let error = client(ip("10.0.0.1"), std::iter::once(&b"\xff\n"[..]), &trusted()).unwrap_err();
    assert_eq!(error, ForwardedError::NoAddress("\\xff".into()));
}

#[test]
fn there_is_a_bound_on_how_far_it_is_read() {
    let hops = |count| vec!["10.0.0.2"; count].join(",");
    assert_eq!(ask("10.0.0.1", &[&hops(HOPS_MAX)]), Ok(ip("10.0.0.2")));
    assert_eq!(ask("10.0.0.1", &[&hops(HOPS_MAX + 1)]), Err(ForwardedError::TooMany));
    assert_eq!(
        ask("10.0.0.1", &[&format!("1.1.1.1{}", ",".repeat(1000))]),
        Err(ForwardedError::TooMany)
    );
    // Whatever a client sends behind his own address is not looked at.
    assert_eq!(ask("10.0.0.1", &[&format!("{},192.0.2.7", hops(1000))]), Ok(ip("192.0.2.7")));
}

#[test]
fn nobody_is_trusted_unless_it_is_said() {
    let fields = || std::iter::once(&b"192.0.2.7"[..]);
    assert_eq!(client(ip("127.0.0.1"), fields(), &[]), Ok(ip("127.0.0.1")));
}
