use super::super::servers::RESP_ANSWER;
use super::*;

#[test]
fn every_comparison_names_contenders_that_are_there() {
    for group in all(KEYS).into_iter().chain(all(KEYS_QUICK)) {
        let names: Vec<_> = group.contenders.iter().map(|contender| contender.name).collect();
        for Comparison { ours, theirs, .. } in &group.comparisons {
            assert!(names.contains(ours) && names.contains(theirs), "{names:?}");
        }
        assert!(DOORS.contains(&group.door), "{}", group.door);
    }
}

#[test]
fn echoes_have_the_bytes_of_the_usual_keys() {
    let usual = 6;
    let bucket = "get \r\n".len() + LIMIT.len() + ":user".len() + usual;
    let throttr = 26 + 2 + "user/bench".len() + usual;
    let resp = format!(
        "*4\r\n$8\r\nTHROTTLE\r\n${}\r\n{LIMIT}\r\n$10\r\nuser\r\n$1\r\n1\r\n",
        LIMIT.len()
    );
    let bytes = |kind: Kind| kind.bytes().unwrap()[0].parse::<usize>().unwrap();
    assert_eq!(bytes(Kind::EchoBucket), bucket);
    assert_eq!(bytes(Kind::EchoThrottr), throttr);
    assert_eq!(bytes(Kind::EchoResp), resp.len() + usual);
    assert_eq!(Kind::EchoResp.bytes().unwrap()[1], RESP_ANSWER.len().to_string());
    assert_eq!(HOT_LIMIT.len(), LIMIT.len());
    assert_eq!("000000000000 over_limit ws ip=1.1.1.".len() + usual, 42);
}
