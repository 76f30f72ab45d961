//! Ids: the recorded vectors, and the rules of each format.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use ratekeeper::limits::{IdBuffer, IdError, IdFormat, Limits, Source};
use serde_json::Value;

const VECTORS: &str = include_str!("../limits/ids.json");

fn vectors(section: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(VECTORS).unwrap();
    all[section].as_array().unwrap().clone()
}

fn load_override(key: &str) -> Result<Limits, String> {
    let defaults = Source { name: "d", text: "Mine: {burst: 1, count: 1, period: 1s}" };
    // JSON quotes are YAML quotes, and spare the keys from being read as something else.
    let text = format!("{}: {{burst: 1, count: 1, period: 1s}}", Value::from(key));
    let overrides = Source { name: "o", text: &text };
    Limits::parse(&defaults, Some(&overrides)).map_err(|faults| faults.to_string())
}

fn canonical(format: IdFormat, id: &str) -> Result<String, IdError> {
    format.canonical(id, &mut IdBuffer::new()).map(Into::into)
}

fn in_file(format: IdFormat, id: &str) -> Result<String, IdError> {
    format.canonical_in_file(id, &mut IdBuffer::new()).map(Into::into)
}

#[test]
fn recorded_ids_are_valid_or_not_as_recorded() {
    let vectors = vectors("id_validation");
    assert!(vectors.len() > 20);
    for vector in vectors {
        let (name, id) = (vector[0].as_str().unwrap(), vector[1].as_str().unwrap());
        let loaded = load_override(&format!("{name}:{id}"));
        assert_eq!(loaded.is_ok(), vector[2].as_bool().unwrap(), "{vector}: {loaded:?}");
    }
}

#[test]
fn recorded_override_keys_are_split_as_recorded() {
    for vector in vectors("override_key_parse") {
        let (key, parts) = (vector[0].as_str().unwrap(), &vector[1]);
        let loaded = load_override(key);
        let Some(parts) = parts.as_array() else {
            assert!(loaded.is_err(), "{vector}");
            continue;
        };
        let limits = loaded.unwrap();
        let named = limits.named(parts[0].as_str().unwrap()).unwrap();
        let id = in_file(named.id_format(), parts[1].as_str().unwrap()).unwrap();
        assert!(named.override_for(&id).is_some(), "{vector}");
    }
}

#[test]
fn recorded_sets_of_domains_have_the_recorded_hash() {
    for vector in vectors("fqdn_set_sha256") {
        let names: Vec<_> =
            vector["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let expected = format!("7:{}", vector["sha256_hex"].as_str().unwrap());
        for list in [names.join(","), names.join(",").to_uppercase()] {
            let id = canonical(IdFormat::RegIdFqdnSet, &format!("007:{list}"));
            assert_eq!(id.as_ref(), Ok(&expected));
        }
    }
}

#[test]
fn a_set_does_not_depend_on_order_case_or_repetition() {
    let one = canonical(IdFormat::RegIdFqdnSet, "1:example.com,example.net,example.org");
    let two =
        canonical(IdFormat::RegIdFqdnSet, "1:EXAMPLE.org,example.com,Example.net,example.COM");
    assert_eq!(one, two);
    let hash = "394e82811f52e2da38b970afdb21c9bc9af81060939c690183c00fce37408738";
    assert_eq!(one, Ok(format!("1:{hash}")));
}

#[test]
fn a_set_has_at_most_a_hundred_names() {
    let names = |count| {
        let names: Vec<_> = (0..count).map(|n| format!("host{n}.example.com")).collect();
        format!("1:{}", names.join(","))
    };
    assert!(canonical(IdFormat::RegIdFqdnSet, &names(100)).is_ok());
    let error = canonical(IdFormat::RegIdFqdnSet, &names(101)).unwrap_err();
    assert!(error.to_string().contains("more than 100"), "{error}");
}

#[test]
fn addresses_have_one_spelling() {
    for (id, expected) in [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:0db8:0:0:0:ff00:42:8329", "2001:db8::ff00:42:8329"),
        ("2001:DB8::FF00:42:8329", "2001:db8::ff00:42:8329"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:0", "::"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("::FFFF:0102:0304", "1.2.3.4"),
    ] {
        assert_eq!(canonical(IdFormat::IpAddress, id).as_deref(), Ok(expected));
        assert_eq!(in_file(IdFormat::IpAddress, id).as_deref(), Ok(expected));
    }
    for id in [
        "10.0.0.01",
        "10.0.0",
        "10.0.0.256",
        " 10.0.0.1",
        "10.0.0.1/32",
        "fe80::1%eth0",
        "[::1]",
        "x",
    ] {
        assert_eq!(canonical(IdFormat::IpAddress, id), Err(IdError::IpAddress), "{id}");
    }
}

#[test]
fn an_ask_may_come_from_anywhere_within_a_range() {
    for id in [
        "2001:db8::",
        "2001:0db8:0000:ffff::1",
        "2001:db8::/48",
        "2001:db8:0:1::/64",
        "2001:db8::17/128",
        "2001:DB8:0:8000::/49",
    ] {
        assert_eq!(canonical(IdFormat::Ipv6Range, id).as_deref(), Ok("2001:db8::/48"), "{id}");
    }
    for (id, error) in [
        ("2001:db8::/47", IdError::RangeTooWide),
        ("::/0", IdError::RangeTooWide),
        ("10.0.0.1", IdError::Ipv4Range),
        ("::ffff:10.0.0.1", IdError::Ipv4Range),
        ("10.0.0.0/48", IdError::Ipv4Range),
        ("2001:db8::/129", IdError::Ipv6Range),
        ("2001:db8::/048", IdError::Ipv6Range),
        ("2001:db8::/+48", IdError::Ipv6Range),
        ("2001:db8::/", IdError::Ipv6Range),
        ("/48", IdError::Ipv6Range),
        ("2001:db8::/48/48", IdError::Ipv6Range),
    ] {
        assert_eq!(canonical(IdFormat::Ipv6Range, id), Err(error), "{id}");
    }
}

#[test]
fn an_override_is_for_a_whole_range() {
    assert_eq!(in_file(IdFormat::Ipv6Range, "2001:DB8::7/48").as_deref(), Ok("2001:db8::/48"));
    for id in ["2001:db8::", "2001:db8::/64", "2001:db8::/128"] {
        assert_eq!(in_file(IdFormat::Ipv6Range, id), Err(IdError::RangeNotWhole), "{id}");
    }
    assert_eq!(in_file(IdFormat::Ipv6Range, "2001:db8::/32"), Err(IdError::RangeTooWide));
    assert_eq!(in_file(IdFormat::Ipv6Range, ""), Err(IdError::Empty));
}

#[test]
fn accounts_are_numbers_without_leading_zeros() {
    for (id, expected) in [
        ("12345678", "12345678"),
        ("0012", "12"),
        ("0", "0"),
        ("000", "0"),
        ("18446744073709551615", "18446744073709551615"),
        ("0000000000000000000018446744073709551615", "18446744073709551615"),
    ] {
        assert_eq!(canonical(IdFormat::RegId, id).as_deref(), Ok(expected));
    }
    for id in ["18446744073709551616", "+1", "-1", "1.0", "1e3", "0x1", " 1", "1 ", "١", "lol"] {
        assert_eq!(canonical(IdFormat::RegId, id), Err(IdError::RegId), "{id}");
    }
}

#[test]
fn domains_are_checked_and_lower_cased() {
    let long_label = format!("{}.com", "a".repeat(63));
    let ten_labels = "a.b.c.d.e.f.g.h.example.com";
    for domain in ["example.com", "a-b.example.co.uk", "xn--bcher-kva.de", &long_label, ten_labels]
    {
        let expected = format!("12:{domain}");
        let format = IdFormat::RegIdDomain;
        assert_eq!(canonical(format, &expected).as_ref(), Ok(&expected));
        let shouted = format!("0012:{}", domain.to_uppercase());
        assert_eq!(canonical(format, &shouted).as_ref(), Ok(&expected));
    }
}

#[test]
fn what_is_not_a_domain_is_told_why() {
    let long_label = format!("{}.com", "a".repeat(64));
    let long = format!("{}com", "abcdefgh.".repeat(30));
    for (domain, part) in [
        ("", "empty"),
        ("com", "labels"),
        ("a.b.c.d.e.f.g.h.i.example.com", "labels"),
        ("example.com.", "ends with a dot"),
        ("*.example.com", "wildcard"),
        ("10.0.0.1", "IP address"),
        ("::1", "IP address"),
        ("example..com", "label"),
        (".example.com", "label"),
        ("-a.example.com", "hyphens"),
        ("a-.example.com", "hyphens"),
        ("a_b.example.com", "letters"),
        ("bücher.de", "letters"),
        ("example .com", "letters"),
        ("example.nosuchsuffix", "public suffix"),
        (&long_label, "63"),
        (&long, "253"),
    ] {
        let error = canonical(IdFormat::RegIdDomain, &format!("1:{domain}")).unwrap_err();
        assert!(error.to_string().contains(part), "{domain}: {error}");
        let list = format!("1:example.com,{domain}");
        let error = canonical(IdFormat::RegIdFqdnSet, &list).unwrap_err();
        assert!(error.to_string().contains(part), "{list}: {error}");
    }
    assert_eq!(canonical(IdFormat::RegIdDomain, "example.com"), Err(IdError::NoColon));
    assert_eq!(canonical(IdFormat::RegIdDomain, ":example.com"), Err(IdError::RegId));
    assert_eq!(canonical(IdFormat::RegIdFqdnSet, "x:example.com"), Err(IdError::RegId));
}

#[test]
fn the_longest_account_and_domain_fit() {
    let domain =
        format!("{}.{}.{}.{}.com", "A".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(57));
    assert_eq!(domain.len(), 253);
    let id = format!("18446744073709551615:{domain}");
    assert_eq!(canonical(IdFormat::RegIdDomain, &id), Ok(id.to_lowercase()));
}

#[test]
fn any_id_of_1_to_512_bytes_stays_as_it_is() {
    for id in ["x", " ", "Ä:ö/ü", &"x".repeat(512)] {
        assert_eq!(canonical(IdFormat::Any, id).as_deref(), Ok(id));
    }
    assert_eq!(canonical(IdFormat::Any, &"x".repeat(513)), Err(IdError::TooLong));
    for format in IdFormat::ALL {
        assert_eq!(canonical(format, ""), Err(IdError::Empty), "{format}");
    }
}

#[test]
fn the_one_spelling_stays_as_it_is() {
    for (format, id) in [
        (IdFormat::Any, "x"),
        (IdFormat::IpAddress, "10.0.0.1"),
        (IdFormat::IpAddress, "2001:db8::1"),
        (IdFormat::Ipv6Range, "2001:db8::/48"),
        (IdFormat::RegId, "12"),
        (IdFormat::RegIdDomain, "12:example.com"),
    ] {
        assert_eq!(canonical(format, id).as_deref(), Ok(id));
        assert_eq!(in_file(format, id).as_deref(), Ok(id));
    }
}

#[test]
fn format_names_read_back() {
    for format in IdFormat::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert!("regid".parse::<IdFormat>().is_err());
}
