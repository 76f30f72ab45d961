//! Good files: what they say is what is loaded.

use ratekeeper::Nanos;
use ratekeeper::limits::{IdFormat, Limits, NamedLimit, Source, changes};

const DEFAULTS: &str = include_str!("../limits/defaults.yaml");
const OVERRIDES: &str = include_str!("../limits/overrides.yaml");
const OVERRIDES_LIST: &str = include_str!("../limits/overrides_list.yaml");

fn parse(defaults: &str, overrides: Option<&str>) -> Result<Limits, String> {
    let defaults = Source { name: "limits.yaml", text: defaults };
    let overrides = overrides.map(|text| Source { name: "overrides.yaml", text });
    Limits::parse(&defaults, overrides.as_ref()).map_err(|faults| faults.to_string())
}

fn load(defaults: &str, overrides: &str) -> Limits {
    parse(defaults, Some(overrides)).unwrap_or_else(|faults| panic!("{faults}"))
}

fn applied(limits: &Limits, name: &str, id: &str) -> String {
    limits
        .named(name)
        .and_then(|named| named.limit_for(id))
        .map_or("none".into(), ToString::to_string)
}

#[test]
fn defaults_apply_to_everybody_and_overrides_to_some() {
    let limits = load(DEFAULTS, OVERRIDES);
    for (name, id, expected) in [
        ("NewRegistrationsPerIPAddress", "10.0.0.1", "20 per 1s"),
        ("NewRegistrationsPerIPAddress", "10.0.0.2", "40 per 1s, burst 20"),
        ("NewRegistrationsPerIPAddress", "2001:db8::ff00:42:8329", "40 per 1s, burst 21"),
        ("NewRegistrationsPerIPv6Range", "2001:db8::/48", "40 per 1s, burst 22"),
        ("NewOrdersPerAccount", "12345678", "600 per 3h, burst 300"),
        ("NewOrdersPerAccount", "1", "300 per 3h"),
        ("CertificatesPerDomainPerAccount", "12345678:example.com", "1 per 1h"),
        ("CertificatesPerFQDNSetPerAccount", "x", "5 per 7d"),
        ("NewFoosPerIPAddress", "172.23.45.22", "20 per 500ms"),
        ("Logins", "some:body at home", "1 per 1m, burst 30"),
        ("Logins", "somebody", "1 per 1m30s, burst 3"),
        ("Nobody", "x", "none"),
    ] {
        assert_eq!(applied(&limits, name, id), expected, "{name}:{id}");
    }
}

#[test]
fn the_order_is_that_of_the_file() {
    let limits = load(DEFAULTS, OVERRIDES);
    let numbers: Vec<_> = limits.iter().map(NamedLimit::number).collect();
    assert_eq!(numbers, [Some(4), Some(5), Some(6), Some(7), Some(8), Some(9), Some(10), None]);
    let formats: Vec<_> = limits.iter().map(NamedLimit::id_format).skip(6).collect();
    assert_eq!(formats, [IdFormat::IpAddress, IdFormat::Any]);
}

#[test]
fn known_names_work_without_a_default() {
    let overrides = "NewOrdersPerAccount:7: {burst: 1, count: 1, period: 1s}\n\
                     NewRegistrationsPerIPAddress:::1: {burst: 2, count: 2, period: 1s}\n";
    let limits = load("Mine: {burst: 1, count: 1, period: 1s}", overrides);
    let names: Vec<_> = limits.iter().map(NamedLimit::name).collect();
    assert_eq!(names, ["Mine", "NewRegistrationsPerIPAddress", "NewOrdersPerAccount"]);
    assert_eq!(applied(&limits, "NewOrdersPerAccount", "7"), "1 per 1s");
    assert_eq!(applied(&limits, "NewOrdersPerAccount", "8"), "none");
    assert_eq!(applied(&limits, "NewRegistrationsPerIPAddress", "::1"), "2 per 1s");
}

#[test]
fn the_list_form_says_the_same() {
    let limits = load(DEFAULTS, OVERRIDES_LIST);
    assert_eq!(applied(&limits, "NewRegistrationsPerIPAddress", "10.0.0.2"), "40 per 1s, burst 20");
    assert_eq!(applied(&limits, "NewOrdersPerAccount", "12345678"), "600 per 3h, burst 300");
    assert_eq!(applied(&limits, "NewOrdersPerAccount", "987"), "600 per 3h, burst 300");
    assert_eq!(applied(&limits, "Logins", "some:body"), "1 per 1m, burst 30");
    let comment = |name, id| limits.named(name)?.override_for(id)?.comment.as_deref();
    assert_eq!(comment("NewRegistrationsPerIPAddress", "10.0.0.2"), Some("the office"));
    assert_eq!(comment("NewOrdersPerAccount", "12345678"), Some("asked in March"));
    assert_eq!(comment("Logins", "some:body"), None);
}

#[test]
fn every_limit_knows_where_it_was_written() {
    let limits = load(DEFAULTS, OVERRIDES);
    let orders = limits.named("NewOrdersPerAccount").unwrap();
    assert_eq!(orders.default().unwrap().origin.to_string(), "limits.yaml:10");
    assert_eq!(orders.override_for("12345678").unwrap().origin.to_string(), "overrides.yaml:13");
}

#[test]
fn an_override_is_found_however_it_was_spelled() {
    for id in ["2001:db8::1", "2001:0DB8:0:0::0001"] {
        let overrides = format!("NewFoosPerIPAddress:{id}: {{burst: 9, count: 9, period: 1s}}");
        let limits = load(DEFAULTS, &overrides);
        assert_eq!(applied(&limits, "NewFoosPerIPAddress", "2001:db8::1"), "9 per 1s");
    }
}

#[test]
fn a_known_name_may_repeat_its_number_and_format() {
    let text = "NewOrdersPerAccount: {burst: 1, count: 1, period: 1s, id: regId, number: 6}";
    let limits = parse(text, None).unwrap();
    assert_eq!(limits.named("NewOrdersPerAccount").unwrap().number(), Some(6));
}

#[test]
fn numbers_below_the_known_ones_are_free() {
    let text = "A: {burst: 1, count: 1, period: 1s, number: 1}\n\
                B: {burst: 1, count: 1, period: 1s, number: 3}\n\
                C: {burst: 1, count: 1, period: 1s, number: 4294967295}";
    assert_eq!(parse(text, None).unwrap().iter().count(), 3);
}

#[test]
fn how_a_file_is_laid_out_does_not_matter() {
    let plain = parse("A:\n  burst: 1\n  count: 1\n  period: 1s\n", None).unwrap();
    for text in [
        "A:\r\n  burst: 1\r\n  count: 1\r\n  period: 1s\r\n",
        "\u{feff}A:\n  burst: 1\n  count: 1\n  period: 1s\n",
        "A: {burst: 1, count: 1, period: 1s}",
        "A: {\"burst\": 1, 'count': 1, \"period\": '1s'}\n...\n",
        "'A':\n      period: 1s # why\n      count: 1\n\n      burst:   1\n",
    ] {
        let limits = parse(text, None).unwrap_or_else(|faults| panic!("{text:?}: {faults}"));
        assert_eq!(limits, plain, "{text:?}");
    }
    assert!(parse("%YAML 1.2\n---\nA: {burst: 1, count: 1, period: 1s}\n", None).is_ok());
}

#[test]
fn a_name_that_is_nearly_a_known_one_is_hinted_at() {
    let text =
        "X: {burst: 1, count: 1, period: 1s}\nNewOrderPerAccount: {burst: 1, count: 1, period: 1s}";
    let limits = parse(text, None).unwrap();
    let hints: Vec<_> = limits.hints().iter().map(ToString::to_string).collect();
    assert_eq!(
        hints,
        [
            "limits.yaml:2: `NewOrderPerAccount` is a name of your own; did you mean `NewOrdersPerAccount`?"
        ]
    );
}

fn hints(defaults: &str, overrides: &str) -> Vec<String> {
    let limits = parse(defaults, Some(overrides)).unwrap_or_else(|faults| panic!("{faults}"));
    limits.hints().iter().map(ToString::to_string).collect()
}

const FILLER_OVERRIDE: &str = "X:1: {burst: 1, count: 1, period: 1s}";
const FILLER: &str = "X: {burst: 1, count: 1, period: 1s}\n";

#[test]
fn known_names_say_that_they_bring_the_format_of_their_ids() {
    let plain = "NewOrdersPerAccount: {burst: 1, count: 1, period: 1s}\n\
                 NewRegistrationsPerIPAddress: {burst: 1, count: 1, period: 1s}\n";
    let told = hints(&format!("{FILLER}{plain}"), FILLER_OVERRIDE);
    let [told] = &told[..] else { panic!("one for both: {told:?}") };
    assert!(
        told.starts_with(
            "limits.yaml:2: known names bring the format of their ids along: \
        `NewOrdersPerAccount` (regId), `NewRegistrationsPerIPAddress` (ipAddress);"
        ),
        "{told}"
    );
    // Who writes the format or the number knows.
    for known in ["id: regId", "number: 6"] {
        let text = format!("NewOrdersPerAccount: {{burst: 1, count: 1, period: 1s, {known}}}");
        assert_eq!(
            hints(&text, "NewOrdersPerAccount:1: {burst: 1, count: 1, period: 1s}"),
            [""; 0]
        );
    }
}

#[test]
fn an_override_for_a_network_where_ids_are_any_text_is_hinted_at() {
    for id in ["10.0.0.0/8", "2001:db8::/32"] {
        let told = hints(FILLER, &format!("X:{id}: {{burst: 9, count: 9, period: 1s}}"));
        let [told] = &told[..] else { panic!("{told:?}") };
        let beginning = format!("overrides.yaml:1: `{id}` is not read as a network:");
        assert!(told.starts_with(&beginning), "{told}");
    }
    for id in ["10.0.0.1", "a/b", "10.0.0.0/8/9"] {
        assert_eq!(hints(FILLER, &format!("X:{id}: {{burst: 9, count: 9, period: 1s}}")), [""; 0]);
    }
}

#[test]
fn hints_have_a_bound() {
    let line = |at: u32| {
        format!("X:10.0.{}.{}/32: {{burst: 9, count: 9, period: 1s}}\n", at / 256, at % 256)
    };
    let overrides: String = (0..2 * 256).map(line).collect();
    assert_eq!(hints(FILLER, &overrides).len(), ratekeeper::limits::HINTS_MAX);
}

#[test]
fn the_period_is_kept_as_written() {
    let limits = parse("A: {burst: 4, count: 2, period: 2s}", None).unwrap();
    let limit = limits.named("A").unwrap().default().unwrap().limit;
    assert_eq!((limit.burst(), limit.count(), limit.period()), (4, 2, Nanos::from_secs(2)));
    assert_eq!(limit.rule().emission_interval(), (1_000_000_000, 1));
}

fn told(old: (&str, &str), new: (&str, &str)) -> Vec<String> {
    changes(&load(old.0, old.1), &load(new.0, new.1)).iter().map(ToString::to_string).collect()
}

#[test]
fn changes_are_told_by_what_they_do() {
    let one = "NewOrdersPerAccount:1: {burst: 9, count: 9, period: 1h}\n";
    let (a, b) = ("A: {burst: 1, count: 1, period: 1s}\n", "A: {burst: 2, count: 2, period: 1s}\n");
    assert_eq!(told((a, one), (a, one)), [""; 0]);
    assert_eq!(told((a, one), (b, one)), ["A: 1 per 1s becomes 2 per 1s"]);
    let both = format!("{a}B: {{burst: 3, count: 3, period: 1m}}\n");
    assert_eq!(told((a, one), (&both, one)), ["B: new, 3 per 1m"]);
    assert_eq!(
        told((&both, one), (a, one)),
        ["B: removed (was 3 per 1m); asks for it become errors"]
    );
    let numbered = "A: {burst: 1, count: 1, period: 1s, number: 12}\n";
    assert_eq!(
        told((a, one), (numbered, one)),
        ["A: bucket number none becomes 12: everything spent is forgotten"]
    );
    let formatted = "A: {burst: 1, count: 1, period: 1s, id: regId}\n";
    assert_eq!(
        told((a, one), (formatted, one)),
        ["A: ids any become regId: what was spent may be forgotten"]
    );
}

#[test]
fn changes_of_overrides_are_told_by_what_applied_before() {
    let defaults = "NewOrdersPerAccount: {burst: 300, count: 300, period: 3h}\n";
    let over = |id: u32, count: u32| {
        format!("NewOrdersPerAccount:{id}: {{burst: {count}, count: {count}, period: 180m}}\n")
    };
    let (none, some) = (over(1, 5), over(1, 5) + &over(12_345_678, 600));
    assert_eq!(
        told((defaults, &none), (defaults, &some)),
        ["NewOrdersPerAccount:12345678: override added, 300 per 3h becomes 600 per 3h"]
    );
    assert_eq!(
        told((defaults, &some), (defaults, &none)),
        ["NewOrdersPerAccount:12345678: override removed, 600 per 3h becomes 300 per 3h"]
    );
    assert_eq!(
        told((defaults, &none), (defaults, &over(1, 6))),
        ["NewOrdersPerAccount:1: 5 per 3h becomes 6 per 3h"]
    );
    // An override that says what the default says changes nothing for anybody.
    assert_eq!(told((defaults, &none), (defaults, &(none.clone() + &over(2, 300)))), [""; 0]);
    let mine = "Mine: {burst: 1, count: 1, period: 1s}\n";
    assert_eq!(
        told((defaults, &none), (&format!("{mine}{defaults}"), &none)),
        ["Mine: new, 1 per 1s"]
    );
    assert_eq!(
        told((&format!("{mine}{defaults}"), &none), (mine, &none)),
        [
            "NewOrdersPerAccount: default removed (was 300 per 3h); asks for ids without an override become errors"
        ]
    );
    assert_eq!(
        told((mine, &some), (mine, &none)),
        [
            "NewOrdersPerAccount:12345678: override removed (was 600 per 3h); asks for it become errors"
        ]
    );
}

#[test]
fn a_change_of_spelling_is_no_change() {
    let old = "A: {burst: 2, count: 2, period: 2m}\nNewOrdersPerAccount: {burst: 1, count: 1, period: 1h}";
    let new = "NewOrdersPerAccount: {period: 60m, burst: 1, count: 1}\nA: {burst: 2, count: 1, period: 60s}";
    let (one, two) = (
        "NewOrdersPerAccount:007: {burst: 9, count: 9, period: 1h}",
        "- NewOrdersPerAccount: {burst: 9, count: 9, period: 1h, ids: [{id: 7}]}",
    );
    assert_eq!(told((old, one), (new, two)), [""; 0]);
}

#[test]
fn a_change_is_one_line_whatever_the_id() {
    let mine = "Mine: {burst: 1, count: 1, period: 1s}\n";
    let one = "Mine:1: {burst: 2, count: 2, period: 1s}\n";
    let two = format!("{one}\"Mine:a\\nb\": {{burst: 2, count: 2, period: 1s}}\n");
    assert_eq!(
        told((mine, one), (mine, &two)),
        ["Mine:a\\nb: override added, 1 per 1s becomes 2 per 1s"]
    );
}

#[test]
fn anchors_and_tags_are_told_where_they_stand() {
    let limit = "{burst: 1, count: 1, period: 1s}";
    let block = "\n\n  # a & b! c\n  burst: 1\n  count: 1\n  period: 1s\n";
    for (text, place) in [
        (format!("A: &x {limit}\n"), "1:4: an anchor"),
        (format!("&x A: {limit}\n"), "1:1: an anchor"),
        (format!("B: {limit}\nA: &x  # why?{block}"), "2:4: an anchor"),
        (format!("A: !!map{block}"), "1:4: a tag"),
        (format!("A: !map {limit}\n"), "1:4: a tag"),
        (format!("A: !e!map {limit}\n"), "1:4: "),
        ("A: {burst: [&b 1], count: 1, period: 1s}".into(), "1:13: an anchor"),
        ("Ä: &x\nB: 1".into(), "1:4: an anchor"),
    ] {
        let faults = parse(&text, None).unwrap_err();
        assert!(faults.contains(&format!("limits.yaml:{place}")), "{text}{faults}");
    }
    let faults = parse(&format!("A: !!map {limit}\n"), None).unwrap_err();
    assert!(faults.contains("\n  |    ^^^^^ remove"), "{faults}");
}
