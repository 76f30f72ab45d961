//! The help texts, word for word.
//!
//! After a change that is meant, `UPDATE_HELP=1 cargo test -p ratekeeper-cli` writes them anew.

use std::fs;

use crate::program::run;

/// Read when the tests are compiled, which cargo does again when it changes.
const UPDATE: Option<&str> = option_env!("UPDATE_HELP");

fn is_golden(name: &str, args: &[&str]) {
    let ran = run(args);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{args:?}");
    let path = format!("{}/tests/help/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if UPDATE.is_some() {
        fs::write(&path, &ran.stdout).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap();
    assert_eq!(ran.stdout, golden, "{path} differs from what {args:?} prints");
}

#[test]
fn every_help_text_is_as_it_was_agreed() {
    is_golden("ratekeeper", &["--help"]);
    is_golden("stats", &["stats", "--help"]);
    is_golden("top", &["top", "--help"]);
    is_golden("check", &["check", "--help"]);
    is_golden("replay", &["replay", "--help"]);
    is_golden("replay-limits", &["replay", "limits", "--help"]);
    is_golden("replay-udp", &["replay", "udp", "--help"]);
    is_golden("replay-bucket", &["replay", "bucket", "--help"]);
    is_golden("replay-throttr", &["replay", "throttr", "--help"]);
    is_golden("replay-resp", &["replay", "resp", "--help"]);
    is_golden("ask", &["ask", "--help"]);
    is_golden("ask-offline", &["ask", "offline", "--help"]);
    is_golden("override", &["override", "--help"]);
    for command in ["add", "list", "remove", "import", "export"] {
        is_golden(&format!("override-{command}"), &["override", command, "--help"]);
    }
    is_golden("state", &["state", "--help"]);
    is_golden("state-export", &["state", "export", "--help"]);
    is_golden("state-import", &["state", "import", "--help"]);
    is_golden("bench", &["bench", "--help"]);
    for door in ["udp", "bucket", "throttr", "http", "resp", "echo-udp", "echo-tcp", "compare"] {
        is_golden(&format!("bench-{door}"), &["bench", door, "--help"]);
    }
    is_golden("bench-bucket-trial", &["bench", "bucket-trial", "--help"]);
    is_golden("ask-udp", &["ask", "udp", "--help"]);
    is_golden("ask-bucket", &["ask", "bucket", "--help"]);
    is_golden("ask-resp", &["ask", "resp", "--help"]);
    is_golden("ask-throttr", &["ask", "throttr", "--help"]);
    is_golden("ask-throttr-insert", &["ask", "throttr", "insert", "--help"]);
    is_golden("ask-throttr-query", &["ask", "throttr", "query", "--help"]);
    is_golden("ask-throttr-update", &["ask", "throttr", "update", "--help"]);
    is_golden("ask-throttr-purge", &["ask", "throttr", "purge", "--help"]);
}

#[test]
fn the_short_form_of_help_is_the_same_text() {
    for command in [&["check"][..], &["replay", "limits"], &["ask"], &[]] {
        let help = |flag| run(&[command, &[flag]].concat()).stdout;
        assert_eq!(help("-h"), help("--help"));
    }
}

#[test]
fn the_version_is_told() {
    let ran = run(&["--version"]);
    let expected = concat!("ratekeeper ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!((ran.code, &*ran.stdout), (Some(0), expected));
}

#[test]
fn without_a_command_the_help_is_shown_as_a_mistake() {
    let ran = run(&[]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert_eq!(ran.stderr, run(&["--help"]).stdout);
}

#[test]
fn wrong_arguments_are_usage_mistakes() {
    let wrong: [&[&str]; 7] = [
        &["serv"],
        &["check"],
        &["replay"],
        &["replay", "limits"],
        &["ask", "A"],
        &["ask", "offline", "A", "x", "--overrides", "o.yaml"],
        &["check", "--limits", "l.yaml", "--against-overrides", "o.yaml"],
    ];
    for args in wrong {
        let ran = run(args);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
        assert!(ran.stderr.contains("Usage:"), "{args:?}: {}", ran.stderr);
    }
}
