use super::codec::{Terms, Verdict, write_stats, write_verdict};
use super::pattern::{Found, GROUPS_MAX, Pattern, Patterns, Template, Wrong};
use super::rules::Rules;
use ratekeeper::Limits;
use ratekeeper::algorithm::Owner;
use ratekeeper::limits::Source;
use ratekeeper_testkit::random::Random;

fn printed(rate: f64) -> String {
    let mut out = Vec::new();
    write_verdict(&Verdict { over: false, rate, limit: 1.0, period_secs: 1 }, &mut out);
    let text = String::from_utf8(out).unwrap();
    text.strip_prefix("ok N ").unwrap().strip_suffix(" 1.0 1").unwrap().to_owned()
}

/// Taken from C's `printf("%.1f")`.
const PRINTED_BY_C: [(f64, &str); 24] = [
    (0.0, "0.0"),
    (0.05, "0.1"),
    (0.049_999_999_999_999_996, "0.0"),
    (0.15, "0.1"),
    (0.25, "0.2"),
    (0.35, "0.3"),
    (0.45, "0.5"),
    (0.55, "0.6"),
    (0.65, "0.7"),
    (0.75, "0.8"),
    (0.85, "0.8"),
    (0.95, "0.9"),
    (1.25, "1.2"),
    (1.75, "1.8"),
    (2.5, "2.5"),
    (9.95, "9.9"),
    (9.96, "10.0"),
    (21.95, "21.9"),
    (99.95, "100.0"),
    (999.75, "999.8"),
    (1e-300, "0.0"),
    (5e-324, "0.0"),
    (123_456_789.25, "123456789.2"),
    (999_999_999_999.95, "999999999999.9"),
];

#[test]
fn tenths_are_rounded_as_c_does() {
    for (number, expected) in PRINTED_BY_C {
        assert_eq!(printed(number), expected, "{number:e}");
    }
}

#[test]
fn tenths_are_rounded_as_the_standard_library_does() {
    let mut random = Random::new(1);
    for _ in 0..500_000 {
        let bits = random.below(1e12_f64.to_bits());
        // Quarters and eighths are often exactly between two tenths.
        let eighths = f64::from(u32::try_from(random.below(1 << 32)).unwrap()) / 8.0;
        for number in [f64::from_bits(bits), eighths, eighths / 1e6] {
            assert_eq!(printed(number), format!("{number:.1}"), "{number:e}");
        }
    }
}

#[test]
fn nothing_but_digits_and_a_point_is_printed() {
    for (number, expected) in [
        (f64::NAN, "0.0"),
        (f64::INFINITY, "1000000000000.0"),
        (f64::NEG_INFINITY, "0.0"),
        (f64::MAX, "1000000000000.0"),
        (-0.0, "0.0"),
        (-1.0, "0.0"),
    ] {
        assert_eq!(printed(number), expected);
    }
    let mut out = Vec::new();
    write_verdict(
        &Verdict { over: true, rate: f64::MAX, limit: f64::MAX, period_secs: u64::MAX },
        &mut out,
    );
    assert_eq!(out, b"ok Y 1000000000000.0 1000000000000.0 2147483647");
    let mut out = Vec::new();
    write_stats(u64::MAX, 0, f64::NAN, b"", &mut out);
    assert_eq!(out, b"n_req=18446744073709551615 n_over=0 last_max_rate=0 key=");
}

fn expand(pattern: &str, template: &str, key: &[u8]) -> Vec<u8> {
    let pattern = Pattern::new(pattern).unwrap();
    let template = Template::new(template, pattern.groups()).unwrap();
    let mut slots = Default::default();
    let mut out = Vec::new();
    template.expand(&pattern.find(key, &mut slots).unwrap(), &mut out);
    out
}

#[test]
fn templates_take_groups() {
    for (pattern, template, key, expected) in [
        ("(a)(b)?", r"<$0|$1|\1|${1}2|$2>", "xa", "<a|a|a|a2|>"),
        ("(?i)(PICARD)", "${1:lower}$1", "PiCard", "picardPiCard"),
        ("x", r"$$1 \\1 plain", "x", r"$1 \1 plain"),
        ("(.)$", "é$1", "é", "é\u{a9}"),
    ] {
        let expected =
            if expected.ends_with('\u{a9}') { b"\xc3\xa9\xa9" } else { expected.as_bytes() };
        assert_eq!(expand(pattern, template, key.as_bytes()), expected, "{template}");
    }
    let mut out = Vec::new();
    Template::new("[$0]", 1).unwrap().expand(&Found::whole(b"key"), &mut out);
    assert_eq!(out, b"[key]");
}

#[test]
fn what_is_wrong_with_a_template_is_told() {
    for (template, at) in
        [("$", 0), ("é$x", 1), ("${1", 0), ("${a}", 0), ("${1:upper}", 0), (r"a\d", 1)]
    {
        let wrong = Template::new(template, 2).unwrap_err();
        assert_eq!(wrong.at, Some(at), "{template}");
        assert_eq!(wrong.what, "no group is meant by this");
    }
    let wrong = Template::new("$2", 2).unwrap_err();
    assert_eq!(wrong, Wrong { at: Some(0), what: "there is no group 2: match has one".into() });
    assert!(Template::new(&"$1-".repeat(40), 2).is_err());
}

fn pick<T: Copy>(some: &[T], random: &mut Random) -> T {
    some.get(random.index(some.len())).copied().unwrap()
}

/// The places of the expressions that match a key, asked one by one.
fn places(alone: &[Pattern], key: &[u8]) -> impl Iterator<Item = usize> {
    let found = alone.iter().enumerate().filter(|(_, pattern)| pattern.is_match(key));
    found.map(|(place, _)| place)
}

#[test]
fn the_table_finds_what_each_expression_finds_alone() {
    const TEXTS: [&str; 12] = [
        "^a",
        "b$",
        "^$",
        "",
        "a*",
        r"\bab\b",
        r"^(\S*) b+$",
        "(?i)A.b",
        r"^\d+\.\d$",
        "a|^b c",
        r"[^a]\d",
        r"(?-u:\xff)",
    ];
    const BYTES: [u8; 8] = [b'a', b'b', b'A', b' ', b'.', b'1', b'\n', 0xff];
    let mut random = Random::new(7);
    let alone: Vec<Pattern> = TEXTS.iter().map(|text| Pattern::new(text).unwrap()).collect();
    let quick = Patterns::new(&TEXTS).unwrap();
    let plain = Patterns::new(&TEXTS).unwrap().without_table();
    let (mut quickly, mut plainly) = (quick.searcher(), plain.searcher());
    for _ in 0..50_000 {
        let length = random.index(12);
        let key: Vec<u8> = (0..length).map(|_| pick(&BYTES, &mut random)).collect();
        let expected: Vec<usize> = places(&alone, &key).collect();
        quick.search(&key, &mut quickly);
        assert!(quickly.found_from(0).eq(expected.iter().copied()), "{key:?}");
        plain.search(&key, &mut plainly);
        assert!(plainly.found_from(0).eq(expected.iter().copied()), "{key:?}");
        let start = random.index(TEXTS.len());
        let behind = expected.iter().copied().filter(|place| *place >= start);
        assert!(quickly.found_from(start).eq(behind), "{key:?} from {start}");
    }
}

#[test]
fn expressions_that_fill_the_table_again_and_again_are_still_found() {
    // After each `a` it matters for 12 bytes what comes: thousands of states for random keys.
    let texts: Vec<String> =
        (0..70).map(|at| format!("a[ab]{{{}}}c{{{}}}b$", 12, at + 1)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (alone, together) =
        (texts.iter().map(|text| Pattern::new(text).unwrap()), Patterns::new(&texts).unwrap());
    let alone: Vec<Pattern> = alone.collect();
    let mut searcher = together.searcher();
    let mut random = Random::new(8);
    for _ in 0..2_000 {
        let mut key: Vec<u8> = (0..40).map(|_| b'a' + u8::from(random.index(2) == 1)).collect();
        key.extend(std::iter::repeat_n(b'c', random.index(72)));
        key.push(b'b');
        together.search(&key, &mut searcher);
        let expected = places(&alone, &key);
        assert!(searcher.found_from(0).eq(expected), "{}", key.escape_ascii());
    }
}

#[test]
fn verdicts_of_rules_in_turn_are_written_as_each_alone() {
    const NUMBERS: [f64; 9] =
        [0.0, 0.05, 9.95, 22.0, 99_999_999.94, 99_999_999.95, 1e9, 1e12, f64::NAN];
    let mut random = Random::new(9);
    let mut terms = Terms::default();
    for _ in 0..50_000 {
        let verdict = Verdict {
            over: random.index(2) == 1,
            rate: pick(&NUMBERS, &mut random),
            limit: pick(&NUMBERS, &mut random),
            period_secs: pick(&[0, 20, u64::MAX], &mut random),
        };
        let (mut out, mut alone) = (b"1 ".to_vec(), b"1 ".to_vec());
        terms.write(&verdict, &mut out);
        write_verdict(&verdict, &mut alone);
        assert_eq!(out.escape_ascii().to_string(), alone.escape_ascii().to_string());
    }
}

#[test]
fn patterns_are_bounded() {
    let wrong = Pattern::new(&"()".repeat(GROUPS_MAX)).unwrap_err();
    assert_eq!(wrong.what, "has more than 15 groups");
    assert!(Pattern::new(&"()".repeat(GROUPS_MAX - 1)).is_ok());
    let wrong = Pattern::new("(?:a{1000}){1000}").unwrap_err();
    assert_eq!(wrong.what, "takes more than 1048576 bytes when it is compiled");
    let large = "a{9000}";
    assert!(Pattern::new(large).is_ok());
    assert!(Patterns::new(&[large; 200]).is_err());
}

#[test]
fn owners_of_averages_are_called_by_their_rules() {
    let text = "\
count: [{match: ^c, key: counted}]
rules:
- {match: ^fixed, over_limit: true}
- {match: ^a, limit: 1, period: 1}
- {match: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, limit: 1, period: 1}
";
    let rules = Rules::parse(&Source { name: "rules.yaml", text }, &Limits::new()).unwrap();
    let long = format!("rule 3, {}…", "x".repeat(64));
    let names = |rules: &Rules| -> Vec<_> {
        let name = |number| Some((number, rules.owner_name(Owner::new(number))?.to_owned()));
        (0..1 << 16).filter_map(name).collect()
    };
    let mut called: Vec<_> = names(&rules).into_iter().map(|(_, name)| name).collect();
    called.sort();
    assert_eq!(called, ["count 1, ^c", "default", "rule 2, ^a", &long]);
    // Their numbers do not depend on what else is in the file.
    let text = "rules: [{match: ^b, limit: 1, period: 1}, {match: ^a, limit: 2, period: 1}]";
    let other = Rules::parse(&Source { name: "rules.yaml", text }, &Limits::new()).unwrap();
    let number = |rules: &Rules, name: &str| {
        names(rules).into_iter().find(|(_, it)| it == name).map(|(number, _)| number)
    };
    assert_eq!(number(&rules, "rule 2, ^a"), number(&other, "rule 2, ^a"));
}

#[test]
fn rules_with_the_same_expression_have_owners_of_their_own() {
    let text = "rules: [{match: ^a, limit: 1, period: 1}, {match: ^a, limit: 2, period: 1}]";
    let rules = Rules::parse(&Source { name: "rules.yaml", text }, &Limits::new()).unwrap();
    let known = (0..1 << 16).filter(|&number| rules.owner_name(Owner::new(number)).is_some());
    assert_eq!(known.count(), 3);
}
