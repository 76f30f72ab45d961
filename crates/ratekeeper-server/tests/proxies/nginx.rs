//! nginx, by `auth_request`.

use std::process::Command;

use crate::laws;
use crate::proxy::Proxy;
use crate::stage::Stage;
use crate::visitor::look;

const EXAMPLE: &str = include_str!("../../../../examples/proxies/nginx.conf");
const OPEN: (&str, &str) = ("error_page 500 = @closed", "error_page 500 = @open");

/// Runs nginx with the example, and what it says.
fn nginx(stage: &Stage, replaced: &[(&str, &str)]) -> Proxy {
    // One process, which leaves no other behind when it is killed.
    let pid = stage.path("nginx.pid");
    let directives = format!("daemon off; master_process off; pid {pid}; error_log stderr notice;");
    Proxy::start("nginx-light", "getrlimit", |address| {
        let listen = format!("listen {address};");
        let http = format!("http {{\n{}", places(stage));
        let ours = [("listen 127.0.0.1:8000;", &*listen), ("http {\n", &http)];
        let config = stage.example(EXAMPLE, &[&ours[..], replaced].concat());
        let config = stage.write("nginx.conf", &config);
        let mut command = Command::new("/usr/sbin/nginx");
        command.args(["-e", "stderr", "-c", &config, "-g", &directives]);
        command
    })
}

/// Where it may write, as the places that are built in may be root's.
fn places(stage: &Stage) -> String {
    let modules = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places = modules.map(|it| format!("{it}_temp_path {};\n", stage.path(it)));
    format!("access_log off;\n{}", places.concat())
}

#[test]
fn nginx_lets_exactly_the_burst_pass_and_later_more() {
    let stage = Stage::new();
    laws::the_burst_passes_and_later_more(&stage, &nginx(&stage, &[]));
}

#[test]
fn nginx_passes_on_what_the_client_sent_to_the_page_alone() {
    let stage = Stage::new();
    laws::the_page_hears_everything(&stage, &nginx(&stage, &[]));
}

#[test]
fn nginx_counts_each_address_for_itself() {
    let stage = Stage::new();
    laws::each_address_has_its_bucket(&nginx(&stage, &[]));
}

#[test]
fn nginx_keeps_its_connection_to_the_gate_also_when_it_is_denied() {
    let stage = Stage::new();
    laws::one_connection_suffices(&stage, &nginx(&stage, &[]));
}

#[test]
fn nginx_lets_nobody_pass_while_the_gate_is_away() {
    let mut stage = Stage::new();
    let proxy = nginx(&stage, &[]);
    laws::nobody_passes_without_the_gate(&mut stage, &proxy);
}

#[test]
fn nginx_that_is_told_to_lets_everybody_pass_while_the_gate_is_away() {
    let mut stage = Stage::new();
    let proxy = nginx(&stage, &[OPEN]);
    laws::everybody_passes_without_the_gate(&mut stage, &proxy);
}

#[test]
fn nginx_shows_its_token() {
    let stage = Stage::with_tokens("proxy decide a-token-of-the-proxy");
    let line = ("#proxy_set_header Authorization", "proxy_set_header Authorization");
    let token = ("Bearer TOKEN", "Bearer a-token-of-the-proxy");
    laws::the_burst_passes_and_later_more(&stage, &nginx(&stage, &[line, token]));
}

#[test]
fn a_refusal_of_nginx_itself_is_not_told_as_a_denial() {
    let stage = Stage::with_tokens("reader read a-token-that-may-not-spend");
    let line = ("#proxy_set_header Authorization", "proxy_set_header Authorization");
    let token = ("Bearer TOKEN", "Bearer a-token-that-may-not-spend");
    assert_eq!(look(nginx(&stage, &[line, token]).address).status, 500);
    // Without a token at all.
    let answer = look(nginx(&stage, &[]).address);
    assert_eq!((answer.status, answer.field("WWW-Authenticate")), (401, Some("Bearer")));
    assert!(stage.page.asked().is_empty());
}
