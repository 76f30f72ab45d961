//! The command `memory`, small enough for every test run.

use std::process::Command;

fn memory(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_lab"))
        .arg("memory")
        .args(args)
        .output()
        .expect("the command can be started");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

/// Memory is taken 2 MiB at a time, and the fullest shard decides how often. With a million keys, one
/// secret in sixty has a shard so full that this alone is two bytes a key.
#[test]
fn three_million_keys_and_a_flood_stay_within_their_bounds() {
    let (ok, text) = memory(&[
        "--keys=3000000",
        "--flood=2500000",
        "--cap=80",
        "--busy=200",
        "--hostile=400000",
        "--hostile-cap=4",
    ]);
    assert!(ok, "{text}");
    assert!(text.contains("3000000 live keys"), "{text}");
    assert!(text.contains("200 busy keys: 0 wrong decisions of 375200"), "{text}");
    assert!(text.contains("1000 silent ids: 0 wrong of 2000"), "{text}");
}

#[test]
fn a_flood_that_does_not_reach_the_cap_proves_nothing_and_says_so() {
    let (ok, text) = memory(&["--only=flood", "--flood=1000", "--cap=32"]);
    assert!(!ok);
    assert!(text.contains("the flood did not reach the cap"), "{text}");
}
