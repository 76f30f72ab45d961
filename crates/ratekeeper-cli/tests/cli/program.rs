//! Running the program.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The lines of standard output as JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The program with these arguments, from the root of the repository.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratekeeper"));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    command.args(args).current_dir(root).env("COLUMNS", "100");
    command
}

/// Runs the program with nothing on standard input.
pub(crate) fn run(args: &[&str]) -> Ran {
    run_with(args, b"")
}

/// Runs the program with `input` on standard input.
pub(crate) fn run_with(args: &[&str], input: &[u8]) -> Ran {
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // Beside the reading, or both would wait for each other once the pipes are full. A
        // program that ends before it has read everything is no failure of this test.
        scope.spawn(move || stdin.write_all(input).err());
        child.wait_with_output().unwrap()
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A file of this content, under a name that no other test uses.
pub(crate) fn file(name: &str, content: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path.into_os_string().into_string().unwrap()
}

/// Replays `lines` and returns one answer for each.
pub(crate) fn replay(limits: &str, lines: &[String]) -> Vec<Value> {
    let mut input = String::new();
    for line in lines {
        writeln!(input, "{line}").unwrap();
    }
    let ran = run_with(&["replay", "limits", "--limits", limits], input.as_bytes());
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    let answers = ran.json();
    assert_eq!(answers.len(), lines.len(), "one line out for each line in");
    answers
}

/// A line for `replay`.
pub(crate) fn line(at: u64, op: &str, limit: &str, cost: u64) -> String {
    serde_json::json!({"at": at, "op": op, "limit": limit, "id": "x", "cost": cost}).to_string()
}
