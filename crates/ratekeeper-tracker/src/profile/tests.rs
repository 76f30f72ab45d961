//! Which requests share a budget.

use ratekeeper_testkit::random::Random;
use ratekeeper_time::Moment;

use super::{Profile, Route};
use crate::request::Request;

const NOW: Moment = Moment::from_nanos(1_790_000_000_000_000_000);

fn route(profile: &Profile, text: &str) -> Route {
    let (method, path) = text.split_once(' ').expect("a method and a path");
    profile.route(&Request::new(method, path), NOW)
}

fn name(profile: &Profile, text: &str) -> String {
    let (method, path) = text.split_once(' ').expect("a method and a path");
    profile.describe(&Request::new(method, path), NOW)
}

#[test]
fn discords_routes_are_told_apart_by_method_template_and_major_parameter() {
    let same = [
        ("GET /channels/1/messages/2", "GET /api/v10/channels/1/messages/3?limit=5"),
        ("GET /guilds/1/members/2", "GET /guilds/1/members/3"),
        ("GET /users/1", "GET /users/2"),
        ("GET /invites/abc", "GET /invites/xyz"),
        (
            "PUT /channels/1/messages/2/reactions/a/@me",
            "PUT /channels/1/messages/3/reactions/b/@me",
        ),
        (
            "PUT /channels/1/messages/2/reactions/a/@me",
            "DELETE /channels/1/messages/2/reactions/b/7",
        ),
        ("POST /webhooks/1/abc", "POST /webhooks/1/abc?wait=true"),
    ];
    let apart = [
        ("GET /channels/1/messages", "GET /channels/2/messages"),
        ("GET /channels/1/messages", "POST /channels/1/messages"),
        ("GET /guilds/1/members", "GET /guilds/2/members"),
        ("GET /guilds/1/members", "GET /guilds/1/roles"),
        ("POST /webhooks/1/abc", "POST /webhooks/1/xyz"),
        ("POST /webhooks/1/abc", "POST /webhooks/2/abc"),
        ("GET /users/@me", "GET /users/1"),
        ("PUT /channels/1/messages/2/reactions/a/@me", "GET /channels/1/messages/2/reactions/a"),
    ];
    let discord = Profile::discord();
    for (a, b) in same {
        assert_eq!(route(&discord, a), route(&discord, b), "{a} and {b}");
    }
    for (a, b) in apart {
        assert_ne!(route(&discord, a).key, route(&discord, b).key, "{a} and {b}");
    }
}

#[test]
fn buckets_of_one_name_are_kept_apart_by_discords_major_parameters_only() {
    let discord = Profile::discord();
    let named = |text: &str| route(&discord, text).named("hash");
    assert_eq!(named("GET /channels/1/messages"), named("POST /channels/1/typing"));
    assert_ne!(named("GET /channels/1/messages"), named("GET /channels/2/messages"));
    assert_eq!(named("GET /users/1"), named("GET /users/2/x"));
    // Deleting and reacting have budgets of their own, whatever the server calls them.
    assert_ne!(
        named("GET /channels/1/messages"),
        named("DELETE /channels/1/messages/99999999999999999999")
    );
    assert_ne!(named("GET /channels/1/messages"), named("PUT /channels/1/messages/2/reactions/a"));
}

#[test]
fn deleting_an_old_message_is_another_budget() {
    let discord = Profile::discord();
    let now_ms = NOW.as_nanos() / 1_000_000;
    let id = |days: u64| (now_ms - days * 86_400_000 - 1_420_070_400_000) << 22;
    let delete = |days| route(&discord, &format!("DELETE /channels/1/messages/{}", id(days)));
    assert_eq!(delete(0), delete(13));
    assert_eq!(delete(15), delete(400));
    assert_ne!(delete(13).key, delete(15).key);
    assert_ne!(delete(13).named("hash"), delete(15).named("hash"));
}

#[test]
fn discords_interactions_are_exempt_and_nothing_else_is() {
    let discord = Profile::discord();
    let exempt = |text| route(&discord, text).exempt;
    assert!(exempt("POST /interactions/1/token/callback"));
    assert!(exempt("PATCH /webhooks/1/aW50ZXJhY3Rpb246OTk5/messages/@original"));
    assert!(!exempt("POST /webhooks/1/an-ordinary-token"));
    assert!(!exempt("POST /channels/1/messages"));
}

#[test]
fn names_show_no_secret() {
    let discord = Profile::discord();
    assert_eq!(name(&discord, "POST /webhooks/1/hush?wait=true"), "POST/webhooks/1/:token");
    assert_eq!(
        name(&discord, "POST /interactions/1/hush/callback"),
        "POST/interactions/1/:token/callback"
    );
    assert_eq!(name(&discord, "GET /invites/hush"), "GET/invites/:code");
    assert_eq!(name(&discord, "GET /api/v10/channels/1/messages/2"), "GET/channels/1/messages/:id");
    let long = format!("GET /{}", "x/".repeat(1_000));
    assert!(name(&discord, &long).len() <= super::NAME_BYTES_MAX);
}

#[test]
fn any_api_has_one_budget_until_it_names_more() {
    let generic = Profile::generic();
    let (a, b) = (route(&generic, "GET /a/1"), route(&generic, "GET /b"));
    assert_eq!(a.home, b.home);
    assert_ne!(a.key, b.key);
    assert_eq!(a, route(&generic, "GET /a/2?page=7"));
    assert_eq!(a, route(&generic, "GET /a/0c2a8b3c-74d5-4c3b-9d2f-1f0a5f9e6b11"));
    assert_eq!(name(&generic, "GET /a/1"), "all requests");
    let grouped = Request { group: "account", ..Request::new("GET", "/a/1") };
    assert_ne!(generic.route(&grouped, NOW).home, a.home);
    assert_eq!(generic.describe(&grouped, NOW), "account");
}

#[test]
fn github_searches_on_other_budgets() {
    let github = Profile::github();
    let home = |text| route(&github, text).home;
    assert_eq!(home("GET /repos/a/b"), home("POST /repos/c/d/issues"));
    assert_eq!(home("GET /api/v3/search/users"), home("GET /search/issues?q=x"));
    assert_ne!(home("GET /search/code"), home("GET /search/issues"));
    assert_ne!(home("POST /graphql"), home("GET /user"));
    assert_ne!(home("GET /repos/a/b/dependency-graph/sbom"), home("GET /repos/a/b"));
    assert_eq!(home("POST /graphql"), route(&github, "GET /user").named("graphql").get());
    assert_eq!(name(&github, "GET /repos/a/b"), "core");
    let grouped = Request { group: "account", ..Request::new("GET", "/user") };
    assert_eq!(github.describe(&grouped, NOW), "account/core");
    assert_eq!(github.route(&grouped, NOW).home, github.route(&grouped, NOW).named("core").get());
}

#[test]
fn githubs_routes_differ_by_what_is_asked_for_and_not_of_whom() {
    let github = Profile::github();
    let key = |text| route(&github, text).key;
    assert_eq!(key("GET /repos/a/b/issues/1"), key("GET /api/v3/repos/c/d/issues/2?x=1"));
    assert_eq!(key("GET /users/a/repos"), key("GET /users/b/repos"));
    assert_ne!(key("GET /repos/a/b/issues"), key("POST /repos/a/b/issues"));
    assert_ne!(key("GET /repos/a/b/issues"), key("GET /repos/a/b/pulls"));
    assert_ne!(key("GET /orgs/a/repos"), key("GET /users/a/repos"));
}

#[test]
fn models_are_limited_each_for_itself() {
    let ask = |group, path| {
        let request = Request { group, ..Request::new("POST", path) };
        Profile::openai().route(&request, NOW).key
    };
    assert_eq!(ask("a", "/v1/chat/completions"), ask("a", "/v1/chat/completions?x"));
    assert_ne!(ask("a", "/v1/chat/completions"), ask("b", "/v1/chat/completions"));
    assert_ne!(ask("a", "/v1/chat/completions"), ask("a", "/v1/embeddings"));
}

#[test]
fn a_path_is_walked_by_words_as_it_would_be_by_letters() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let letters = b"/?#a0129:.-_\xc3\xa9";
        let length = random.index(40);
        let bytes: Vec<_> = (0..length).map(|_| letters[random.index(letters.len())]).collect();
        let path = String::from_utf8_lossy(&bytes);
        let end = path.find(['/', '?', '#']).unwrap_or(path.len());
        assert_eq!(super::segment_end(path.as_bytes()), end, "{path}");
        let is_number = !path.is_empty() && path.bytes().all(|byte| byte.is_ascii_digit());
        assert_eq!(super::is_number(&path), is_number, "{path}");
    }
    for byte in 0..=255_u8 {
        let word = u64::from_le_bytes([b'0', b'9', b'5', byte, b'0', b'9', b'1', b'8']);
        assert_eq!(super::are_digits(word), byte.is_ascii_digit(), "{byte}");
    }
}

#[test]
fn uploads_to_github_count_against_the_same_limits() {
    let hosts = Profile::github().hosts;
    assert!(["api.github.com", "uploads.github.com"].iter().all(|host| hosts.contains(host)));
}
