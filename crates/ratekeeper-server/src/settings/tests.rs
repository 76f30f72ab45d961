use std::path::Path;
use std::time::Duration;

use ratekeeper::limits::Source;

use super::{DEFAULT_FILE, Role, SETTINGS, Settings, XRateLimit, value};

fn parse(text: &str) -> Result<Settings, String> {
    let mut settings = Settings::default();
    let source = Source { name: "ratekeeper.yaml", text };
    settings
        .apply_file(&source, Path::new("/etc/ratekeeper"))
        .map_err(|faults| faults.to_string())?;
    Ok(settings)
}

#[test]
fn the_default_file_says_what_is_built_in() {
    // From settings that all differ, so that a line that is missing would be seen.
    let mut settings = Settings::default();
    for (name, text) in OTHERS {
        let setting = SETTINGS.iter().find(|setting| setting.name == *name).unwrap();
        let before = settings.clone();
        setting.set(&mut settings, text).unwrap();
        assert_ne!(settings, before, "{name}: {text} is the default");
    }
    assert_eq!(OTHERS.len(), SETTINGS.len(), "a setting is not tried");
    let source = Source { name: "ratekeeper.yaml", text: DEFAULT_FILE };
    settings.apply_file(&source, Path::new("")).unwrap();
    assert_eq!(settings, Settings::default());
}

const OTHERS: &[(&str, &str)] = &[
    ("http.listen", "[::1]:8081"),
    ("http.tokens", "tokens.txt"),
    ("http.tls_cert", "cert.pem"),
    ("http.tls_key", "key.pem"),
    ("http.client_ca", "ca.pem"),
    ("http.client_role", "read"),
    ("http.allow", "10.0.0.0/8"),
    ("http.trusted_proxies", "127.0.0.1"),
    ("http.x_ratelimit", "unix"),
    ("http.connections", "3"),
    ("http.connections_per_source", "3"),
    ("http.streams", "7"),
    ("http.header_time", "1s"),
    ("http.header_bytes", "8KiB"),
    ("http.body_time", "1s"),
    ("http.body_bytes", "1MiB"),
    ("http.stall", "1s"),
    ("udp.listen", "off"),
    ("udp.rules", "rules.yaml"),
    ("udp.allow", "10.0.0.0/8"),
    ("udp.check_limit", "false"),
    ("udp.log_requests", "true"),
    ("bucket.listen", "[::1]:1"),
    ("bucket.buckets", "buckets.conf"),
    ("bucket.allow", "::1, 10.0.0.1"),
    ("bucket.connections", "1"),
    ("bucket.connections_per_source", "1"),
    ("bucket.line_bytes", "100"),
    ("bucket.output_bytes", "128KiB"),
    ("bucket.stall", "1s"),
    ("bucket.idle", "off"),
    ("throttr.listen", "off"),
    ("throttr.allow", "10.0.0.0/8"),
    ("throttr.connections", "2"),
    ("throttr.connections_per_source", "2"),
    ("throttr.output_bytes", "1MiB"),
    ("throttr.stall", "1m"),
    ("throttr.idle", "1h"),
    ("throttr.strict", "true"),
    ("throttr.named_limits", "true"),
    ("resp.listen", "off"),
    ("resp.allow", "10.0.0.0/8"),
    ("resp.connections", "2"),
    ("resp.connections_per_source", "2"),
    ("resp.output_bytes", "1MiB"),
    ("resp.stall", "1m"),
    ("resp.idle", "1h"),
    ("store.address", "redis+cluster://10.0.0.1,10.0.0.2:7000"),
    ("store.timeout", "5ms"),
    ("store.ca", "ca.pem"),
    ("store.cert", "cert.pem"),
    ("store.key", "key.pem"),
    ("limits", "limits.yaml"),
    ("overrides", "overrides.yaml"),
    ("state", "state"),
    ("state_every", "5s"),
    ("workers", "3"),
    ("poll", "50us"),
    ("memory", "1GiB"),
    ("drain", "1s"),
    ("watch", "off"),
    ("control", "ratekeeper.sock"),
    ("log.format", "json"),
    ("log.level", "debug"),
];

#[test]
fn a_setting_is_called_the_same_everywhere() {
    for setting in SETTINGS {
        let flag = setting.flag.to_uppercase().replace('-', "_");
        assert_eq!(setting.variable, format!("RATEKEEPER_{flag}"));
        let plain = setting.name.trim_end_matches(".listen").trim_end_matches(".address");
        let plain = plain.replace(['.', '_'], "-");
        let short = setting.name.rsplit('.').next().unwrap().replace('_', "-");
        assert!([plain, short].contains(&setting.flag.to_owned()), "{}", setting.flag);
    }
}

#[test]
fn paths_are_relative_to_the_file() {
    let settings = parse("limits: limits.yaml\nstate: /var/lib/ratekeeper\nudp: {rules: starter}");
    let settings = settings.unwrap();
    assert_eq!(settings.limits.as_deref(), Some(Path::new("/etc/ratekeeper/limits.yaml")));
    assert_eq!(settings.state.as_deref(), Some(Path::new("/var/lib/ratekeeper")));
    assert_eq!(settings.udp.rules, None);
}

#[test]
fn a_store_that_cannot_be_is_refused_without_its_password() {
    for text in
        ["sesame@redis", "http://:sesame@host", "redis://:sesame@a,b", "redis://:sesame@h:x"]
    {
        let error = parse(&format!("store: {{address: '{text}'}}")).unwrap_err();
        assert!(error.contains("address"), "{error}");
        assert!(!error.contains("sesame"), "{error}");
    }
    assert!(parse("store: {timeout: 0ms}").is_err());
    assert!(parse("store: {timeout: 11s}").is_err());
}

#[test]
fn a_list_may_be_written_as_a_list() {
    let listed = parse("udp: {allow: [10.0.0.0/8, '::1']}").unwrap();
    assert_eq!(listed, parse("udp: {allow: '10.0.0.0/8, ::1'}").unwrap());
    assert_eq!(listed.udp.allow.len(), 2);
}

#[test]
fn a_mapped_network_is_the_ipv4_network() {
    let mapped = parse("udp: {allow: ['::ffff:127.0.0.1', '::ffff:10.0.0.0/104']}").unwrap();
    assert_eq!(mapped, parse("udp: {allow: [127.0.0.1, 10.0.0.0/8]}").unwrap());
    assert!(
        parse("udp: {allow: ['::/0', '::ffff:0:0/90']}").unwrap().udp.allow[1].addr().is_ipv6()
    );
}

#[test]
fn nothing_is_done_without_a_pause() {
    for text in ["state_every: 1ns", "watch: 9ms", "bucket: {stall: 0s}", "throttr: {idle: 1us}"] {
        assert!(parse(text).unwrap_err().contains("at least 10ms"), "{text}");
    }
}

#[test]
fn looking_for_requests_has_a_bound() {
    assert_eq!(parse("poll: 50us").unwrap().poll, Some(Duration::from_micros(50)));
    assert_eq!(parse("poll: off").unwrap().poll, None);
    for text in ["poll: 0s", "poll: 999ns", "poll: 11ms", "poll: on", "poll: 50"] {
        assert!(parse(text).unwrap_err().contains("from 1us to 10ms"), "{text}");
    }
}

#[test]
fn a_word_is_no_path_only_where_it_means_something() {
    let settings = parse("limits: off\nstate: off\ncontrol: starter").unwrap();
    assert_eq!(settings.limits.as_deref(), Some(Path::new("/etc/ratekeeper/off")));
    assert_eq!(settings.state, None);
    assert_eq!(settings.control.path().as_deref(), Some(Path::new("/etc/ratekeeper/starter")));
}

#[test]
fn an_empty_file_and_empty_sections_say_nothing() {
    assert_eq!(parse(""), Ok(Settings::default()));
    assert_eq!(parse("# nothing\nudp:\n  # listen: off\n"), Ok(Settings::default()));
}

#[test]
fn everything_wrong_is_told_at_its_place() {
    let faults = parse("udp:\n  listen: 2000\n  alow: []\nbuckets: {}\nworkers: 0\nmemory: 1\n");
    let faults = faults.unwrap_err();
    for part in [
        "ratekeeper.yaml:2:11: udp.listen is `2000`",
        "expected an address and port: 127.0.0.1:2000 for this machine only, 0.0.0.0:2000 for",
        "ratekeeper.yaml:3:3: unknown setting `udp.alow`",
        "did you mean `allow`?",
        "ratekeeper.yaml:4:1: unknown setting `buckets`",
        "did you mean `bucket`?",
        "ratekeeper.yaml:5:10: workers is `0`",
        "expected a whole number from 1 to 1024, or `auto`",
        "ratekeeper.yaml:6:9: memory is `1`",
        "from 4MiB to 1024GiB",
    ] {
        assert!(faults.contains(part), "{part:?} is not in\n{faults}");
    }
    assert!(parse("- a").is_err());
    assert!(parse("off").is_err());
    assert!(parse("limits: [a, {b: c}]").is_err());
}

#[test]
fn the_words_of_http_settings_are_read_and_others_refused() {
    let dialects = [
        ("off", XRateLimit::Off),
        ("seconds", XRateLimit::Seconds),
        ("unix", XRateLimit::Unix),
        ("unix-ms", XRateLimit::UnixMs),
        ("iso8601", XRateLimit::Iso8601),
    ];
    for (text, dialect) in dialects {
        assert_eq!(value::x_ratelimit(text), Ok(dialect));
    }
    assert!(value::x_ratelimit("Unix").unwrap_err().to_string().contains("`unix-ms`"));
    for role in [Role::Decide, Role::Read, Role::Admin] {
        assert_eq!(value::role(role.name()), Ok(role));
        assert!(Role::Admin.may(role) && role.may(role));
        assert_eq!(role.may(Role::Admin), role == Role::Admin);
    }
    assert!(!Role::Decide.may(Role::Read) && !Role::Read.may(Role::Decide));
    assert_eq!(
        value::role("root").unwrap_err().to_string(),
        "expected `decide`, `read` or `admin`"
    );
}

#[test]
fn an_address_says_the_way_out_or_simply_works() {
    let address = |text: &str| value::address(text);
    assert_eq!(address("localhost:8080"), Ok(Some("127.0.0.1:8080".parse().unwrap())));
    for text in [":8080", "8080"] {
        let refused = address(text).unwrap_err().to_string();
        assert!(refused.contains("127.0.0.1:8080 for this machine only"), "{refused}");
    }
    for text in ["localhost", "localhost:x", "example.org:80", "127.0.0.1", "", ":", ":99999"] {
        let refused = address(text).unwrap_err().to_string();
        assert!(refused.contains("such as 127.0.0.1:2000"), "{text}: {refused}");
    }
}
