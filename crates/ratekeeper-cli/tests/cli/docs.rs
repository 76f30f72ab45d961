//! What the page of the doors promises: every program on it runs as it is printed there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{Ran, command};
use crate::server::Server;

const PAGE: &str = include_str!("../../../../docs/doors.md");

/// A language of the page: what runs it, how it is given a program, and the Debian package.
const LANGUAGES: [(&str, &str, &str, &str); 4] = [
    ("sh", "sh", "-c", "dash, netcat-openbsd and redis-tools"),
    ("perl", "perl", "-e", "perl"),
    // Debian's, which Debian's packages are for.
    ("python", "/usr/bin/python3", "-c", "python3 and python3-redis"),
    ("javascript", "node", "-e", "nodejs"),
];

/// The doors, and the port that the page asks each at.
const DOORS: [(&str, &str); 4] =
    [("udp", "2000"), ("bucket", "4444"), ("throttr", "9000"), ("resp", "6380")];

/// A fenced block: what it is said to be, and what is in it.
struct Block<'a> {
    language: &'a str,
    text: String,
}

#[test]
fn every_program_on_the_page_of_the_doors_prints_what_the_page_says() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("doors-page");
    fs::create_dir_all(&folder).unwrap();
    let mut server: Option<Server> = None;
    let mut seen = BTreeSet::new();
    let mut blocks = blocks(PAGE).into_iter();
    while let Some(Block { language, text }) = blocks.next() {
        match language {
            "yaml" => write_file(&folder, &text),
            "console" => {
                // The reader is told to stop the first one.
                drop(server.take());
                server = Some(start(&folder, &text));
            }
            _ => {
                let expected = blocks.next().filter(|next| next.language == "text");
                let expected = expected.unwrap_or_else(|| panic!("what does this print?\n{text}"));
                let server = server.as_ref().expect("the page starts a server first");
                let ran = run_program(language, &at_its_ports(&text, server), &folder);
                assert_eq!(ran.stdout, expected.text, "{language}: {}\n{text}", ran.stderr);
                let doors = DOORS.iter().filter(|(_, port)| text.contains(port));
                seen.extend(doors.map(|(door, _)| (*door, language)));
            }
        }
    }
    for language in ["sh", "python", "javascript"] {
        for (door, _) in DOORS {
            assert!(seen.contains(&(door, language)), "nothing in {language} asks {door}");
        }
    }
}

/// Every block of the page that stands between two fences.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let inside = lines.by_ref().take_while(|line| *line != "```");
        let text = inside.flat_map(|line| [line, "\n"]).collect();
        blocks.push(Block { language, text });
    }
    blocks
}

/// A file says its name in its first line.
fn write_file(folder: &Path, text: &str) {
    let name = text.lines().next().and_then(|line| line.strip_prefix("# "));
    fs::write(folder.join(name.expect("the first line says the name")), text).unwrap();
}

/// Starts the server that the page says, but on free ports.
fn start(folder: &Path, console: &str) -> Server {
    let args = console.trim_end().strip_prefix("$ ratekeeper ").expect("it starts a server");
    let mut command = command(&args.split(' ').collect::<Vec<_>>());
    command.args(["--memory", "16MiB", "--control", "off", "--http", "off"]).current_dir(folder);
    for (door, _) in DOORS {
        command.args([&format!("--{door}"), "127.0.0.1:0"]);
    }
    Server::start_command(command, DOORS.len())
}

/// The program with the ports of this server for those of the page.
fn at_its_ports(program: &str, server: &Server) -> String {
    // By way of marks, or a port such as 49000 would be taken for one of the page.
    let mark = |door: &str| format!("@{door}@");
    let marked = DOORS.iter().fold(program.to_owned(), |text, (door, port)| {
        assert!(!text.contains(&mark(door)));
        text.replace(port, &mark(door))
    });
    DOORS.iter().fold(marked, |text, (door, _)| {
        text.replace(&mark(door), &server.address(door).port().to_string())
    })
}

/// Runs a program in one of the languages.
fn run_program(language: &str, program: &str, folder: &Path) -> Ran {
    let found = LANGUAGES.iter().find(|(name, ..)| *name == language);
    let Some((_, runner, flag, package)) = found else { panic!("what runs {language:?}?") };
    // The page takes it that `ratekeeper` is installed.
    let installed = concat!("ratekeeper() { '", env!("CARGO_BIN_EXE_ratekeeper"), "' \"$@\"; }\n");
    let before = if language == "sh" { installed } else { "" };
    let ran = Command::new(runner)
        .args([flag, &*format!("{before}{program}")])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let ran = ran.unwrap_or_else(|error| panic!("{runner}: {error}: install {package}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) }
}
