//! What `ratekeeper serve` says when all doors are open.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ratekeeper_client::http::Url;
use ratekeeper_console::{Output, say};
use ratekeeper_server::Server;
use ratekeeper_server::settings::{ControlSetting, HttpSettings, Settings};

use crate::error::Error;

/// One line per door for scripts, and for people what to try.
pub(crate) fn announce(server: &Server, settings: &Settings) -> Result<(), Error> {
    let mut output = Output::stdout();
    for (door, address) in server.addresses() {
        output.line(format_args!("listening {door} {address}"))?;
    }
    output.finish()?;
    // Whoever reads the log as JSON reads nothing else from standard error.
    if settings.log.json {
        return Ok(());
    }
    // As this one was called, so that it can be pasted.
    let program = std::env::args().next().unwrap_or_else(|| "ratekeeper".into());
    say(format_args!("\n{}", in_force(settings)));
    say("\nTry it, in another terminal:");
    if let Some(address) = server.address("http") {
        let has_starter_limits = settings.has_starters();
        say_http(&program, &base(address, &settings.http), &settings.http, has_starter_limits);
    }
    say_others(&program, server, settings);
    say_control(&program, &settings.control);
    say("");
    Ok(())
}

/// Which files are in force.
fn in_force(settings: &Settings) -> String {
    if settings.has_starters() {
        return "in force: the limits, rules and buckets that come with the program, for a first try \
                (name your own with --limits, --rules or --buckets)"
            .to_owned();
    }
    let files = [
        ("limits", &settings.limits),
        ("overrides", &settings.overrides),
        ("rules", &settings.udp.rules),
        ("buckets", &settings.bucket.buckets),
    ];
    let told = files.map(|(what, path)| match path {
        Some(path) => format!("{what} {}", path.display()),
        None => format!("no {what}"),
    });
    format!("in force: {}", told.join(", "))
}

/// How the HTTP door is asked, and where its page is.
fn say_http(program: &str, base: &str, settings: &HttpSettings, has_starter_limits: bool) {
    let [limit, id] = if has_starter_limits { ["LoginsPerUser", "ada"] } else { ["LIMIT", "ID"] };
    let has_tokens = settings.tokens.is_some() || settings.tokens_text.is_some();
    let token = if has_tokens { " -H \"Authorization: Bearer $RATEKEEPER_TOKEN\"" } else { "" };
    let body = format!(r#"{{"limit":"{limit}","id":"{id}"}}"#);
    let [curl_tls, own_tls] = ["--cacert", "--ca"].map(|ca| tls_args(ca, settings));
    say(format_args!("  curl{curl_tls}{token} {base}/v1/spend -d '{body}'"));
    let is_usual = base == Url::default().to_string();
    let place = if is_usual { String::new() } else { format!(" --url {base}{own_tls}") };
    say(format_args!("  {program} ask{place} {limit} {id}"));
    say(format_args!("  {program} top{place}"));
    say(format_args!("  page  {base}/"));
}

/// What a client has to be given for https. Which files these are, only their owner knows.
fn tls_args(ca: &str, settings: &HttpSettings) -> String {
    let trusted = settings.tls_cert.as_ref().map(|_| format!(" {ca} CA.pem"));
    let own = settings.client_ca.as_ref().map(|_| " --cert CERT.pem --key KEY.pem".to_owned());
    trusted.into_iter().chain(own).collect()
}

/// How this machine reaches the HTTP door.
fn base(address: SocketAddr, settings: &HttpSettings) -> String {
    let scheme = if settings.tls_cert.is_some() { "https" } else { "http" };
    let host = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(host, address.port()))
}

/// How the other doors are asked.
fn say_others(program: &str, server: &Server, settings: &Settings) {
    // Where it is not where clients look for it, they have to be told.
    let ask = |door: &str, port: u16, words: &str| {
        let Some(address) = server.address(door) else { return };
        let usual = address == SocketAddr::from(([127, 0, 0, 1], port));
        let place = if usual { String::new() } else { format!(" --server {address}") };
        say(format_args!("  {program} ask {}", words.replace(" @", &place)));
    };
    let has_starters = settings.has_starters();
    let udp = if has_starters { "over_limit 'ws global'" } else { "ping" };
    ask("udp", 2000, &format!("udp @ {udp}"));
    let bucket = if has_starters { "bucketa" } else { "NAME" };
    ask("bucket", 4444, &format!("bucket @ {bucket}"));
    ask("throttr", 9000, "throttr insert @ ada /search --quota 10 --usage 1 --ttl 60s");
    ask("resp", 6380, "resp @ CL.THROTTLE ada 9 10 60");
}

fn say_control(program: &str, control: &ControlSetting) {
    match control {
        ControlSetting::Off => {}
        ControlSetting::Auto => say(format_args!("  {program} stats")),
        ControlSetting::At(path) => {
            say(format_args!("  {program} stats --control {}", path.display()));
        }
    }
}
