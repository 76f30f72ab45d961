//! The page, the document, and whether the server is well.

use serde_json::Value;

use super::client::{Asked, assert_problem};

#[test]
fn the_page_is_served_with_what_protects_it() {
    let asked = Asked::starter();
    let files = [
        ("/", "text/html; charset=utf-8", "<title>Ratekeeper</title>"),
        ("/api", "text/html; charset=utf-8", "<title>Ratekeeper: the API</title>"),
        ("/main.js", "text/javascript; charset=utf-8", "import"),
        ("/page.css", "text/css; charset=utf-8", "{"),
        ("/icon.svg", "image/svg+xml", "<svg"),
    ];
    for (path, content_type, part) in files {
        let answer = asked.get(path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(content_type)),
            "{path}"
        );
        assert!(answer.text.contains(part), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'; frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let tag = answer.header("etag").unwrap();
        let again = asked.send("GET", path, None, &[("if-none-match", tag)]);
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
        assert_eq!(again.header("etag"), Some(tag));
        let head = asked.send("HEAD", path, None, &[]);
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
        assert_eq!(head.header("content-length"), Some(answer.text.len().to_string().as_str()));
    }
    let problem = asked.refused("POST", "/", Some(""));
    assert_problem(&problem, "wrong-method", None);
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let asked = Asked::starter();
    for page in ["/", "/api", "/main.js", "/api.js"] {
        let text = asked.get(page).text;
        let named = text.split(['"', '\'']).filter(|part| {
            let ending = part.rsplit_once('.').map(|(_, ending)| ending);
            ending.is_some_and(|it| ["js", "css", "svg"].contains(&it))
                && part.starts_with(['/', '.'])
        });
        for file in named {
            let path = file.trim_start_matches('.');
            assert_eq!(asked.get(path).status, 200, "{page} names {file}");
        }
    }
}

#[test]
fn the_document_is_served_and_names_the_version() {
    let asked = Asked::starter();
    let answer = asked.get("/openapi.json");
    let document: Value = answer.json();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["title"], "Ratekeeper");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let tag = answer.header("etag").unwrap();
    assert_eq!(asked.send("GET", "/openapi.json", None, &[("if-none-match", tag)]).status, 304);
}

#[test]
fn every_route_of_the_document_is_there() {
    let asked = Asked::starter();
    let document = asked.get("/openapi.json").json();
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = path.replace("{limit}", "LoginsPerUser").replace("{name}", "LoginsPerUser");
        let path = path.replace("{id}", "ada");
        for method in item.as_object().unwrap().keys() {
            // A stream would never end.
            if path == "/v1/live" {
                continue;
            }
            let has_body = ["put", "post"].contains(&method.as_str());
            let body = has_body.then_some("{}");
            let answer = asked.send(&method.to_uppercase(), &path, body, &[]);
            assert!(![404, 405].contains(&answer.status) || method == "delete", "{method} {path}");
            let told = &item[method]["responses"][answer.status.to_string()];
            assert!(told.is_object(), "{method} {path} was answered {}", answer.status);
        }
    }
}

#[test]
fn a_server_that_runs_is_well_and_ready() {
    let asked = Asked::starter();
    for (path, text) in [("/healthz", "ok"), ("/readyz", "ready")] {
        let answer = asked.get(path);
        assert_eq!((answer.status, answer.text.as_str()), (200, text));
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(asked.send("HEAD", path, None, &[]).status, 200);
    }
}
