//! Caddy, by `forward_auth`.

use std::process::Command;

use crate::laws;
use crate::proxy::Proxy;
use crate::stage::Stage;
use crate::visitor::look;

const EXAMPLE: &str = include_str!("../../../../examples/proxies/Caddyfile");

/// Runs Caddy with the example, and what it says.
fn caddy(stage: &Stage, replaced: &[(&str, &str)]) -> Proxy {
    Proxy::start("caddy", "serving initial configuration", |address| {
        let listen = format!("http://:{} {{", address.port());
        let config = stage.example(EXAMPLE, &[&[("http://:8000 {", &*listen)], replaced].concat());
        let config = stage.write("Caddyfile", &config);
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config", &config]);
        // It keeps certificates and its last configuration in the home of its user.
        command.env("HOME", stage.path("")).env("XDG_CONFIG_HOME", stage.path("config"));
        command.env("XDG_DATA_HOME", stage.path("data"));
        command
    })
}

#[test]
fn caddy_lets_exactly_the_burst_pass_and_later_more() {
    let stage = Stage::new();
    laws::the_burst_passes_and_later_more(&stage, &caddy(&stage, &[]));
}

#[test]
fn caddy_passes_on_what_the_client_sent_to_the_page() {
    let stage = Stage::new();
    laws::the_page_hears_everything(&stage, &caddy(&stage, &[]));
}

#[test]
fn caddy_counts_each_address_for_itself() {
    let stage = Stage::new();
    laws::each_address_has_its_bucket(&caddy(&stage, &[]));
}

#[test]
fn caddy_keeps_its_connection_to_the_gate() {
    let stage = Stage::new();
    laws::one_connection_suffices(&stage, &caddy(&stage, &[]));
}

#[test]
fn caddy_lets_nobody_pass_while_the_gate_is_away() {
    let mut stage = Stage::new();
    let proxy = caddy(&stage, &[]);
    laws::nobody_passes_without_the_gate(&mut stage, &proxy);
}

#[test]
fn caddy_that_is_told_to_lets_everybody_pass_while_the_gate_is_away() {
    let mut stage = Stage::new();
    let page = format!("reverse_proxy {}", stage.page.address);
    let proxy = caddy(&stage, &[("respond \"The rate limiter does not answer.\" 503", &page)]);
    laws::everybody_passes_without_the_gate(&mut stage, &proxy);
}

#[test]
fn caddy_asks_nobody_twice_when_the_page_is_away() {
    let stage = Stage::new();
    let proxy = caddy(&stage, &[(&stage.page.address.to_string(), "127.0.0.1:1")]);
    assert_eq!(look(proxy.address).status, 502);
}

#[test]
fn caddy_shows_its_token() {
    let stage = Stage::with_tokens("proxy decide a-token-of-the-proxy");
    let line = ("#header_up Authorization", "header_up Authorization");
    let token = ("Bearer TOKEN", "Bearer a-token-of-the-proxy");
    laws::the_burst_passes_and_later_more(&stage, &caddy(&stage, &[line, token]));
    assert_eq!(look(caddy(&stage, &[]).address).status, 401);
}
