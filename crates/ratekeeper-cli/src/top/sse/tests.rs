use super::*;

fn events(text: &str) -> Vec<String> {
    let mut reader = io::BufReader::with_capacity(3, text.as_bytes());
    std::iter::from_fn(|| next_event(&mut reader, "stats").unwrap()).collect()
}

#[test]
fn events_of_the_name_are_read_and_others_passed_over() {
    let text = ": hello\n\nevent: stats\ndata: {\"a\":1}\n\nevent: other\ndata: x\n\n\
                id: 7\r\nevent:stats\r\ndata:{\"b\":\r\ndata: 2}\r\n\r\n";
    assert_eq!(events(text), ["{\"a\":1}", "{\"b\":2}"]);
}

#[test]
fn half_an_event_is_none() {
    assert_eq!(events("event: stats\ndata: {}\n"), [""; 0]);
    assert_eq!(events("event: stats\ndata: {"), [""; 0]);
    assert_eq!(events("event: stats\n\n"), [""; 0]);
}

#[test]
fn what_is_no_text_is_refused() {
    let mut reader = io::BufReader::new(&b"data: \xff\n\n"[..]);
    assert!(next_event(&mut reader, "stats").is_err());
}
