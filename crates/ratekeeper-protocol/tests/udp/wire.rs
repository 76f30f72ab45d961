//! The wire and the rules file, beyond what the page shows.

use ratekeeper_protocol::Counts;
use ratekeeper_protocol::udp::{STARTER, STATISTICS_KEYS_MAX};

use crate::udp_fixture::UdpFixture;

#[test]
fn what_is_asked_is_counted() {
    let mut fixture = UdpFixture::new("rules: [{match: '^k$', limit: 1, period: 9}]");
    let long = [b'7'; 1201];
    let requests: [&[u8]; 9] = [
        b"over_limit k",
        b"over_limit k",
        b"1 ping",
        b"get_size",
        b"get_stats k",
        b"check_limit {\"ip\":1}",
        b"check_limit {",
        b"nonsense",
        &long,
    ];
    let replies = fixture.send_all(&requests);
    assert_eq!(replies.iter().filter(|reply| reply.is_empty()).count(), 3);
    let expected = Counts { requests: 6, allowed: 2, denied: 1, ignored: 1, malformed: 2 };
    assert_eq!(fixture.counts, expected);
}

#[test]
fn a_datagram_of_1200_bytes_is_answered_and_a_longer_one_is_not() {
    let mut fixture = UdpFixture::new("");
    let mut datagram = b"get_stats ".to_vec();
    datagram.resize(1200, b'k');
    assert!(fixture.send(&datagram).ends_with(b"kkk"));
    datagram.push(b'k');
    assert!(fixture.send(&datagram).is_empty());
    // Two keys that differ in their last byte only are two.
    let mut fixture = UdpFixture::new("rules: [{match: '^', limit: 9, period: 9}]");
    let mut datagram = b"over_limit ".to_vec();
    datagram.resize(1200, b'k');
    assert_eq!(fixture.send(&datagram), b"ok N 0.0 9.0 9");
    datagram[1199] = b'x';
    assert_eq!(fixture.send(&datagram), b"ok N 0.0 9.0 9");
}

#[test]
fn an_id_is_echoed_at_any_length() {
    let mut fixture = UdpFixture::new("");
    let id = "0".repeat(1000);
    fixture.says(&format!("{id} ping"), &format!("{id} pong"));
    fixture.says("18446744073709551616 ping", "18446744073709551616 pong");
    for refused in
        ["1", "1 ", " ping", "1ping", "1  ping", "1\tping", "-1 ping", "1.0 ping", "１ ping"]
    {
        fixture.says(refused, "");
    }
}

#[test]
fn any_bytes_are_a_key() {
    let mut fixture =
        UdpFixture::new(r"rules: [{match: '^a.b$', limit: 9, period: 9, stats: true}]");
    for byte in (0..=255_u8).filter(|byte| *byte != b'\n') {
        let key = [b'a', byte, b'b'];
        let said = fixture.send([b"over_limit ", &key[..]].concat());
        assert_eq!(said, b"ok N 0.0 9.0 9", "{byte}");
        let said = fixture.send([b"get_stats ", &key[..]].concat());
        assert_eq!(said, [b"n_req=1 n_over=0 last_max_rate=0 key=", &key[..]].concat());
    }
}

#[test]
fn expressions_know_ascii_only() {
    let mut fixture = UdpFixture::new(
        r"rules: [{match: '^\d$', limit: 2, period: 9}, {match: '^(?i)k$', limit: 3, period: 9}]",
    );
    fixture.says("over_limit 7", "ok N 0.0 2.0 9");
    fixture.says("over_limit ٧", "ok N 0.0 1.0 1");
    fixture.says("over_limit K", "ok N 0.0 3.0 9");
    fixture.says("over_limit \u{212a}", "ok N 0.0 1.0 1");
}

#[test]
fn the_first_rule_that_fits_decides() {
    let mut fixture = UdpFixture::new(
        "rules:
  - { match: 'b', limit: 2, period: 9 }
  - { match: 'a', limit: 3, period: 9 }
  - { match: '^', limit: 4, period: 9 }",
    );
    fixture.says("over_limit ab", "ok N 0.0 2.0 9");
    fixture.says("over_limit a", "ok N 0.0 3.0 9");
    fixture.says("over_limit c", "ok N 0.0 4.0 9");
}

#[test]
fn rewrites_see_what_those_before_them_made() {
    let mut fixture = UdpFixture::new(
        r"rewrite:
  - { match: '(\w)(\w)', to: '$2$1' }
  - { match: '^b', to: 'c' }
  - { match: 'never', to: 'x' }
  - { match: 'a', to: '' }
  - { match: '$', to: '$$\\' }
rules:
  - { match: '^', limit: 9, period: 9, stats: true }",
    );
    fixture.send("over_limit ab ab");
    fixture.says(r"get_stats c ab$\", r"n_req=1 n_over=0 last_max_rate=0 key=c ab$\");
}

#[test]
fn a_rewrite_cannot_make_a_key_grow_without_bound() {
    let doubling = "  - { match: '^.*$', to: '$0$0' }\n".repeat(60);
    let text = format!("rewrite:\n{doubling}rules: [{{match: '^x+$', limit: 9, period: 9}}]");
    UdpFixture::new(&text).says("over_limit x", "ok N 0.0 9.0 9");
}

#[test]
fn an_empty_file_has_no_rules() {
    for text in ["", "# nothing\n", "{}", "---\n", "rules: []\ncount:\nrewrite: []\ndefault: {}\n"]
    {
        let mut fixture = UdpFixture::new(text);
        fixture.says("over_limit x", "ok N 0.0 1.0 1");
        fixture.says("get_stats default", "n_req=1 n_over=0 last_max_rate=0 key=default");
        fixture.says("get_size", "size=0 keys=0");
    }
}

#[test]
fn the_default_is_a_rule_like_others() {
    let mut fixture =
        UdpFixture::new("default: {over_limit: Y, rate: 7.25, limit: 3.5, period: 2}");
    fixture.says("over_limit x", "ok Y 7.2 3.5 2");
    fixture.says("get_stats default", "n_req=1 n_over=1 last_max_rate=0 key=default");

    let mut fixture = UdpFixture::new("default: {limit: 1, period: 10, stats: false}");
    fixture.says("over_limit x", "ok N 0.0 1.0 10");
    fixture.says("over_limit x", "ok Y 1.0 1.0 10");
    fixture.says("over_limit y", "ok N 0.0 1.0 10");
    fixture.says("get_stats default", "n_req=0 n_over=0 last_max_rate=0 key=default");

    let mut fixture = UdpFixture::new("default: {limit: 1, period: 10, key: 'all'}");
    fixture.says("over_limit x", "ok N 0.0 1.0 10");
    fixture.says("over_limit y", "ok Y 1.0 1.0 10");
}

#[test]
fn the_size_is_that_of_the_keys() {
    let mut fixture = UdpFixture::new("rules: [{match: '^k', limit: 9, period: 9}]");
    for n in 0..5 {
        fixture.send(format!("over_limit k{n}"));
    }
    let held = fixture.averages.held();
    assert_eq!(held.keys, 5);
    let expected = format!("3 size={}/{} keys=5", held.bytes, held.bytes_max);
    fixture.says("3 get_size", &expected);
}

#[test]
fn answers_fit_a_small_buffer_whatever_the_rules() {
    let mut fixture = UdpFixture::new(
        "rules:
  - { match: a, limit: 1000000000000, period: 1000000000 }
  - { match: b, limit: 0.04, period: 0.001 }
  - { match: c, over_limit: true, rate: 1000000000000, limit: 999999999999.96, period: 1000000000 }",
    );
    fixture.says("over_limit a", "ok N 0.0 1000000000000.0 1000000000");
    fixture.says("over_limit b", "ok N 0.0 0.0 1");
    fixture.says("over_limit c", "ok Y 1000000000000.0 1000000000000.0 1000000000");
}

#[test]
fn a_count_does_not_disturb_the_average_of_the_same_key() {
    let mut fixture =
        UdpFixture::new("count: [{match: '^k$'}]\nrules: [{match: '^k$', limit: 9, period: 9}]");
    fixture.says("over_limit k", "ok N 0.0 9.0 9");
    fixture.says("over_limit k", "ok N 1.0 9.0 9");
    fixture.says("get_stats k", "n_req=2 n_over=0 last_max_rate=0 key=k");
}

#[test]
fn a_flood_of_keys_does_not_push_a_busy_one_out_of_the_statistics() {
    let mut fixture = UdpFixture::new("rules: [{match: '^', over_limit: false, stats: true}]");
    for _ in 0..100 {
        fixture.send("over_limit busy");
    }
    for n in 0..4 * STATISTICS_KEYS_MAX {
        fixture.send(format!("over_limit {n}"));
    }
    fixture.says("get_stats busy", "n_req=100 n_over=0 last_max_rate=0 key=busy");
}

#[test]
fn check_limit_takes_what_clients_send() {
    for (json, keys) in [
        ("{}", ["unspecified ua=", "unspecified ip=", "unspecified global"]),
        (
            r#"{"origin":null,"ip":7}"#,
            ["unspecified ua=", "unspecified ip=7", "unspecified global"],
        ),
        (r#"{"origin":"a\"b","ua":"é","x":[]}"#, ["a\"b ua=é", "a\"b ip=", "a\"b global"]),
    ] {
        let said = UdpFixture::new("").send(format!("9 check_limit {json}\n"));
        let said = String::from_utf8(said).unwrap();
        let list = serde_json::to_string(&keys).unwrap();
        assert!(said.starts_with(&format!("9 ok N 0.0 1.0 1, {list}, [{{\"key\":")), "{said}");
    }
    for json in ["", "[]", "7", "{", "{}x", r#"{"ua":[]}"#, r#"{"ip":true}"#, "{\"a\":\"\u{1}\"}"] {
        UdpFixture::new("").says(&format!("check_limit {json}"), "");
    }
    let mut fixture = UdpFixture::new("");
    assert!(fixture.send(b"check_limit {\"ua\":\"\xff\"}").is_empty());
    assert_eq!(fixture.counts.malformed, 1);
}

#[test]
fn the_starter_rules_answer_as_their_comments_say() {
    let mut fixture = UdpFixture::new(STARTER.text);
    fixture.says("over_limit ws global", "ok N 0.0 2500.0 10");
    fixture.says("get_stats ws global", "n_req=1 n_over=0 last_max_rate=0 key=ws global");
    fixture.says("over_limit ws ip=192.0.2.1", "ok N 0.0 22.0 20");
    fixture.says("over_limit ws ip=127.0.0.1", "ok N 0.0 2000.0 20");
    fixture.says("over_limit api internal", "ok N 1.0 2000.0 20");
    fixture.says("over_limit blocked x", "ok Y 1.0 0.0 1");
    fixture.says("over_limit anything", "ok N 0.0 1.0 1");
}

#[test]
fn a_door_without_checks_answers_all_else() {
    let mut fixture = UdpFixture::new("");
    let answer = fixture.send("check_limit {}");
    assert_eq!(answer.len(), 248, "17 times what was sent: {}", answer.escape_ascii());
    fixture.door = UdpFixture::new("").door.without_checks();
    assert_eq!(fixture.send("check_limit {}"), b"");
    assert_eq!(fixture.send("1 check_limit {\"origin\":\"ws\"}"), b"");
    fixture.says("over_limit ws global", "ok N 0.0 1.0 1");
    fixture.says("1 ping", "1 pong");
}
