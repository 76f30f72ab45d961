use super::{ANYBODY, Caller, Guards, Proof, Refusal, Who, admit, check_exposure};
use crate::http::tokens::Tokens;
use crate::settings::Role;

use Refusal::{BrowserWithoutToken, ForeignPage, Misdirected, NoToken, WrongToken};
use Role::{Admin, Decide, Read};

const ROLES: [Role; 3] = [Decide, Read, Admin];

fn tokens() -> Tokens {
    let text = "web decide web-secret-0123456789\nops admin ops-secret-0123456789\n\
                eye read eye-secret-0123456789\n";
    Tokens::parse(text, "tokens.txt").unwrap()
}

/// A program on the same machine.
fn program(needed: Role) -> Caller<'static> {
    Caller {
        needed,
        certificate: None,
        authorization: None,
        origin: None,
        fetch_site: None,
        host: Some(b"127.0.0.1:8080"),
        is_tls: false,
    }
}

fn page(needed: Role, origin: Option<&'static str>, site: Option<&'static str>) -> Caller<'static> {
    let (origin, fetch_site) = (origin.map(str::as_bytes), site.map(str::as_bytes));
    Caller { origin, fetch_site, ..program(needed) }
}

fn open(caller: &Caller<'_>) -> Result<(), Refusal> {
    admit(Guards::default(), caller).map(|who| {
        assert_eq!(who, Who { name: ANYBODY, proof: Proof::None });
    })
}

#[test]
fn without_tokens_a_program_has_every_role() {
    for needed in ROLES {
        assert_eq!(open(&program(needed)), Ok(()));
        let typed = page(needed, None, Some("none"));
        assert_eq!(open(&typed), Ok(()), "an address typed into a browser");
    }
}

#[test]
fn without_tokens_a_browser_may_look_and_decide_for_our_own_page_only() {
    let own = Some("http://127.0.0.1:8080");
    let cases = [
        (None, Some("same-origin"), Ok(())),
        (own, Some("same-origin"), Ok(())),
        (own, None, Ok(())),
        (own, Some("cross-site"), Err(ForeignPage)),
        (None, Some("cross-site"), Err(ForeignPage)),
        (None, Some("same-site"), Err(ForeignPage)),
        (None, Some("what is new"), Err(ForeignPage)),
        (Some("http://127.0.0.1:3000"), None, Err(ForeignPage)),
        (Some("https://127.0.0.1:8080"), None, Err(ForeignPage)),
        (Some("http://evil.example"), Some("none"), Err(ForeignPage)),
        (Some("null"), None, Err(ForeignPage)),
        (Some(""), None, Err(ForeignPage)),
    ];
    for (origin, site, expected) in cases {
        for needed in [Decide, Read] {
            assert_eq!(open(&page(needed, origin, site)), expected, "{origin:?} {site:?}");
        }
        let admin = expected.and(Err(BrowserWithoutToken));
        assert_eq!(open(&page(Admin, origin, site)), admin, "{origin:?} {site:?}");
    }
}

#[test]
fn without_tokens_the_host_must_be_one_that_nobody_can_rebind() {
    let local = [
        "localhost",
        "LOCALHOST:8080",
        "a.localhost:1",
        "127.0.0.1",
        "10.1.2.3:8080",
        "[::1]",
        "[::1]:8080",
        "[2001:db8::1]:80",
    ];
    let other = [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "notlocalhost",
        "127.0.0.1.evil.example",
        "127.1",
        "0x7f.1",
        "[::1",
        "::1",
        "[127.0.0.1]",
        "[::1]x",
        "a@localhost",
        "localhost:http",
        "localhost:+80",
        "localhost:99999",
        "",
        ":8080",
        "evil/.localhost",
        "ratekeeper",
        "\u{e4}.example",
    ];
    let ask = |host: &str| open(&Caller { host: Some(host.as_bytes()), ..program(Decide) });
    for host in local {
        assert_eq!(ask(host), Ok(()), "{host}");
    }
    for host in other {
        assert_eq!(ask(host), Err(Misdirected), "{host}");
    }
    assert_eq!(open(&Caller { host: None, ..program(Decide) }), Err(Misdirected));
}

#[test]
fn with_tokens_a_role_has_to_suffice() {
    let tokens = tokens();
    let guards = Guards { tokens: Some(&tokens), client_certificates: false };
    let cases = [
        (None, [Err(NoToken); 3]),
        (Some("Basic b3BzOm9wcw=="), [Err(NoToken); 3]),
        (Some("Bearer"), [Err(NoToken); 3]),
        (Some("Bearer guess-0123456789abcdef"), [Err(WrongToken); 3]),
        (
            Some("Bearer web-secret-0123456789"),
            [Ok("web"), refused(Read, Decide), refused(Admin, Decide)],
        ),
        (
            Some("bearer eye-secret-0123456789"),
            [refused(Decide, Read), Ok("eye"), refused(Admin, Read)],
        ),
        (Some("Bearer ops-secret-0123456789"), [Ok("ops"); 3]),
    ];
    for (authorization, expected) in cases {
        for (needed, expected) in ROLES.into_iter().zip(expected) {
            // With a token any name will do: no page can send one that it was not given.
            let host: Option<&[u8]> = Some(b"limits.example");
            let authorization = authorization.map(str::as_bytes);
            let caller = Caller { authorization, host, ..program(needed) };
            assert_eq!(admit(guards, &caller).map(|who| who.name), expected, "{caller:?}");
        }
    }
}

fn refused(needed: Role, has: Role) -> Result<&'static str, Refusal> {
    Err(Refusal::Role { needed, has })
}

#[test]
fn with_a_token_a_foreign_page_may_decide_but_not_change_anything() {
    let tokens = tokens();
    let guards = Guards { tokens: Some(&tokens), client_certificates: false };
    let foreign = [
        (Some("https://shop.example"), Some("cross-site")),
        (Some("http://127.0.0.1:3000"), Some("same-site")),
        (None, Some("cross-site")),
        (Some("http://127.0.0.1:8080"), Some("none")),
        (Some("http://127.0.0.1:8080"), Some("cross-site")),
    ];
    let own = [
        (None, None),
        (None, Some("none")),
        (None, Some("same-origin")),
        (Some("http://127.0.0.1:8080"), None),
        (Some("http://127.0.0.1:8080"), Some("same-origin")),
    ];
    let authorization: Option<&[u8]> = Some(b"Bearer ops-secret-0123456789");
    let ask = |needed, (origin, site)| {
        let caller = Caller { authorization, ..page(needed, origin, site) };
        admit(guards, &caller).map(|who| who.proof)
    };
    for from in foreign {
        assert_eq!(ask(Decide, from), Ok(Proof::Token), "{from:?}");
        assert_eq!(ask(Read, from), Ok(Proof::Token), "{from:?}");
        assert_eq!(ask(Admin, from), Err(ForeignPage), "{from:?}");
    }
    for from in own {
        assert_eq!(ask(Admin, from), Ok(Proof::Token), "{from:?}");
    }
    assert_eq!(admit(guards, &page(Admin, foreign[0].0, foreign[0].1)), Err(NoToken));
}

#[test]
fn a_certificate_counts_like_a_token_but_not_for_foreign_pages() {
    let tokens = tokens();
    let certificate = Some(("shop.internal", Decide));
    let only = Guards { tokens: None, client_certificates: true };
    let both = Guards { tokens: Some(&tokens), client_certificates: true };
    let caller = |needed| Caller { certificate, is_tls: true, ..program(needed) };
    let shop = Who { name: "shop.internal", proof: Proof::Certificate };
    for guards in [only, both] {
        assert_eq!(admit(guards, &caller(Decide)), Ok(shop));
        assert_eq!(
            admit(guards, &caller(Admin)),
            Err(Refusal::Role { needed: Admin, has: Decide })
        );
        // The browser sends it for whatever page.
        let foreign = Caller { fetch_site: Some(b"cross-site"), ..caller(Decide) };
        assert_eq!(admit(guards, &foreign), Err(ForeignPage));
        assert_eq!(admit(guards, &program(Decide)), Err(NoToken));
    }
    let with = |authorization| Caller { authorization: Some(authorization), ..caller(Admin) };
    let ops = Who { name: "ops", proof: Proof::Token };
    assert_eq!(admit(both, &with(b"Bearer ops-secret-0123456789")), Ok(ops));
    assert_eq!(admit(both, &with(b"Bearer ops-secret-012345678x")), Err(WrongToken));
    let decide = Caller { needed: Decide, ..with(b"Bearer eye-secret-0123456789") };
    assert_eq!(admit(both, &decide), Ok(shop));
    // Without being asked for, a certificate proves nothing.
    let tokens_only = Guards { client_certificates: false, ..both };
    assert_eq!(admit(tokens_only, &caller(Decide)), Err(NoToken));
}

#[test]
fn an_origin_is_ours_if_scheme_host_and_port_are() {
    let cases = [
        ("http://localhost", "localhost", false, true),
        ("http://localhost", "localhost:80", false, true),
        ("http://LOCALHOST:80", "localhost", false, true),
        ("https://localhost", "localhost:443", true, true),
        ("https://[::1]:8080", "[::1]:8080", true, true),
        ("http://localhost", "localhost:443", true, false),
        ("https://localhost", "localhost:80", true, false),
        ("http://localhost:8080", "localhost", false, false),
        ("http://localhost", "localhost", true, false),
        ("https://localhost", "localhost", false, false),
        ("http://localhost/", "localhost", false, false),
        ("http://user@localhost", "localhost", false, false),
        ("http://[::1]", "[::2]", false, false),
        ("localhost", "localhost", false, false),
    ];
    for (origin, host, is_tls, is_own) in cases {
        let caller = Caller { host: Some(host.as_bytes()), is_tls, ..program(Read) };
        assert_eq!(caller.is_own(origin.as_bytes()), is_own, "{origin} at {host}");
    }
    assert!(!Caller { host: None, ..program(Read) }.is_own(b"http://localhost"));
}

#[test]
fn refusals_have_a_status_and_say_what_to_do() {
    let role = Refusal::Role { needed: Admin, has: Read };
    let cases = [
        (Misdirected, 421, "http://127.0.0.1"),
        (NoToken, 401, "Authorization: Bearer"),
        (WrongToken, 401, "tokens file"),
        (BrowserWithoutToken, 403, "http.tokens"),
        (ForeignPage, 403, "http.trusted_proxies"),
        (role, 403, "needs the role `admin`, and the token or certificate has `read`"),
    ];
    for (refusal, status, words) in cases {
        assert_eq!(refusal.status(), status);
        assert!(refusal.to_string().contains(words), "{refusal}");
        assert_eq!(refusal.challenge().is_some(), status == 401);
    }
}

#[test]
fn an_address_that_others_reach_needs_tokens_or_certificates() {
    for address in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80", "[::ffff:192.0.2.1]:80"] {
        let address = address.parse().unwrap();
        let refused = check_exposure(address, false, false).unwrap_err().to_string();
        assert!(
            refused.contains("--http-tokens") && refused.contains("--http-client-ca"),
            "{refused}"
        );
        assert!(check_exposure(address, true, false).is_ok());
        assert!(check_exposure(address, false, true).is_ok());
    }
    for address in ["127.0.0.1:8080", "127.3.3.3:1", "[::1]:8080", "[::ffff:127.0.0.1]:80"] {
        assert!(check_exposure(address.parse().unwrap(), false, false).is_ok(), "{address}");
    }
}
