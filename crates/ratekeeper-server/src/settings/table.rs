//! The table of all settings: their names, and how each is set.

use std::time::Duration;

use super::value::{self, ValueError};
use super::{Settings, StreamSettings};

/// The most threads that answer.
const WORKERS_MAX: usize = 1024;
/// The most connections of one door.
const CONNECTIONS_MAX: usize = 1 << 20;
/// The largest memory, output and line.
const MEMORY_MAX: usize = 1 << 40;
const OUTPUT_MAX: usize = 64 << 20;
const LINE_MAX: usize = 64 << 10;
const MEMORY_MIN: usize = 4 << 20;
// A read must hold whole requests, and what some clients send behind them.
const OUTPUT_MIN: usize = 64 << 10;
const LINE_MIN: usize = 64;
/// The most requests that an HTTP/2 connection has at once.
const STREAMS_MAX: usize = 1 << 16;
/// The longest head of a request, and the shortest that a browser can do with.
const HEADER_MAX: usize = 1 << 20;
const HEADER_MIN: usize = 4 << 10;
/// The longest body, and the shortest that a large transaction can do with.
const BODY_MAX: usize = 64 << 20;
const BODY_MIN: usize = 4 << 10;

/// The longest that a decision may wait.
const STORE_TIMEOUT_MAX: Duration = Duration::from_secs(10);
/// Who brings a rule along may ask by it for so long.
const _: () = assert!(2 * STORE_TIMEOUT_MAX.as_nanos() < ratekeeper::limiter::ASK_TIME_MAX.get());
/// The longest that a thread looks for requests before it sleeps: looking takes all of a core.
const POLL_MAX: Duration = Duration::from_millis(10);

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in the file, with a dot after the name of its section.
    pub name: &'static str,
    /// Its name on the command line, without the dashes.
    pub flag: &'static str,
    /// Its name in the environment.
    pub variable: &'static str,
    /// What its value looks like.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
    /// If its value is a path, which in a file is relative to that file: the words that are none.
    pub no_path: Option<&'static [&'static str]>,
    set: fn(&mut Settings, &str) -> Result<(), ValueError>,
}

impl Setting {
    /// Sets it to what `text` says. Refuses what it cannot be.
    pub fn set(&self, settings: &mut Settings, text: &str) -> Result<(), ValueError> {
        (self.set)(settings, text)
    }

    /// Whether its text may have a password in it, also one that is wrong.
    pub fn is_secret(&self) -> bool {
        self.name == "store.address"
    }

    /// What is said of a text that it cannot be set to.
    pub fn shown<'t>(&self, text: &'t str) -> &'t str {
        if self.is_secret() { "(not shown)" } else { text }
    }

    /// The setting of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }
}

/// The words of a setting that is a path; nothing for one that is not.
macro_rules! no_path {
    () => {
        None
    };
    ($words:expr) => {
        Some(&$words)
    };
}

/// A row: name, flag, variable, value, help, and what is done with the parsed text.
macro_rules! settings {
    ($($name:literal $flag:literal $variable:literal $value:literal $help:literal
        $(path $no_path:expr)? => $set:expr;)*) => {
        /// Every setting there is, in the order of the reference page.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            flag: $flag,
            variable: concat!("RATEKEEPER_", $variable),
            value: $value,
            help: $help,
            no_path: no_path!($($no_path)?),
            set: $set,
        }),*];
    };
}

settings! {
    "http.listen" "http" "HTTP" "ADDR|off" "Where the HTTP API and the page listen"
        => |s, text| value::address(text).map(|it| s.http.listen = it);
    "http.tokens" "http-tokens" "HTTP_TOKENS" "FILE" "Who may do what: a file of `NAME ROLE TOKEN`" path ["none"]
        => |s, text| value::path(text, "none").map(|it| s.http.tokens = it);
    "http.tls_cert" "http-tls-cert" "HTTP_TLS_CERT" "FILE" "Its certificate, for https" path ["off"]
        => |s, text| value::path(text, "off").map(|it| s.http.tls_cert = it);
    "http.tls_key" "http-tls-key" "HTTP_TLS_KEY" "FILE" "The key of its certificate" path ["off"]
        => |s, text| value::path(text, "off").map(|it| s.http.tls_key = it);
    "http.client_ca" "http-client-ca" "HTTP_CLIENT_CA" "FILE" "Who signs the certificates that clients must have"
        path ["off"]
        => |s, text| value::path(text, "off").map(|it| s.http.client_ca = it);
    "http.client_role" "http-client-role" "HTTP_CLIENT_ROLE" "ROLE" "What clients with a certificate may do"
        => |s, text| value::role(text).map(|it| s.http.client_role = it);
    "http.allow" "http-allow" "HTTP_ALLOW" "NETS" "Who may connect to it"
        => |s, text| value::networks(text).map(|it| s.http.allow = it);
    "http.trusted_proxies" "http-trusted-proxies" "HTTP_TRUSTED_PROXIES" "NETS" "Whose X-Forwarded-For is believed"
        => |s, text| value::networks(text).map(|it| s.http.trusted_proxies = it);
    "http.x_ratelimit" "http-x-ratelimit" "HTTP_X_RATELIMIT" "FORM" "Send X-RateLimit-* too, with Reset in this form"
        => |s, text| value::x_ratelimit(text).map(|it| s.http.x_ratelimit = it);
    "http.connections" "http-connections" "HTTP_CONNECTIONS" "N" "How many connections it has at most"
        => |s, text| value::number(text, CONNECTIONS_MAX).map(|it| s.http.connections = it);
    "http.connections_per_source" "http-connections-per-source" "HTTP_CONNECTIONS_PER_SOURCE" "N"
        "How many of them from one address"
        => |s, text| value::number(text, CONNECTIONS_MAX).map(|it| s.http.connections_per_source = it);
    "http.streams" "http-streams" "HTTP_STREAMS" "N" "How many requests an HTTP/2 connection may have at once"
        => |s, text| number(text, STREAMS_MAX).map(|it| s.http.streams = it);
    "http.header_time" "http-header-time" "HTTP_HEADER_TIME" "DURATION" "How long the head of the next request may take"
        => |s, text| value::length(text).map(|it| s.http.header_time = it);
    "http.header_bytes" "http-header-bytes" "HTTP_HEADER_BYTES" "SIZE" "How long it may be"
        => |s, text| value::size(text, HEADER_MIN, HEADER_MAX).map(|it| s.http.header_bytes = saturating(it));
    "http.body_time" "http-body-time" "HTTP_BODY_TIME" "DURATION" "How long a body may take"
        => |s, text| value::length(text).map(|it| s.http.body_time = it);
    "http.body_bytes" "http-body-bytes" "HTTP_BODY_BYTES" "SIZE" "How long it may be"
        => |s, text| value::size(text, BODY_MIN, BODY_MAX).map(|it| s.http.body_bytes = it);
    "http.stall" "http-stall" "HTTP_STALL" "DURATION" "How long a client may leave its answers unread"
        => |s, text| value::length(text).map(|it| s.http.stall = it);

    "udp.listen" "udp" "UDP" "ADDR|off" "Where the UDP rate limiter listens"
        => |s, text| value::address(text).map(|it| s.udp.listen = it);
    "udp.rules" "rules" "RULES" "FILE" "The rules of the UDP rate limiter" path ["starter"]
        => |s, text| value::path(text, "starter").map(|it| s.udp.rules = it);
    "udp.allow" "udp-allow" "UDP_ALLOW" "NETS" "Who may ask it, such as 10.0.0.0/8"
        => |s, text| value::networks(text).map(|it| s.udp.allow = it);
    "udp.check_limit" "udp-check-limit" "UDP_CHECK_LIMIT" "BOOL" "Answer `check_limit`, whose answers are long"
        => |s, text| value::switch(text).map(|it| s.udp.check_limit = it);
    "udp.log_requests" "udp-log-requests" "UDP_LOG_REQUESTS" "BOOL" "Log every request and answer"
        => |s, text| value::switch(text).map(|it| s.udp.log_requests = it);

    "bucket.listen" "bucket" "BUCKET" "ADDR|off" "Where the token-bucket server listens"
        => |s, text| value::address(text).map(|it| s.bucket.stream.listen = it);
    "bucket.buckets" "buckets" "BUCKETS" "FILE" "The buckets of the token-bucket server" path ["starter"]
        => |s, text| value::path(text, "starter").map(|it| s.bucket.buckets = it);
    "bucket.allow" "bucket-allow" "BUCKET_ALLOW" "NETS" "Who may connect to it"
        => |s, text| allow(&mut s.bucket.stream, text);
    "bucket.connections" "bucket-connections" "BUCKET_CONNECTIONS" "N" "How many connections it has at most"
        => |s, text| connections(&mut s.bucket.stream, text);
    "bucket.connections_per_source" "bucket-connections-per-source" "BUCKET_CONNECTIONS_PER_SOURCE" "N"
        "How many of them from one address"
        => |s, text| connections_per_source(&mut s.bucket.stream, text);
    "bucket.line_bytes" "bucket-line-bytes" "BUCKET_LINE_BYTES" "SIZE" "The longest line it reads"
        => |s, text| value::size(text, LINE_MIN, LINE_MAX).map(|it| s.bucket.line_bytes = it);
    "bucket.output_bytes" "bucket-output-bytes" "BUCKET_OUTPUT_BYTES" "SIZE"
        "How much may wait for a client that does not read"
        => |s, text| output_bytes(&mut s.bucket.stream, text);
    "bucket.stall" "bucket-stall" "BUCKET_STALL" "DURATION" "How long it may wait"
        => |s, text| value::length(text).map(|it| s.bucket.stream.stall = it);
    "bucket.idle" "bucket-idle" "BUCKET_IDLE" "DURATION|off" "How long a connection may be silent"
        => |s, text| value::length_or_off(text).map(|it| s.bucket.stream.idle = it);

    "throttr.listen" "throttr" "THROTTR" "ADDR|off" "Where Throttr listens"
        => |s, text| value::address(text).map(|it| s.throttr.stream.listen = it);
    "throttr.allow" "throttr-allow" "THROTTR_ALLOW" "NETS" "Who may connect to it"
        => |s, text| allow(&mut s.throttr.stream, text);
    "throttr.connections" "throttr-connections" "THROTTR_CONNECTIONS" "N" "How many connections it has at most"
        => |s, text| connections(&mut s.throttr.stream, text);
    "throttr.connections_per_source" "throttr-connections-per-source" "THROTTR_CONNECTIONS_PER_SOURCE" "N"
        "How many of them from one address"
        => |s, text| connections_per_source(&mut s.throttr.stream, text);
    "throttr.output_bytes" "throttr-output-bytes" "THROTTR_OUTPUT_BYTES" "SIZE"
        "How much may wait for a client that does not read"
        => |s, text| output_bytes(&mut s.throttr.stream, text);
    "throttr.stall" "throttr-stall" "THROTTR_STALL" "DURATION" "How long it may wait"
        => |s, text| value::length(text).map(|it| s.throttr.stream.stall = it);
    "throttr.idle" "throttr-idle" "THROTTR_IDLE" "DURATION|off" "How long a connection may be silent"
        => |s, text| value::length_or_off(text).map(|it| s.throttr.stream.idle = it);
    "throttr.strict" "throttr-strict" "THROTTR_STRICT" "BOOL" "Close on what is not understood"
        => |s, text| value::switch(text).map(|it| s.throttr.strict = it);
    "throttr.named_limits" "throttr-named-limits" "THROTTR_NAMED_LIMITS" "BOOL"
        "Let limits decide over resources of their name"
        => |s, text| value::switch(text).map(|it| s.throttr.named_limits = it);

    "resp.listen" "resp" "RESP" "ADDR|off" "Where clients of Redis are answered"
        => |s, text| value::address(text).map(|it| s.resp.listen = it);
    "resp.allow" "resp-allow" "RESP_ALLOW" "NETS" "Who may connect there"
        => |s, text| allow(&mut s.resp, text);
    "resp.connections" "resp-connections" "RESP_CONNECTIONS" "N" "How many connections it has at most"
        => |s, text| connections(&mut s.resp, text);
    "resp.connections_per_source" "resp-connections-per-source" "RESP_CONNECTIONS_PER_SOURCE" "N"
        "How many of them from one address"
        => |s, text| connections_per_source(&mut s.resp, text);
    "resp.output_bytes" "resp-output-bytes" "RESP_OUTPUT_BYTES" "SIZE"
        "How much may wait for a client that does not read"
        => |s, text| output_bytes(&mut s.resp, text);
    "resp.stall" "resp-stall" "RESP_STALL" "DURATION" "How long it may wait"
        => |s, text| value::length(text).map(|it| s.resp.stall = it);
    "resp.idle" "resp-idle" "RESP_IDLE" "DURATION|off" "How long a connection may be silent"
        => |s, text| value::length_or_off(text).map(|it| s.resp.idle = it);

    "store.address" "store" "STORE" "ADDRESS|memory" "Where buckets are: Redis or Valkey, as redis://HOST"
        => |s, text| value::store(text).map(|it| s.store.address = it);
    "store.timeout" "store-timeout" "STORE_TIMEOUT" "DURATION" "How long a decision may wait for it"
        => |s, text| value::wait(text, STORE_TIMEOUT_MAX).map(|it| s.store.timeout = it);
    "store.ca" "store-ca" "STORE_CA" "FILE" "Whose certificates it may show, under rediss://" path ["off"]
        => |s, text| value::path(text, "off").map(|it| s.store.ca = it);
    "store.cert" "store-cert" "STORE_CERT" "FILE" "The certificate that is shown to it" path ["off"]
        => |s, text| value::path(text, "off").map(|it| s.store.cert = it);
    "store.key" "store-key" "STORE_KEY" "FILE" "The key of that certificate" path ["off"]
        => |s, text| value::path(text, "off").map(|it| s.store.key = it);

    "limits" "limits" "LIMITS" "FILE" "What each limit allows" path ["starter"]
        => |s, text| value::path(text, "starter").map(|it| s.limits = it);
    "overrides" "overrides" "OVERRIDES" "FILE" "What limits allow to some" path ["none"]
        => |s, text| value::path(text, "none").map(|it| s.overrides = it);
    "state" "state" "STATE" "DIR|off" "Where what was spent is saved" path ["off"]
        => |s, text| value::path(text, "off").map(|it| s.state = it);
    "state_every" "state-every" "STATE_EVERY" "DURATION" "How often it is saved"
        => |s, text| value::length(text).map(|it| s.state_every = it);
    "workers" "workers" "WORKERS" "N|auto" "How many threads answer"
        => |s, text| value::number_or_auto(text, WORKERS_MAX).map(|it| s.workers = it);
    "poll" "poll" "POLL" "DURATION|off" "How long a thread looks for more requests before it sleeps"
        => |s, text| value::poll(text, POLL_MAX).map(|it| s.poll = it);
    "memory" "memory" "MEMORY" "SIZE" "How much memory all buckets may take"
        => |s, text| value::size(text, MEMORY_MIN, MEMORY_MAX).map(|it| s.memory = it);
    "drain" "drain" "DRAIN" "DURATION" "How long the server may take to stop"
        => |s, text| value::length(text).map(|it| s.drain = it);
    "watch" "watch" "WATCH" "DURATION|off" "How often files are looked at for changes"
        => |s, text| value::length_or_off(text).map(|it| s.watch = it);
    "control" "control" "CONTROL" "PATH|off" "The socket that `ratekeeper stats` reads" path ["auto", "off"]
        => |s, text| value::control(text).map(|it| s.control = it);
    "log.format" "log-format" "LOG_FORMAT" "text|json" "How the log is written"
        => |s, text| value::is_json(text).map(|it| s.log.json = it);
    "log.level" "log-level" "LOG_LEVEL" "LEVEL" "What is worth a line in the log"
        => |s, text| value::level(text).map(|it| s.log.level = it);
}

fn number(text: &str, max: usize) -> Result<u32, ValueError> {
    value::number(text, max).map(saturating)
}

fn saturating(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn allow(stream: &mut StreamSettings, text: &str) -> Result<(), ValueError> {
    value::networks(text).map(|networks| stream.allow = networks)
}

fn connections(stream: &mut StreamSettings, text: &str) -> Result<(), ValueError> {
    value::number(text, CONNECTIONS_MAX).map(|number| stream.connections = number)
}

fn connections_per_source(stream: &mut StreamSettings, text: &str) -> Result<(), ValueError> {
    value::number(text, CONNECTIONS_MAX).map(|number| stream.connections_per_source = number)
}

fn output_bytes(stream: &mut StreamSettings, text: &str) -> Result<(), ValueError> {
    value::size(text, OUTPUT_MIN, OUTPUT_MAX).map(|bytes| stream.output_bytes = bytes)
}
