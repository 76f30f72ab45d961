use http::{HeaderMap, HeaderValue};
use ratekeeper_time::{Moment, Nanos};
use serde_json::{Value, json};

use super::super::terms::Terms;
use super::{NOW, STARTED, ServerClient, Share, ShareError, ShareServer, TokenAnswer, TokenAsk};
use crate::Profile;

fn share(url: &str, token: Option<&str>) -> Share {
    let [url, limit, id] = [url, "Fifty", "bot"].map(str::to_owned);
    let server = ShareServer { url, limit, id, token: token.map(str::to_owned) };
    Share::of(&Profile::discord(), server, 1).unwrap()
}

fn client() -> ServerClient {
    ServerClient::new(&share("http://localhost", None)).unwrap()
}

fn fields() -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(NOW, HeaderValue::from_static("1763523388000000001"));
    fields.insert(STARTED, HeaderValue::from_static("7"));
    fields
}

fn limit(burst: u64, period: Nanos) -> Value {
    let period_ns = u64::try_from(period.get()).unwrap();
    json!({"name": "Fifty", "burst": burst, "count": 1, "period_ns": period_ns, "shadow": false})
}

const MINUTE: Nanos = Nanos::from_secs(60);

#[test]
fn what_is_no_address_of_a_server_is_refused() {
    for url in ["", "127.0.0.1:8080", "http://", "http://a b", "ftp://a"] {
        let refused = ServerClient::new(&share(url, None)).err();
        assert!(matches!(refused, Some(ShareError::Address(text)) if text == url), "{url}");
    }
    let refused = ServerClient::new(&share("https://example.com", None)).err();
    assert!(matches!(refused, Some(ShareError::Https(_))), "{refused:?}");
    let refused = ServerClient::new(&share("http://localhost", Some("new\nline"))).err();
    assert!(matches!(refused, Some(ShareError::Token(_))), "{refused:?}");
    assert!(ServerClient::new(&share("http://[::1]:8080/", Some("secret"))).is_ok());
}

#[test]
fn what_is_due_goes_back_before_others_are_taken_of_all_terms_at_once() {
    let terms = Terms::at(Moment::from_nanos(60_000_000_000), Nanos::from_secs(1));
    let of = |cost: u32| -> Vec<Value> {
        let ids = ["bot@38", "bot@39", "bot@40"];
        ids.map(|id| json!({"limit": "Fifty", "id": id, "cost": cost})).into()
    };
    let exchange = |refund, spend| {
        client().transactions(&TokenAsk::Exchange { terms: terms.clone(), refund, spend })
    };
    let (refund, spend) =
        (json!({"op": "refund", "asks": of(2)}), json!({"op": "spend", "asks": of(3)}));
    assert_eq!(exchange(2, 3), [refund.clone(), spend.clone()]);
    assert_eq!(exchange(2, 0), [refund]);
    assert_eq!(client().transactions(&TokenAsk::Renew { terms, tokens: 3 }), [spend]);
}

#[test]
fn an_answer_is_read_and_anything_else_is_not_taken_for_one() {
    let answer = json!({"allowed": true, "remaining": 4, "limit": limit(50, MINUTE)});
    let [there, started] = [1_763_523_388_000_000_001, 7].map(Moment::from_nanos);
    let wanted = TokenAnswer { is_granted: true, left: 4, there, started };
    assert_eq!(client().read(&answer, &fields()).unwrap(), wanted);
    assert!(matches!(client().read(&answer, &HeaderMap::new()), Err(ShareError::Strange { .. })));
    for nonsense in [json!(null), json!({}), json!({"allowed": true, "remaining": 4}), json!([1])] {
        let read = client().read(&nonsense, &fields());
        assert!(matches!(read, Err(ShareError::Strange { .. })), "{nonsense}");
    }
    let problem = json!({"problem": {"detail": "no limit is called `Fifty`"}});
    let error = client().read(&problem, &fields()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the Ratekeeper server at http://localhost cannot count by the limit `Fifty` (no limit is called \
         `Fifty`): its limits file needs `Fifty: { burst: 50, count: 1, period: 1m }`"
    );
}

#[test]
fn a_limit_that_does_not_keep_what_is_shared_is_refused() {
    let judge = |limit: &Value| client().judge(limit);
    assert!(judge(&limit(50, MINUTE)).is_ok());
    assert!(judge(&limit(50, Nanos::from_secs(365 * 86_400))).is_ok());
    assert!(judge(&limit(50, Nanos::new(4_500_000_000))).is_ok(), "as long as a bucket is in use");
    assert!(judge(&limit(50, Nanos::new(4_499_999_999))).is_err());
    assert!(judge(&limit(51, MINUTE)).is_err());
    let mut shadow = limit(50, MINUTE);
    shadow["shadow"] = true.into();
    assert!(judge(&shadow).is_err());
    assert_eq!(
        judge(&limit(2, Nanos::from_secs(1))).unwrap_err().to_string(),
        "the limit `Fifty` of the Ratekeeper server at http://localhost is { burst: 2, count: 1, period: 1s }: \
         what is shared needs `Fifty: { burst: 50, count: 1, period: 1m }` in its limits file"
    );
}
