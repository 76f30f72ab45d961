use super::*;

fn over(id: &str, terms: Limit) -> Arc<RunTimeOverride> {
    let (limit, why, by) = ("Logins".into(), "they asked".into(), "ops".into());
    let (at, id) = (Moment::from_nanos(7), id.into());
    Arc::new(RunTimeOverride { limit, id, terms, why, by, at, until: None })
}

fn written() -> Vec<u8> {
    let terms = Limit::new(300, 300, parse_duration("3h").unwrap()).unwrap();
    let table = Table::new(vec![over("ada", terms), over("bob", terms)]);
    let mut text = Vec::new();
    write(&mut text, &table, Audited { from: 3, to: 9 }).unwrap();
    text
}

#[test]
fn no_bit_of_a_document_flips_without_being_noticed() {
    let text = written();
    assert_eq!(read(&text).unwrap().table.len(), 2);
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut flipped = text.clone();
            flipped[at] ^= 1 << bit;
            let refused = read(&flipped);
            let is_right = matches!(refused, Err(DocumentError::Sum));
            assert!(is_right, "bit {bit} of byte {at}: {refused:?}");
        }
        assert!(matches!(read(&text[..at]), Err(DocumentError::Sum)), "cut at {at}");
    }
}

#[test]
fn a_document_from_before_there_were_sums_is_read() {
    let text = String::from_utf8(written()).unwrap();
    let (body, _) = text.split_once(",\n\"sum\"").unwrap();
    let old = format!("{body}}}\n").replace("\"version\": 2", "\"version\": 1");
    assert_eq!(read(old.as_bytes()).unwrap().table.len(), 2);
    let half = text.replace("\"version\": 2", "\"version\": 1");
    assert!(matches!(read(half.as_bytes()), Err(DocumentError::Sum)));
    let damaged = old.replace("\"ada\"", "\"ada");
    assert!(matches!(read(damaged.as_bytes()), Err(DocumentError::Json(_))));
}

#[test]
fn a_document_of_a_later_version_is_told_from_a_damaged_one() {
    let text = String::from_utf8(written()).unwrap();
    let (body, _) = text.rsplit_once(SUM).unwrap();
    let later = body.replace("\"version\": 2", "\"version\": 3");
    let sum = crc32fast::hash(later.as_bytes());
    let with_sum = format!("{later}{SUM}{sum:08x}{END}");
    let without = format!("{}}}\n", later.trim_end_matches(','));
    for text in [with_sum, without] {
        assert!(matches!(read(text.as_bytes()), Err(DocumentError::Version(3))), "{text}");
    }
}
