use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderValue, LOCATION,
};
use reqwest::{Body, Client, Method, Request, StatusCode, Url};

use super::{Copied, adds_credentials, is_elsewhere};

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn request(method: Method) -> Request {
    let mut request = Request::new(method, url("https://api.example/v1/things?page=1#top"));
    *request.body_mut() = Some(Body::from("content"));
    let mut key = HeaderValue::from_static("key");
    key.set_sensitive(true);
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer token"));
    headers.insert(COOKIE, HeaderValue::from_static("a=b"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert("x-api-key", key);
    request
}

fn redirected(request: &Request, status: u16, location: &str) -> Option<Request> {
    let mut fields = HeaderMap::new();
    fields.insert(LOCATION, location.parse().unwrap());
    Copied::of(request).redirected(StatusCode::from_u16(status).unwrap(), &fields)
}

#[test]
fn the_method_and_the_body_change_as_the_status_says() {
    let all = [
        ("GET", 301, "GET", true),
        ("PUT", 302, "PUT", true),
        ("POST", 301, "GET", false),
        ("POST", 302, "GET", false),
        ("POST", 303, "GET", false),
        ("DELETE", 303, "GET", false),
        ("HEAD", 303, "HEAD", false),
        ("POST", 307, "POST", true),
        ("PATCH", 308, "PATCH", true),
    ];
    for (method, status, then, has_body) in all {
        let request = request(method.parse().unwrap());
        let next = redirected(&request, status, "/v2/things").unwrap();
        assert_eq!(next.method().as_str(), then, "{method} {status}");
        assert_eq!(next.body().is_some(), has_body, "{method} {status}");
        assert_eq!(next.headers().contains_key(CONTENT_TYPE), has_body, "{method} {status}");
        assert_eq!(next.url().as_str(), "https://api.example/v2/things#top");
    }
}

#[test]
fn what_is_private_stays_with_its_origin() {
    let private = ["authorization", "cookie", "x-api-key"];
    for (location, is_same) in [
        ("/v2", true),
        ("https://api.example:443/v2", true),
        ("https://cdn.example/v2", false),
        ("http://api.example/v2", false),
        ("https://api.example:8443/v2", false),
        ("//api.example.evil.example/v2", false),
    ] {
        let next = redirected(&request(Method::GET), 307, location).unwrap();
        for name in private {
            assert_eq!(next.headers().contains_key(name), is_same, "{name} {location}");
        }
        assert!(next.headers().contains_key(ACCEPT));
    }
}

#[test]
fn what_cannot_be_followed_is_left_to_the_caller() {
    let get = request(Method::GET);
    assert!(redirected(&get, 300, "/v2").is_none());
    assert!(redirected(&get, 304, "/v2").is_none());
    assert!(redirected(&get, 302, "ftp://api.example/").is_none());
    assert!(redirected(&get, 302, "https://[").is_none());
    let none = Copied::of(&get).redirected(StatusCode::FOUND, &HeaderMap::new());
    assert!(none.is_none(), "it does not say where to");
}

#[test]
fn a_body_that_is_gone_is_not_sent_and_one_that_is_not_needed_is_not_missed() {
    let stream = || {
        let mut request = request(Method::POST);
        *request.body_mut() = Some(Body::wrap(http_body_util::Full::new(bytes::Bytes::from("x"))));
        request
    };
    assert!(stream().try_clone().is_none());
    assert!(Copied::of(&stream()).again().is_none());
    assert!(Copied::address_of(&request(Method::POST)).again().is_none());
    assert!(redirected(&stream(), 307, "/v2").is_none());
    assert_eq!(redirected(&stream(), 303, "/v2").unwrap().method(), Method::GET);
}

#[tokio::test]
async fn a_client_that_adds_credentials_is_known() {
    let with = |name: &'static str, value: HeaderValue| {
        let mut headers = HeaderMap::new();
        headers.insert(name, value);
        Client::builder().default_headers(headers)
    };
    let mut hidden = HeaderValue::from_static("Bearer token");
    hidden.set_sensitive(true);
    assert!(adds_credentials(&with("authorization", hidden)));
    assert!(adds_credentials(&with("cookie", HeaderValue::from_static("a=b"))));
    for name in ["x-api-key", "private-token", "x-acme-session", "x-client"] {
        let mut value = HeaderValue::from_static("secret");
        assert!(adds_credentials(&with(name, value.clone())), "{name}");
        value.set_sensitive(true);
        assert!(adds_credentials(&with(name, value)), "{name}");
    }
    let mut hidden = HeaderValue::from_static("secret");
    hidden.set_sensitive(true);
    assert!(adds_credentials(&with("user-agent", hidden)), "it is marked");
    for value in ["a\\", "\"", "\", \"x\": \""] {
        let builder = with("accept", HeaderValue::from_static("text/html"));
        let mut headers = HeaderMap::new();
        headers.insert("user-agent", HeaderValue::from_static(value));
        headers.insert("x-api-key", HeaderValue::from_static("secret"));
        assert!(adds_credentials(&builder.default_headers(headers)), "{value}");
    }

    assert!(!adds_credentials(&with("accept-language", HeaderValue::from_static("de, en;q=0.5"))));
    assert!(!adds_credentials(&Client::builder().user_agent("bot/1.0 (https://bot.example)")));
    assert!(!adds_credentials(&Client::builder()));
}

#[test]
fn an_answer_from_elsewhere_is_seen() {
    let asked = url("https://user@api.example/v1?page=1#top");
    assert!(!is_elsewhere(&asked, &url("https://api.example:443/v1?page=1")));
    for other in
        ["http://api.example/v1?page=1", "https://api.example/v1", "https://api.example/v2?page=1"]
    {
        assert!(is_elsewhere(&asked, &url(other)), "{other}");
    }
}
