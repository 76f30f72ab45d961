//! `ratekeeper check`.

use serde_json::json;

use crate::program::{file, run, run_with};

const LIMITS: &str = "examples/limits.yaml";
const OVERRIDES: &str = "examples/overrides.yaml";

#[test]
fn good_files_are_summed_up() {
    let ran = run(&["check", "--limits", LIMITS, "--overrides", OVERRIDES]);
    let expected = "\
5 limits, 4 overrides
NewOrdersPerAccount                6  regId         300 per 3h            1 override
NewRegistrationsPerIPAddress       4  ipAddress     20 per 1s             1 override
CertificatesPerDomainPerAccount    8  regId:domain  50 per 7d             1 override
SearchesPerIPAddress             100  ipAddress     3 per 1s, burst 10    1 override
LoginsPerUser                      -  any           1 per 1m30s, burst 5
";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""));
}

#[test]
fn one_is_not_plural_and_a_name_may_have_overrides_only() {
    let limits = file("check-one.yaml", "A: {burst: 1, count: 1, period: 1s}");
    let overrides =
        file("check-one-o.yaml", "NewOrdersPerAccount:1: {burst: 1, count: 1, period: 1s}");
    let ran = run(&["check", "--limits", &limits]);
    assert_eq!(ran.stdout, "1 limit, 0 overrides\nA  -  any  1 per 1s\n");
    let ran = run(&["check", "--limits", &limits, "--overrides", &overrides]);
    let expected = "\
2 limits, 1 override
A                    -  any    1 per 1s
NewOrdersPerAccount  6  regId  no default  1 override
";
    assert_eq!(ran.stdout, expected);
}

#[test]
fn a_limit_in_shadow_is_told_so() {
    let text = "A: {burst: 1, count: 1, period: 1s, shadow: true}\n\
                B: {burst: 1, count: 1, period: 1s, shadow: false}\n";
    let limits = file("check-shadow.yaml", text);
    let overrides = file("check-shadow-o.yaml", "A:x: {burst: 2, count: 2, period: 1s}");
    let ran = run(&["check", "--limits", &limits, "--overrides", &overrides]);
    let expected = "\
2 limits, 1 override
A  -  any  1 per 1s  1 override, in shadow
B  -  any  1 per 1s
";
    assert_eq!(ran.stdout, expected);
    let ran = run(&["check", "--limits", &limits, "--format", "json"]);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told["limits"][0]["shadow"], json!(true));
    assert_eq!(told["limits"][1]["shadow"], json!(false));
    let old = file("check-shadow-old.yaml", &text.replace("true", "false"));
    let ran = run(&["check", "--limits", &limits, "--against", &old]);
    assert_eq!(ran.stdout, "A: becomes a shadow: nobody is denied by it\n");
}

#[test]
fn shares_of_memory_are_told_where_a_file_says_them() {
    let text = "A: {burst: 1, count: 1, period: 1s, share: 2.5}\n\
                B: {burst: 1, count: 1, period: 1s, share: 1, on_full: deny}\n\
                C: {burst: 1, count: 1, period: 1s, on_full: forget}\n";
    let limits = file("check-share.yaml", text);
    let ran = run(&["check", "--limits", &limits]);
    let expected = "\
3 limits, 0 overrides
A  -  any  1 per 1s  share 2.5
B  -  any  1 per 1s
C  -  any  1 per 1s  on_full: forget
shares: the limits that hold ids divide a full memory, by share (1 if not said); what one does not need goes to the others
";
    assert_eq!((ran.code, &*ran.stdout), (Some(0), expected));
    let ran = run(&["check", "--limits", &limits, "--format", "json"]);
    let told = ran.json().remove(0);
    let of = |limit: usize| {
        (told["limits"][limit]["share"].clone(), told["limits"][limit]["on_full"].clone())
    };
    assert_eq!(
        [of(0), of(1), of(2)],
        [(2.5, "deny"), (1.0, "deny"), (1.0, "forget")]
            .map(|(share, on_full)| (json!(share), json!(on_full)))
    );
}

#[test]
fn hints_are_words_not_data() {
    let limits = file("check-hint.yaml", "NewOrderPerAccount: {burst: 1, count: 1, period: 1s}");
    let ran = run(&["check", "--limits", &limits]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.starts_with(&format!("note: {limits}:1: ")), "{}", ran.stderr);
    assert!(ran.stderr.contains("NewOrdersPerAccount"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("note"), "{}", ran.stdout);
}

#[test]
fn every_fault_of_both_files_is_told() {
    let limits = file("check-bad.yaml", "A: {burst: 0, count: 1, period: 5}\n");
    let overrides = file("check-bad-o.yaml", "B:x: {burst: 1, count: 1, period: 1s}\n");
    let ran = run(&["check", "--limits", &limits, "--overrides", &overrides]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    for place in [format!("{limits}:1:12: "), format!("{limits}:1:33: "), format!("{overrides}:1:")]
    {
        assert!(ran.stderr.contains(&place), "{place} in {}", ran.stderr);
    }
    assert!(ran.stderr.ends_with("error: 3 faults: mend the files and try again\n"));
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_cause() {
    let ran = run(&["check", "--limits", "no/such.yaml"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.starts_with("error: reading the limits from no/such.yaml: No such file"));
    let ran = run(&["check", "--limits", LIMITS, "--overrides", "no/such.yaml"]);
    assert!(ran.stderr.starts_with("error: reading the overrides from no/such.yaml: No such file"));
    let ran = run(&["check", "--limits", LIMITS, "--against", "no/such.yaml"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: reading the old limits from no/such.yaml: "));
}

#[test]
fn a_file_that_is_not_text_is_refused() {
    let path = file("check-latin1.yaml", "");
    std::fs::write(&path, b"# caf\xe9\nA: {burst: 1, count: 1, period: 1s}").unwrap();
    let ran = run(&["check", "--limits", &path]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("check-latin1.yaml:1:6: byte 5 is not UTF-8"), "{}", ran.stderr);
    // What is no text is not shown: it may be a secret.
    assert!(ran.stderr.contains("1 | (not shown)"), "{}", ran.stderr);
    let ran = run(&["check", "--limits", &path, "--format", "json"]);
    assert_eq!(ran.code, Some(2));
    let faults = ran.json().remove(0)["faults"].clone();
    assert_eq!((&faults[0]["line"], &faults[0]["column"]), (&1.into(), &6.into()), "{faults}");
}

#[test]
fn what_would_change_is_told_in_effect() {
    let old = file("against-old.yaml", "NewOrdersPerAccount: {burst: 300, count: 300, period: 3h}");
    let new = file(
        "against-new.yaml",
        "NewOrdersPerAccount: {burst: 600, count: 600, period: 3h, id: regId}",
    );
    let ran = run(&["check", "--limits", &new, "--against", &old]);
    let expected = "NewOrdersPerAccount: 300 per 3h becomes 600 per 3h\n";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""));

    let over = file("against-o.yaml", "NewOrdersPerAccount:1: {burst: 9, count: 9, period: 1s}");
    let ran = run(&["check", "--limits", &old, "--against", &old, "--against-overrides", &over]);
    assert_eq!(
        ran.stdout,
        "NewOrdersPerAccount:1: override removed, 9 per 1s becomes 300 per 3h\n"
    );
}

#[test]
fn overrides_that_are_given_once_do_not_change() {
    let limits = |name, burst| file(name, &format!("A: {{burst: {burst}, count: 1, period: 1s}}"));
    let (old, new) = (limits("once-old.yaml", 2), limits("once-new.yaml", 3));
    let over = file("once-o.yaml", "A:x: {burst: 9, count: 9, period: 1s}");
    let less = file("once-less.yaml", "A:x: {burst: 8, count: 8, period: 1s}");
    let changes = |args: &[&str]| {
        let ran = run(&[&["check", "--limits", &new, "--against", &old], args].concat());
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{args:?}");
        ran.stdout
    };
    let default = "A: 1 per 1s, burst 2 becomes 1 per 1s, burst 3\n";
    assert_eq!(changes(&["--overrides", &over]), default);
    assert_eq!(changes(&["--overrides", &over, "--against-overrides", &over]), default);
    let told = changes(&["--overrides", &over, "--against-overrides", &less]);
    assert_eq!(told, format!("{default}A:x: 8 per 1s becomes 9 per 1s\n"));
}

#[cfg(unix)]
#[test]
fn overrides_that_are_given_once_are_read_once() {
    let limits = file("pipe.yaml", "A: {burst: 2, count: 1, period: 1s}");
    let args = ["check", "--limits", &limits, "--overrides", "/dev/stdin", "--against", &limits];
    let ran = run_with(&args, b"A:x: {burst: 9, count: 9, period: 1s}");
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), "no change in effect\n", ""));
}

#[test]
fn overrides_of_a_name_that_is_new_are_new() {
    let old = file("new-name-old.yaml", "A: {burst: 1, count: 1, period: 1s}");
    let both = "A: {burst: 1, count: 1, period: 1s}\nB: {burst: 1, count: 1, period: 1s}\n";
    let new = file("new-name.yaml", both);
    let over = file("new-name-o.yaml", "B:x: {burst: 9, count: 9, period: 1s}");
    let ran = run(&["check", "--limits", &new, "--overrides", &over, "--against", &old]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("B: new, 1 per 1s\n"), "{}", ran.stdout);
}

#[test]
fn another_spelling_is_no_change() {
    let old = file("same-old.yaml", "NewOrdersPerAccount: {burst: 300, count: 300, period: 3h}");
    let new =
        file("same-new.yaml", "NewOrdersPerAccount:\n  period: 180m\n  count: 300\n  burst: 300\n");
    let ran = run(&["check", "--limits", &new, "--against", &old]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "no change in effect\n"));
}

#[test]
fn faults_of_the_old_file_are_told_as_such() {
    let old = file("faulty-old.yaml", "A: {burst: 0, count: 1, period: 1s}");
    let ran = run(&["check", "--limits", LIMITS, "--against", &old]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("error: 1 fault in the old limits (--against)"), "{}", ran.stderr);
    let ran = run(&["check", "--limits", LIMITS, "--against", &old, "--format", "json"]);
    assert_eq!((ran.code, &ran.json()[0]["old"]), (Some(2), &json!(true)));
}

#[test]
fn programs_read_the_summary_and_the_changes() {
    let old = file("json-old.yaml", "A: {burst: 2, count: 1, period: 1s}");
    let new = file("json-new.yaml", "A: {burst: 3, count: 1, period: 1s, number: 70}");
    let ran = run(&["check", "--limits", &new, "--format", "json"]);
    let limit = json!({
        "name": "A", "number": 70, "id_format": "any", "terms": "1 per 1s, burst 3",
        "burst": 3, "count": 1, "period": 1, "period_ns": 1_000_000_000, "shadow": false,
        "is_bucket": false, "share": 1.0, "on_full": "deny", "overrides": 0, "origin": {"file": new, "line": 1},
    });
    let mut expected = json!({"limits": [limit], "overrides": 0, "hints": []});
    assert_eq!((ran.code, ran.json()), (Some(0), vec![expected.clone()]));

    let ran = run(&["check", "--limits", &new, "--against", &old, "--format", "json"]);
    let number = "bucket number none becomes 70: everything spent is forgotten";
    let terms = "1 per 1s, burst 2 becomes 1 per 1s, burst 3";
    expected["changes"] = json!([
        {"limit": "A", "id": null, "change": number},
        {"limit": "A", "id": null, "change": terms},
    ]);
    assert_eq!((ran.code, ran.json()), (Some(0), vec![expected]));
}

#[test]
fn programs_read_the_faults() {
    let limits = file("json-bad.yaml", "A: {burst: 0, count: 1, period: 1s}");
    let ran = run(&["check", "--limits", &limits, "--format", "json"]);
    let fault = json!({
        "file": limits, "line": 1, "column": 12, "message": "burst is zero",
        "help": "expected a whole number such as 20, at least 1",
    });
    let expected = json!({"faults": [fault], "untold": 0, "old": false});
    assert_eq!((ran.code, ran.json(), &*ran.stderr), (Some(2), vec![expected], ""));
}

#[test]
fn buckets_and_rules_are_checked_beside_the_limits() {
    let limits = file("beside.yaml", "Logins: {burst: 5, count: 5, period: 1h}\n");
    let buckets = file("beside.conf", "fast 100\n");
    let rules =
        file("beside-rules.yaml", "rules: [{match: a, use: Logins}, {match: b, use: fast}]\n");
    let all = ["check", "--limits", &limits, "--buckets", &buckets, "--rules", &rules];
    let ran = run(&all);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    assert!(ran.stdout.starts_with("2 limits, 0 overrides\n"), "{}", ran.stdout);
    // Without what they use, the rules are wrong, and so are they beside wrong buckets.
    let ran = run(&["check", "--rules", &rules]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("2 faults"), "{}", ran.stderr);
    let buckets = file("beside-wrong.conf", "fast 0.0\n");
    let ran = run(&["check", "--limits", &limits, "--buckets", &buckets, "--rules", &rules]);
    assert!(
        ran.stderr.contains("beside-wrong.conf:1:6: Invalid rate for bucket fast: 0.0"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("beside-rules.yaml:1:"), "{}", ran.stderr);
    assert_eq!(run(&["check", "--buckets", "examples/buckets.conf"]).code, Some(0));
    assert_eq!(run(&["check", "--rules", "examples/musicbrainz.yaml"]).code, Some(0));
}

#[test]
fn a_limits_file_needs_no_flag() {
    let (with, without) = (run(&["check", "--limits", LIMITS]), run(&["check", LIMITS]));
    assert_eq!((without.code, &without.stdout, &*without.stderr), (Some(0), &with.stdout, ""));
    let overrides = ["--overrides", "examples/overrides.yaml", "--against", LIMITS];
    let ran = run(&[&["check", LIMITS][..], &overrides].concat());
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "no change in effect\n"));
    assert_eq!(run(&["check", LIMITS, "--limits", LIMITS]).code, Some(2));
    assert_eq!(run(&["check"]).code, Some(2));
}
