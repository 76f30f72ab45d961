use super::*;

#[test]
fn a_line_of_http_has_a_version_at_its_end_whatever_the_method() {
    for line in [
        &b"POST / HTTP/1.1"[..],
        b"GET /a%20b HTTP/1.0\r",
        b"brew /pot http/1.1 ",
        b"PRI * HTTP/2.0",
        b"CONNECT localhost:4444 HTTP/1.1",
        b"OPTIONS http://localhost/ HTTP/1.1",
        b"Host: localhost",
        b"hOST:x",
        b"\x16\x03\x01\x02\x00",
    ] {
        assert!(is_line(line), "{}", line.escape_ascii());
    }
    for line in
        [&b""[..], b"GET bucket", b"HTTP/1.1", b" HTTP/1.1", b"get a b", b"host", b"\x16\x02"]
    {
        assert!(!is_line(line), "{}", line.escape_ascii());
    }
}

#[test]
fn an_opening_is_found_however_it_is_cut() {
    for opening in [
        &b"POST / HTTP/1.1\r\n"[..],
        b"x-Y /%01%04?a=b HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"\x16\x03\x01",
    ] {
        for cut in 0..=opening.len() {
            let (head, tail) = opening.split_at(cut);
            let found = Opening::None.after(head);
            let found = if found == Opening::Foreign { found } else { found.after(tail) };
            assert_eq!(found, Opening::Foreign, "{} at {cut}", opening.escape_ascii());
        }
    }
    for other in [&b""[..], b"\xff\x01", b"POST /\x01 HTTP/", b"POST / FTP/", b"\x16\x04"] {
        assert_ne!(Opening::None.after(other), Opening::Foreign, "{}", other.escape_ascii());
    }
    let junk = Opening::None.after(b"a /b");
    assert_eq!(junk.after(b"POST / HTTP/1.1"), Opening::Foreign, "junk before it hides nothing");
}
