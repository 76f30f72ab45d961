//! `ratekeeper replay udp|bucket|throttr`: how rows are read and written.

use std::fs;

use crate::program::{Ran, command, file, run, run_with};

const RULES: &str = "rules: [{match: '.*', limit: 22, period: 20, strict: true}]";

fn replay_udp(name: &str, input: &[u8]) -> Ran {
    let rules = file(&format!("rows-{name}.yaml"), RULES);
    run_with(&["replay", "udp", "--rules", &rules], input)
}

/// What is written for rows that are not text.
fn replay_bytes(input: &[u8]) -> Vec<u8> {
    let path = file("rows-bytes.tsv", "");
    fs::write(&path, input).unwrap();
    let rules = file("rows-bytes.yaml", RULES);
    let stdin = fs::File::open(&path).unwrap();
    command(&["replay", "udp", "--rules", &rules]).stdin(stdin).output().unwrap().stdout
}

fn replay_throttr(input: &str) -> Ran {
    run_with(&["replay", "throttr"], input.as_bytes())
}

#[test]
fn rows_are_copied_and_answered() {
    let input = b"# a comment\tas it is\n5\tping\n#\n4.5\tpi\\x6eg\n4\tpong\n4\t\n3\tping";
    let expected = "# a comment\tas it is\n5\tping\tpong\n#\n4.5\tpi\\x6eg\tpong\n\
                    4\tpong\t(none)\n4\t\t(none)\n3\tping\tpong\n";
    let ran = replay_udp("copied", input);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""));
    let ran = replay_udp("empty", b"");
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), "", ""));
}

#[test]
fn escapes_are_read_as_c_does_and_written_in_one_way() {
    // Each key, and how the answer writes it.
    let cases: [(&[u8], &str); 12] = [
        (br"a\\b", r"a\\b"),
        (br"\r\t", r"\r\t"),
        (br"\a\b\f\v\e", r"\x07\x08\x0c\x0b\x1b"),
        (br#"\'\"\?"#, r#"'"?"#),
        (br"\0", r"\x00"),
        (br"\101\1012\7", r"AA2\x07"),
        (br"\377", r"\xff"),
        (br"\x41\x4a\x4A1", "AJJ1"),
        (br"\xa0b", r"\xa0b"),
        (br"\x7g", r"\x07g"),
        (b"\xc3\xa9 \xff", r"\xc3\xa9 \xff"),
        (br"~ \x7f\x20", r"~ \x7f "),
    ];
    for (written, expected) in cases {
        let input = [b"0\tget_stats ", written].concat();
        let ran = replay_bytes(&input);
        let answer = ran.rsplit(|byte| *byte == b'\t').next().unwrap();
        let expected = format!("n_req=0 n_over=0 last_max_rate=0 key={expected}\n");
        assert_eq!(String::from_utf8_lossy(answer), expected, "{}", written.escape_ascii());
    }
}

#[test]
fn a_row_that_is_none_ends_the_replay_where_it_stands() {
    let time = "is not a time: expected seconds since 1970 as a decimal number";
    let cases: [(&str, &str); 22] = [
        ("", "it has no tab"),
        ("5 ping", "it has no tab"),
        ("\tping", time),
        ("5\tping\tpong", "it has a second tab"),
        ("5\tping\r", "it ends in a carriage return"),
        ("x\tping", time),
        (" 5\tping", time),
        ("+5\tping", time),
        (".5\tping", time),
        ("5.\tping", time),
        ("1e\tping", time),
        ("1e5.0\tping", time),
        ("0x5\tping", time),
        ("nan\tping", time),
        ("-5\tping", "`-5` is not a time: time begins in 1970"),
        ("9223372036.8547758075\tping", "time ends in the year 2262"),
        ("1e300\tping", "time ends in the year 2262"),
        ("5\t\\q", r"column 3: \q is no escape"),
        ("5\tab\\", "column 5: the backslash is the last of the line"),
        ("5\t\\x", r"column 3: \x needs one or two hexadecimal digits"),
        ("5\t\\400", r"column 3: \400 is more than a byte holds"),
        ("5\t\\8", r"\8 is no escape"),
    ];
    for (row, expected) in cases {
        let ran = replay_udp("bad", format!("# one\n1\tping\n{row}\n2\tping\n").as_bytes());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), "# one\n1\tping\tpong\n"), "{row:?}");
        assert!(ran.stderr.starts_with("error: line 3 of standard input: "), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{row:?}: {}", ran.stderr);
    }
}

#[test]
fn a_row_longer_than_any_may_be_is_refused() {
    let mut input = b"1\tping\n2\t".to_vec();
    input.resize(2 << 20, b'x');
    let ran = replay_udp("long", &input);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), "1\tping\tpong\n"));
    assert!(ran.stderr.contains("line 2 of standard input: it is longer than 1048576 bytes"));
}

#[test]
fn hexadecimal_is_pairs_of_digits() {
    for (row, expected) in [
        ("0\tff0", "found 3 digits in all"),
        ("0\tfg", "column 4: expected a hexadecimal digit, found `g`"),
        ("0\t0x00", "column 4: expected a hexadecimal digit, found `x`"),
        ("0\tff\r", "it ends in a carriage return"),
    ] {
        let ran = replay_throttr(row);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{row:?}");
        assert!(ran.stderr.contains(expected), "{row:?}: {}", ran.stderr);
    }
    assert_eq!(replay_throttr("0\tFf\n").stdout, "0\tFf\t00\n");
}

/// How many nanoseconds of a lifetime of 2^40 that began at 0 have passed at a time.
fn passed_at(time: &str) -> u64 {
    let insert = "0100000000000000000000000000000000000000000000010000020263317231";
    let ran = replay_throttr(&format!("0\t{insert}\n{time}\t02020263317231\n"));
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    let answer = ran.stdout.trim_end().rsplit('\t').next().unwrap();
    let left = u64::from_str_radix(&answer[20..], 16).unwrap().swap_bytes();
    // The one that is running is not told.
    (1 << 40) - 1 - left
}

#[test]
fn times_are_exact_to_the_nanosecond() {
    for (time, nanos) in [
        ("0", 0),
        ("0.000000001", 1),
        ("0.00000000149999999999999999999999", 1),
        ("0.0000000015", 2),
        ("1e-9", 1),
        ("4.9e-10", 0),
        ("5e-10", 1),
        ("1e-400", 0),
        ("1.0000000000000001e-05", 10_000),
        ("12.345678901", 12_345_678_901),
        ("1.2345678901E+1", 12_345_678_901),
        ("0000012.3456789010000", 12_345_678_901),
        ("1099.511627676", 1_099_511_627_676),
    ] {
        assert_eq!(passed_at(time), nanos, "{time}");
    }
}

#[test]
fn files_are_asked_for_and_checked() {
    for args in [
        &["replay", "udp"][..],
        &["replay", "bucket"],
        &["replay", "throttr", "--named-limits"],
        &["replay", "throttr", "--overrides", "o.yaml"],
    ] {
        let ran = run(args);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
        assert!(ran.stderr.contains("Usage:"), "{args:?}: {}", ran.stderr);
    }
    let ran = run(&["replay", "udp", "--rules", "no-such-file"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: reading the rules from no-such-file: "));
    let ran = run(&["replay", "bucket", "--buckets", &file("rows-bad.conf", "a 0.0\n")]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("rows-bad.conf:1:3: Invalid rate for bucket a: 0.0"));
}
