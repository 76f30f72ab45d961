//! What Redis, or whoever looks after it, does not let a server do.

use serde_json::json;

use crate::servers::Single;
use crate::support::{Folder, Web};
use crate::{sharing, sharing_at, start_ahead};

#[test]
fn a_server_that_may_not_listen_decides_and_remembers_no_denial() {
    let (redis, folder) = (Single::start(), Folder::new());
    redis.command(&["ACL", "SETUSER", "deaf", "on", ">pw", "~*", "resetchannels", "+@all"]);
    let url = format!("redis://deaf:pw@127.0.0.1:{}", redis.port);
    let settings = sharing_at(&url, &folder, "Orders: {burst: 3, count: 1, period: 1h}");
    let server = start_ahead(&settings, 0);
    let mut client = Web::connect(&server);
    let answers = (0..10).map(|_| {
        let answer = client.post("/v1/spend", r#"{"limit":"Orders","id":"ada"}"#).json();
        answer["allowed"].as_bool().unwrap()
    });
    assert_eq!(answers.filter(|is_allowed| *is_allowed).count(), 3);
    let shared = server.stats().shared.unwrap();
    assert!(shared.up && shared.failures.is_empty(), "{shared:?}");
    assert_eq!((shared.decided, shared.remembered), (10, 0), "{shared:?}");
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn an_override_that_redis_cannot_count_is_refused_in_words() {
    let (redis, folder) = (Single::start(), Folder::new());
    let settings = sharing(&redis, &folder, "Orders: {burst: 3, count: 1, period: 1h}");
    let server = start_ahead(&settings, 0);
    let mut client = Web::connect(&server);
    let mut put = |burst: u64, period: &str| {
        let body = json!({"burst": burst, "count": 1, "period": period, "lower": true, "why": "moving out"});
        client.ask("PUT", "/v1/overrides/Orders/ada", "", &body.to_string())
    };
    let refused = put(1 << 31, "8760h");
    assert_eq!(refused.status, 422, "{}", refused.text());
    let said = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(said.contains("cannot be kept in the store: a bucket of 2147483648 tokens"), "{said}");
    assert_eq!(put(1 << 10, "1h").status, 200);
    assert!(server.drain(settings.drain).unwrap());
}
