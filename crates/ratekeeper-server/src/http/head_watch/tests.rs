use super::*;

/// What is left of a stream that comes in two pieces, and which head of it has two ends.
fn watched(stream: &str, cut: usize) -> (String, Option<u64>) {
    let mut watch = HeadWatch::new();
    let (first, second) = stream.split_at(cut);
    let mut left = Vec::new();
    for piece in [first, second] {
        let mut bytes = piece.as_bytes().to_vec();
        let kept = watch.shorten(&mut bytes);
        left.extend_from_slice(&bytes[..kept]);
    }
    (String::from_utf8(left).unwrap(), watch.two_ends())
}

#[test]
fn only_a_length_of_too_many_digits_is_shortened_wherever_the_stream_is_cut() {
    let line = "POST /v1/spend HTTP/1.1\r\n";
    let long = "9".repeat(45);
    let before = format!(
        "\r\n{line}Content-Length: 5\r\n\r\n\r\n\r\n1{line}Transfer-Encoding: chunked\r\n\r\n"
    );
    let chunks = format!("1a;x=\"\"\r\n{line}\n\r\n0\r\nContent-Length: {long}\r\n\r\n");
    let cases = [
        (format!("content-LENGTH: {long}\r\nX: {long}\r\n\r\n"), 26),
        (format!("A: b\r\nContent-Length:{long}\r\n\r\nContent-Length: {long}\r\n"), 26),
        (format!("Content-Length: 00000000000000000000000{long}x\n\n{long}"), 26),
        ("Content-Length: 18446744073709551615\r\n\r\n".into(), 1),
        ("Content-Length: 9223372036854775808\r\n\r\n".into(), 0),
        (format!("X-Content-Length: {long}\r\nContent-Length-X: {long}\r\n\r\n"), 0),
        (format!("\r\nContent-Length: {long}\r\n"), 0),
    ];
    for (fields, dropped) in cases {
        for stream in [format!("{line}{fields}"), format!("{before}{chunks}{line}{fields}")] {
            for cut in 0..=stream.len() {
                let (left, two_ends) = watched(&stream, cut);
                assert_eq!(left.len() + dropped, stream.len(), "{stream:?} at {cut}: {left:?}");
                assert_eq!(two_ends, None, "{stream:?}");
            }
        }
    }
}

#[test]
fn a_head_with_a_length_and_a_coding_is_found_among_others() {
    let first = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\n\r\n";
    for fields in [
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "content-length: 0\r\nX: y\r\nTRANSFER-ENCODING: chunked\r\n",
    ] {
        let stream = format!("{first}POST / HTTP/1.1\r\n{fields}\r\n0\r\n\r\n");
        for cut in 0..=stream.len() {
            assert_eq!(watched(&stream, cut), (stream.clone(), Some(3)), "{stream:?} at {cut}");
        }
    }
}
