//! Buckets files: what they may say, and what is said of those that are broken.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Write as _;

use ratekeeper::limits::{
    BUCKET_NAME_BYTES_MAX, FAULTS_MAX, FILE_BYTES_MAX, Limits, NAMES_MAX, Source, changes,
};
use ratekeeper::{Limiter, Moment, Nanos};

const LIMITS: Source<'_> =
    Source { name: "limits.yaml", text: "\nMine: {burst: 2, count: 2, period: 1s}\n" };

fn read(text: &str) -> Result<Limits, String> {
    let limits = Limits::parse(&LIMITS, None).unwrap();
    limits.with_buckets(&Source { name: "b", text }).map_err(|faults| {
        let told = faults.iter().fold(String::new(), |mut told, fault| {
            let ratekeeper::limits::Fault { file, line, column, message, help, .. } = fault;
            writeln!(told, "{file} {line}:{column} {message}; {help}").unwrap();
            told
        });
        told.trim_end().to_owned()
    })
}

fn terms(limits: &Limits, name: &str) -> String {
    limits.named(name).unwrap().default().unwrap().limit.to_string()
}

#[test]
fn a_rate_is_exact_however_it_is_written() {
    let rates = [
        ("1", "1 per 1s"),
        ("1.0", "1 per 1s"),
        ("1e2", "100 per 1s"),
        ("1E+2", "100 per 1s"),
        ("+5", "5 per 1s"),
        ("100.000", "100 per 1s"),
        ("0001", "1 per 1s"),
        ("0.5", "1 per 2s"),
        ("5e-1", "1 per 2s"),
        ("2.5", "5 per 2s, burst 3"),
        ("0.1", "1 per 10s"),
        ("0.333", "333 per 16m40s, burst 1"),
        ("1e-3", "1 per 16m40s"),
        ("1000000000", "1000000000 per 1s"),
        ("1e9", "1000000000 per 1s"),
        ("999999999.5", "1999999999 per 2s, burst 1000000000"),
        ("10e8", "1000000000 per 1s"),
        ("1e-9", "1 per 11574d1h46m40s"),
        ("1000000000000e-12", "1 per 1s"),
        ("2 10", "2 per 1s, burst 10"),
        ("0.5 4294967296", "1 per 2s, burst 4294967296"),
    ];
    for (rate, expected) in rates {
        let limits = read(&format!("b {rate}\n")).unwrap();
        assert_eq!(terms(&limits, "b"), expected, "{rate}");
    }
}

#[test]
fn a_bucket_may_be_called_anything_without_a_blank() {
    let text = "6 1\n# 5\n#x 2\na:b 3\n\u{420}\u{43e} 4\nget 6\n* 7 8\n## 9\n";
    let limits = read(text).unwrap();
    for name in ["6", "#", "#x", "a:b", "\u{420}\u{43e}", "get", "*", "##"] {
        assert!(limits.named(name).unwrap().is_bucket(), "{name}");
    }
    assert_eq!(limits.iter().count(), 9, "and the limit");
    assert!(!limits.named("Mine").unwrap().is_bucket());
}

#[test]
fn lines_end_as_they_like_and_may_say_nothing() {
    let plain = read("a 1\nb 100").unwrap();
    for text in [
        "a 1\r\nb 100\r\n",
        "\u{feff}a 1\nb 100\n",
        "# buckets\n#\n\n  \t\na\t 1\n  # more\nb 100  \n# 5 of them\n# see 12\n\n",
        "\ta 1\rb\u{a0}100",
    ] {
        let limits = read(text).unwrap();
        assert_eq!(limits.iter().count(), 3, "{text:?}");
        assert!(changes(&plain, &limits).is_empty(), "{text:?}");
    }
    assert_eq!(plain.named("b").unwrap().default().unwrap().origin.to_string(), "b:2");
}

const RATE: &str = "expected tokens per second, such as 1, 2.5 or 1e2";
const FINE: &str = "it has too many decimals, or takes longer than a century: use a coarser rate";
const BOUNDS: &str =
    "expected tokens per second, such as 1, 2.5 or 1e2, above 0 and at most 1000000000";
const EMPTY: &str = "there is no bucket in the file; \
                     expected lines such as `bucketa 1`: a name, and tokens per second";

/// What is said of the rate of `X` in the first line.
fn rate(value: &str, help: &str) -> String {
    format!("b 1:3 Invalid rate for bucket X: {value}; {help}")
}

#[test]
fn a_rate_that_is_none_is_told_in_the_words_of_the_original() {
    let cases = [
        ("X 0", rate("0.0", BOUNDS)),
        ("X 0.0", rate("0.0", BOUNDS)),
        ("X -0", rate("-0.0", BOUNDS)),
        ("X 0e99999999999", rate("0.0", BOUNDS)),
        ("X -5", rate("-5.0", BOUNDS)),
        ("X -0.05", rate("-5.0e-2", BOUNDS)),
        ("X 1000000001", rate("1.000000001e9", BOUNDS)),
        ("X 1000000000.5", rate("1.0000000005e9", BOUNDS)),
        ("X 2e9", rate("2.0e9", BOUNDS)),
        ("X 1e400", rate("Infinity", BOUNDS)),
        ("X 99999999999999999999", rate("1.0e20", BOUNDS)),
        ("X 1e-400", rate("0.0", BOUNDS)),
        ("X 1e-20", rate("1e-20", FINE)),
        ("X 0.1234567890123456789012", rate("0.1234567890123456789012", FINE)),
        ("X 1e-12", rate("1e-12", FINE)),
        ("X abc", rate("abc", RATE)),
        ("X .5", rate(".5", RATE)),
        ("X 5.", rate("5.", RATE)),
        ("X 1e", rate("1e", RATE)),
        ("X 0x10", rate("0x10", RATE)),
        ("X NaN", rate("NaN", RATE)),
        ("X inf", rate("inf", RATE)),
        ("X ++5", rate("++5", RATE)),
        ("X 1_000", rate("1_000", RATE)),
        ("X \u{661}", rate("\u{661}", RATE)),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text).unwrap_err(), expected, "{text:?}");
    }
}

#[test]
fn every_fault_of_a_broken_file_is_told_with_its_place() {
    let burst = |value: &str| {
        format!(
            "b 1:5 Invalid burst for bucket X: {value}; expected a whole number from 1 to 4294967296"
        )
    };
    let cases = [
        ("", format!("b 1:1 {EMPTY}")),
        ("\n\n# 1 a\n", format!("b 1:1 {EMPTY}")),
        ("X 1 0", burst("0")),
        ("X 1 -1", burst("-1")),
        ("X 1 1.5", burst("1.5")),
        ("X 1 4294967297", burst("4294967297")),
        ("X 1 x", burst("x")),
        ("X 1 2 3", "b 1:7 bucket `X` has a fourth column; expected NAME RATE [BURST]".into()),
        ("X 1 2 3 4 5", "b 1:7 bucket `X` has a fourth column; expected NAME RATE [BURST]".into()),
        ("  X\t", format!("b 1:3 bucket `X` has no rate; {RATE}")),
        ("#X", "b 1:1 bucket `#X` has no rate; a comment needs a blank behind its #".into()),
        (
            "#the rate of",
            "b 1:6 Invalid rate for bucket #the: rate; expected tokens per second, such as 1, 2.5 or 1e2\n\
             b 1:11 Invalid burst for bucket #the: of; a comment needs a blank behind its #"
                .into(),
        ),
        ("X 1\r\nX 2", "b 2:1 bucket `X` stands here twice; it is on line 1 already".into()),
        ("Mine 1", "b 1:1 `Mine` is the name of a limit; it is in limits.yaml:2: use another name".into()),
        ("X\u{1} 1", "b 1:1 the character U+0001 cannot stand in a file; remove it".into()),
        (
            "\u{e9} 1\n\u{e9}\u{e9} 0\nY\n\u{e9} 1\n",
            format!(
                "b 2:4 Invalid rate for bucket \u{e9}\u{e9}: 0.0; {BOUNDS}\n\
                 b 3:1 bucket `Y` has no rate; {RATE}\n\
                 b 4:1 bucket `\u{e9}` stands here twice; it is on line 1 already"
            ),
        ),
        (
            "X 0\nX 1\n",
            format!("{}\nb 2:1 bucket `X` stands here twice; it is on line 1 already", rate("0.0", BOUNDS)),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text).unwrap_err(), expected, "{text:?}");
    }
}

#[test]
fn a_fault_shows_its_line() {
    let source = Source { name: "buckets.conf", text: "a 1\rb\t0\n" };
    let faults = Limits::new().with_buckets(&source).unwrap_err().to_string();
    let expected = "buckets.conf:2:3: Invalid rate for bucket b: 0.0
  |
2 | b 0
  |   ^ expected tokens per second, such as 1, 2.5 or 1e2, above 0 and at most 1000000000";
    assert_eq!(faults, expected);
}

#[test]
fn the_bounds_of_a_file_hold() {
    let name = "n".repeat(BUCKET_NAME_BYTES_MAX);
    assert!(read(&format!("{name} 1")).is_ok());
    let told = read(&format!("{name}n 1")).unwrap_err();
    assert!(told.starts_with("b 1:1 the name is longer than 1000 bytes"), "{told}");

    let mut text: String = (1..NAMES_MAX).fold(String::new(), |mut text, n| {
        writeln!(text, "{n} 1").unwrap();
        text
    });
    assert_eq!(read(&text).unwrap().iter().count(), NAMES_MAX);
    text.push_str("more 1\n");
    let told = read(&text).unwrap_err();
    assert!(told.starts_with("b 65536:1 there are more than 65536 limits and buckets"), "{told}");

    let told = read(&" ".repeat(FILE_BYTES_MAX + 1)).unwrap_err();
    assert!(told.starts_with("b 1:1 the file is larger than"), "{told}");

    let told = read(&"x\n".repeat(1000)).unwrap_err();
    assert_eq!(told.lines().count(), FAULTS_MAX);
}

#[test]
fn a_bucket_shares_nothing_with_a_limit() {
    let defaults = Source {
        name: "limits.yaml",
        text: "NewOrdersPerAccount: {burst: 1, count: 1, period: 1h}\nA: {burst: 1, count: 1, period: 1h}\n",
    };
    let limits = Limits::parse(&defaults, None).unwrap();
    let source = Source { name: "b", text: "6 1\nbucket 1\nA:x 1\n" };
    let limiter = Limiter::new(limits.with_buckets(&source).unwrap()).unwrap();
    let now = Moment::EPOCH;
    assert_eq!(limiter.bucket_key("6", "*").unwrap(), "bucket 6:*");
    for (limit, id) in [
        ("6", "1"),
        ("6", "*"),
        ("NewOrdersPerAccount", "1"),
        ("bucket", "*"),
        ("A:x", "*"),
        ("A", "x:*"),
    ] {
        assert!(limiter.spend(limit, id, 1, now).unwrap().allowed, "{limit} {id}");
    }
}

#[test]
fn a_reload_keeps_what_a_bucket_has_given() {
    let read = |text| Limits::new().with_buckets(&Source { name: "b", text }).unwrap();
    let limiter = Limiter::new(read("b 100\n")).unwrap();
    let now = Moment::EPOCH;
    let _ = limiter.spend("b", "*", 60, now).unwrap();
    limiter.reload(read("b 200\n"), now).unwrap();
    assert_eq!(limiter.check("b", "*", 0, now).unwrap().remaining, 140);
    assert!(limiter.asking().contains("b"));
    assert!(!limiter.asking().contains("c"));
}

#[test]
fn a_slow_bucket_gives_one_token_in_its_time_and_none_before() {
    let source = Source { name: "b", text: "slow 0.3" };
    let limiter = Limiter::new(Limits::new().with_buckets(&source).unwrap()).unwrap();
    assert!(limiter.spend("slow", "*", 1, Moment::EPOCH).unwrap().allowed);
    let at = |nanos| Moment::EPOCH.after(Nanos::new(nanos));
    assert!(!limiter.spend("slow", "*", 1, at(3_333_333_333)).unwrap().allowed);
    assert!(limiter.spend("slow", "*", 1, at(3_333_333_334)).unwrap().allowed);
}

#[test]
fn a_limit_that_becomes_a_bucket_is_a_change() {
    let limits = Limits::parse(&LIMITS, None).unwrap();
    let buckets = Limits::new().with_buckets(&Source { name: "b", text: "Mine 2\n" }).unwrap();
    let told: Vec<_> = changes(&limits, &buckets).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["Mine: becomes a bucket: everything spent is forgotten"]);
    let told: Vec<_> = changes(&buckets, &limits).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["Mine: becomes a limit: everything spent is forgotten"]);
}
