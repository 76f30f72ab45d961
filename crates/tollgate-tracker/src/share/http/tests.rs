use http::HeaderValue;
use serde_json::json;
use tollgate::{Moment, Nanos};

use super::super::ShareError;
use super::super::till::Answer;
use super::{HttpDesk, lacks, read, second};

#[test]
fn what_is_no_address_of_a_server_is_refused() {
    for url in ["", "127.0.0.1:8080", "https://example.com", "http://", "http://a b", "ftp://a"] {
        let refused = HttpDesk::new(url, "Limit", "id", None).err();
        assert!(matches!(refused, Some(ShareError::Address(text)) if text == url), "{url}");
    }
    let refused = HttpDesk::new("http://localhost", "Limit", "id", Some("new\nline")).err();
    assert!(matches!(refused, Some(ShareError::Token)));
    assert!(HttpDesk::new("http://[::1]:8080/", "Limit", "id", Some("secret")).is_ok());
}

#[test]
fn an_answer_is_read_and_anything_else_is_not_taken_for_one() {
    let allowed = json!({"allowed": true, "remaining": 4, "retry_in_ns": 0});
    let wanted = Answer { granted: 3, left: 4, lacks: 0, retry_in: Nanos::ZERO, second: None };
    assert_eq!(read(&allowed, 3).unwrap(), wanted);
    let denied = json!({"allowed": false, "remaining": 1, "retry_in_ns": 20_000_000});
    let wanted =
        Answer { granted: 0, left: 1, lacks: 0, retry_in: Nanos::new(20_000_000), second: None };
    assert_eq!(read(&denied, 3).unwrap(), wanted);
    for nonsense in [json!(null), json!({}), json!({"error": "no such limit"}), json!([1])] {
        assert!(read(&nonsense, 1).is_err(), "{nonsense}");
    }
}

#[test]
fn what_a_ledger_lacks_is_what_was_taken_of_it() {
    // A check says what would be left.
    for (allowed, remaining, wanted) in
        [(true, 49, 0), (true, 37, 12), (true, 0, 49), (false, 0, 50)]
    {
        let limit = json!({"burst": 50});
        let ledger =
            json!({"allowed": allowed, "remaining": remaining, "retry_in_ns": 0, "limit": limit});
        assert_eq!(lacks(&ledger).unwrap(), wanted);
    }
    assert!(lacks(&json!({"allowed": true, "remaining": 38, "retry_in_ns": 0})).is_err());
}

#[test]
fn the_date_of_an_answer_is_a_second() {
    let date = HeaderValue::from_static("Thu, 01 Jan 1970 00:01:40 GMT");
    assert_eq!(second(&date), Some(Moment::from_nanos(100_000_000_000)));
    for wrong in ["", "yesterday", "Wed, 31 Dec 1969 23:59:59 GMT"] {
        assert_eq!(second(&HeaderValue::from_static(wrong)), None, "{wrong}");
    }
}
