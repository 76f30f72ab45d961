//! `ratekeeper bench`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::fake::nowhere;
use crate::program::run;

const HEAD: &str = "\
|       name |       time |    granted |       rate |       goal |      dev % |
|        --- |        --- |        --- |        --- |        --- |        --- |
";

/// A server that grants every third token of `a` on each connection, every one of `b`, and knows
/// no other bucket.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(|| answer(stream.unwrap()));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for (index, line) in lines.map_while(Result::ok).enumerate() {
        let answer = match &*line {
            "get a" if index % 3 == 0 => "1\n",
            "get a" => "0\n",
            "get b" => "1\n",
            _ => "BUCKET NOT FOUND\n",
        };
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

fn trial(args: &[&str]) -> crate::program::Ran {
    let first = ["bench", "bucket-trial", "--timeout", "20s", "--sleep", "0", "--requests", "30"];
    run(&[&first, args].concat())
}

#[test]
fn the_table_is_that_of_the_document() {
    let ran = trial(&["--server", &server(), "--buckets", "a=1,b=0.5/7"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (table, refills) = ran.stdout.split_once("\n\n").unwrap();
    let rows = table.strip_prefix(HEAD).unwrap();
    let width = HEAD.lines().next().unwrap().len();
    assert!(rows.lines().all(|row| row.len() >= width), "{rows}");
    let cells: Vec<Vec<_>> =
        rows.lines().map(|row| row.split('|').map(str::trim).collect()).collect();
    assert_eq!(cells.len(), 2);
    assert_eq!((cells[0][1], cells[0][3], cells[0][5]), ("a", "20", "1"));
    assert_eq!((cells[1][1], cells[1][3], cells[1][5]), ("b", "60", "0.5"));
    let refills: Vec<Vec<_>> =
        refills.lines().skip(2).map(|row| row.split('|').map(str::trim).collect()).collect();
    assert_eq!(refills[0][1..5], ["a", "20", "1", "19"], "the fill is a second's worth");
    assert_eq!(refills[1][1..5], ["b", "60", "7", "53"], "or what is said");
}

#[test]
fn what_is_about_to_happen_is_told_beside_the_table() {
    let ran = trial(&["--server", &server(), "--buckets", "a=1", "--threads", "3"]);
    assert!(
        ran.stderr.starts_with("Trial run with 3 threads doing 30 requests each and a 0 sleep")
    );
    assert_eq!(ran.stderr.lines().count(), 2, "no progress where nobody looks: {}", ran.stderr);
}

#[test]
fn a_bucket_that_is_not_there_is_a_mistake() {
    let ran = trial(&["--server", &server(), "--buckets", "a=1,c=1"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stdout.lines().count(), 3, "the row before it is there: {}", ran.stdout);
    assert!(ran.stderr.contains("has no bucket called `c`"), "{}", ran.stderr);
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let ran = trial(&["--server", &nowhere()]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    assert!(ran.stderr.starts_with("error: connecting to "), "{}", ran.stderr);
}

#[test]
fn wrong_arguments_are_usage_mistakes() {
    let wrong: [&[&str]; 10] = [
        &["--buckets", "a=1/x"],
        &["--threads", "0"],
        &["--threads", "257"],
        &["--buckets", "a"],
        &["--buckets", "a=0"],
        &["--buckets", "a=-1"],
        &["--buckets", "a=inf"],
        &["--buckets", ""],
        &["--buckets", "a b=1"],
        &["--buckets", "a=1,,b=1"],
    ];
    for args in wrong {
        let ran = trial(args);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
    }
    for sleep in ["-1", "x", "inf", "1e999"] {
        let ran = run(&["bench", "bucket-trial", "--sleep", sleep]);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{sleep}");
    }
}
