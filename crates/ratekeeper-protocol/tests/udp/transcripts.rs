//! The transcripts of the page about the door, which must be true.

use ratekeeper::{Moment, limits::parse_duration};

use crate::udp_fixture::UdpFixture;

const PAGE: &str = include_str!("../../src/udp/README.md");

/// A fenced block: what it is, on which line it begins, and what is in it.
struct Block<'a> {
    kind: &'a str,
    line: usize,
    text: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut is_inside = false;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), is_inside) {
            (Some(kind), false) => {
                blocks.push(Block { kind, line: index + 1, text: String::new() });
                is_inside = true;
            }
            (Some(_), true) => is_inside = false,
            (None, true) => {
                let text = &mut blocks.last_mut().unwrap().text;
                text.push_str(line);
                text.push('\n');
            }
            (None, false) => {}
        }
    }
    blocks
}

/// The replies that did not come as they are written.
fn run(block: &Block<'_>, fixture: &mut UdpFixture) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut said: Option<Vec<u8>> = None;
    for (index, line) in block.text.lines().enumerate() {
        let expected = match line.split_at(2) {
            (">>", request) => {
                assert!(said.is_none(), "line {}: two requests", block.line + index);
                let request = request[1..].replace("\\n", "\n");
                said = Some(fixture.send(request));
                continue;
            }
            ("..", wait) => {
                let wait = parse_duration(&wait[1..].replace(' ', "")).unwrap();
                fixture.now = fixture.now.after(wait);
                continue;
            }
            ("@ ", secs) => {
                let secs: u64 = secs.parse().unwrap();
                fixture.now = Moment::from_nanos(secs * 1_000_000_000);
                continue;
            }
            ("<<", answer) => &answer[1..],
            ("--", " no answer") => "",
            _ => panic!("line {}: {line}", block.line + index),
        };
        let said = said.take().unwrap();
        if said != expected.as_bytes() {
            let said = String::from_utf8_lossy(&said);
            wrong.push(format!("line {}: {said}", block.line + index + 1));
        }
    }
    wrong
}

#[test]
fn the_page_tells_the_truth() {
    let (mut rules, mut limits) = (String::new(), String::new());
    let (mut transcripts, mut wrong) = (0, Vec::new());
    for block in blocks(PAGE) {
        match block.kind {
            "yaml rules" => rules.clone_from(&block.text),
            "yaml limits" => limits.clone_from(&block.text),
            "transcript" => {
                wrong.extend(run(&block, &mut UdpFixture::with_limits(&rules, &limits)));
                transcripts += 1;
            }
            "text" => {}
            kind => panic!("line {}: what is a block of `{kind}`?", block.line),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(transcripts, 5);
}
