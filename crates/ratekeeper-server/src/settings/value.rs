//! From the text of a setting to its value.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use ratekeeper::limits::parse_duration;
use ratekeeper_redis::Address;

/// What is worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What went wrong.
    Error,
    /// And what may go wrong.
    Warn,
    /// And what an operator wants to know.
    Info,
    /// And what a developer wants to know.
    Debug,
}

/// Where the counters can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlSetting {
    /// Nowhere.
    Off,
    /// At a path that depends on the user only.
    Auto,
    /// At this path.
    At(PathBuf),
}

impl ControlSetting {
    /// Where a server of this user has its socket if nothing else is said.
    pub fn usual_path() -> PathBuf {
        match nix::unistd::getuid() {
            user if user.is_root() => "/run/ratekeeper.sock".into(),
            user => format!("/tmp/ratekeeper-{user}.sock").into(),
        }
    }

    /// The path of the socket, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Off => None,
            Self::Auto => Some(Self::usual_path()),
            Self::At(path) => Some(path.clone()),
        }
    }
}

/// Whether `X-RateLimit-*` is sent, and what `X-RateLimit-Reset` counts. There never was a
/// standard, so clients differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XRateLimit {
    /// None of them is sent.
    #[default]
    Off,
    /// Seconds from now.
    Seconds,
    /// Seconds since 1970.
    Unix,
    /// Milliseconds since 1970.
    UnixMs,
    /// A date, such as `2026-12-01T00:00:00Z`.
    Iso8601,
}

/// What somebody may ask of the server over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To decide: spend, check, refund and reset.
    Decide,
    /// To look at limits, buckets and counters.
    Read,
    /// Everything, also to change overrides.
    Admin,
}

impl Role {
    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Decide, Self::Read, Self::Admin].into_iter().find(|role| role.name() == name)
    }

    /// Its name, as it is written in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// Whether it suffices where `needed` is needed. Who may decide may not look, nor the other
    /// way round: a service that asks has no business with the ids of others.
    pub fn may(self, needed: Self) -> bool {
        self == Self::Admin || self == needed
    }
}

/// Why a text is not the value of a setting: what was expected instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct ValueError {
    /// What would be right.
    pub expected: String,
}

/// Nothing that the server does in turns is done more often than this.
const LENGTH_MIN: Duration = Duration::from_millis(10);
/// The shortest wait for an answer.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// The shortest look for requests.
const POLL_MIN: Duration = Duration::from_micros(1);
const EXPECTED_LENGTH: &str = "a duration such as 500ms, 10s or 1h, at least 10ms";

type Parsed<T> = Result<T, ValueError>;

fn refuse<T>(expected: impl Into<String>) -> Parsed<T> {
    Err(ValueError { expected: expected.into() })
}

/// An address and port. `localhost` is this machine, and no other name is looked up: it could lead
/// anywhere.
pub(super) fn address(text: &str) -> Parsed<Option<SocketAddr>> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    match (text, local, text.parse()) {
        ("off", ..) => Ok(None),
        (_, Some(address), _) | (_, None, Ok(address)) => Ok(Some(address)),
        _ => match text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
            Ok(port) => refuse(format!(
                "an address and port: 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for \
                 everybody who can reach it; or `off`"
            )),
            Err(_) => refuse(
                "an address and port such as 127.0.0.1:2000, [::1]:2000 or localhost:2000, or `off`; \
                 other names are not looked up",
            ),
        },
    }
}

/// The address of a shared store. What is wrong with it is told without it: there may be a password
/// in it.
pub(super) fn store(text: &str) -> Parsed<Option<Address>> {
    match (text, text.parse()) {
        ("memory", _) => Ok(None),
        (_, Ok(address)) => Ok(Some(address)),
        (_, Err(error)) => refuse(format!("`memory`, or an address such as redis://HOST: {error}")),
    }
}

/// How long something may be waited for.
pub(super) fn wait(text: &str, max: Duration) -> Parsed<Duration> {
    let parsed = parse_duration(text).ok().map(Duration::from);
    match parsed.filter(|wait| (WAIT_MIN..=max).contains(wait)) {
        Some(wait) => Ok(wait),
        None => refuse(format!("a duration from 1ms to {}s, such as 25ms", max.as_secs())),
    }
}

/// How long something is looked for before sleeping.
pub(super) fn poll(text: &str, max: Duration) -> Parsed<Option<Duration>> {
    let parsed = parse_duration(text).ok().map(Duration::from);
    match (text, parsed.filter(|length| (POLL_MIN..=max).contains(length))) {
        ("off", _) => Ok(None),
        (_, Some(length)) => Ok(Some(length)),
        _ => {
            refuse(format!("a duration from 1us to {}ms, such as 50us; or `off`", max.as_millis()))
        }
    }
}

/// Networks, separated by commas; an address alone is a network of one.
pub(super) fn networks(text: &str) -> Parsed<Vec<IpNet>> {
    let network = |text: &str| {
        let alone = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse::<IpNet>().or_else(|_| alone()).ok().map(plain)
    };
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    match words.map(network).collect::<Option<Vec<_>>>() {
        Some(networks) => Ok(networks),
        None => refuse("networks such as 10.0.0.0/8 or 2001:db8::/32, separated by commas"),
    }
}

/// Clients are known by their IPv4 address if they have one, so networks are too.
fn plain(network: IpNet) -> IpNet {
    let length = network.prefix_len().checked_sub(MAPPED_BITS);
    match (network.addr().to_canonical(), length) {
        (address @ IpAddr::V4(_), Some(length)) if network.addr().is_ipv6() => {
            IpNet::new(address, length).unwrap_or(network)
        }
        _ => network,
    }
}

/// How many bits stand before the IPv4 address in `::ffff:10.0.0.1`.
const MAPPED_BITS: u8 = 96;

/// A path, or nothing for the word that means nothing.
pub(super) fn path(text: &str, nothing: &str) -> Parsed<Option<PathBuf>> {
    match text {
        "" => refuse(format!("a path, or `{nothing}`")),
        _ if text == nothing => Ok(None),
        _ => Ok(Some(PathBuf::from(text))),
    }
}

pub(super) fn control(text: &str) -> Parsed<ControlSetting> {
    match text {
        "" => refuse("a path, `auto` or `off`"),
        "off" => Ok(ControlSetting::Off),
        "auto" => Ok(ControlSetting::Auto),
        path => Ok(ControlSetting::At(path.into())),
    }
}

pub(super) fn switch(text: &str) -> Parsed<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => refuse("`true` or `false`"),
    }
}

/// A length of time, at least [`LENGTH_MIN`].
pub(super) fn length(text: &str) -> Parsed<Duration> {
    let refused = || ValueError { expected: EXPECTED_LENGTH.into() };
    let length = parse_duration(text).map(Duration::from).map_err(|_| refused())?;
    if length >= LENGTH_MIN { Ok(length) } else { Err(refused()) }
}

pub(super) fn length_or_off(text: &str) -> Parsed<Option<Duration>> {
    match (text, length(text)) {
        ("off", _) => Ok(None),
        (_, Ok(length)) => Ok(Some(length)),
        _ => refuse(format!("{EXPECTED_LENGTH}; or `off`")),
    }
}

/// A number of bytes from `min` to `max`, such as `4096`, `64KiB` or `2GiB`.
pub(super) fn size(text: &str, min: usize, max: usize) -> Parsed<usize> {
    const UNITS: [(&str, usize); 4] =
        [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)];
    let parse = |(unit, bytes): (&str, usize)| {
        let number = text.strip_suffix(unit)?.trim_end().parse::<usize>().ok()?;
        number.checked_mul(bytes)
    };
    match UNITS.into_iter().find_map(parse) {
        Some(size) if (min..=max).contains(&size) => Ok(size),
        _ => refuse(format!(
            "a size such as 4096, 64KiB or 2GiB, from {} to {}",
            shown_size(min),
            shown_size(max)
        )),
    }
}

fn shown_size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

pub(super) fn number(text: &str, max: usize) -> Parsed<usize> {
    match text.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => refuse(format!("a whole number from 1 to {max}")),
    }
}

pub(super) fn number_or_auto(text: &str, max: usize) -> Parsed<Option<NonZeroUsize>> {
    match (text, number(text, max)) {
        ("auto", _) => Ok(None),
        (_, Ok(number)) => Ok(NonZeroUsize::new(number)),
        _ => refuse(format!("a whole number from 1 to {max}, or `auto`")),
    }
}

pub(super) fn level(text: &str) -> Parsed<Level> {
    match text {
        "error" => Ok(Level::Error),
        "warn" => Ok(Level::Warn),
        "info" => Ok(Level::Info),
        "debug" => Ok(Level::Debug),
        _ => refuse("`error`, `warn`, `info` or `debug`"),
    }
}

/// Whether the log is JSON.
pub(super) fn is_json(text: &str) -> Parsed<bool> {
    match text {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => refuse("`text` or `json`"),
    }
}

/// Which dialect of `X-RateLimit-*` is spoken.
pub(super) fn x_ratelimit(text: &str) -> Parsed<XRateLimit> {
    match text {
        "off" => Ok(XRateLimit::Off),
        "seconds" => Ok(XRateLimit::Seconds),
        "unix" => Ok(XRateLimit::Unix),
        "unix-ms" => Ok(XRateLimit::UnixMs),
        "iso8601" => Ok(XRateLimit::Iso8601),
        _ => refuse("`off`, `seconds`, `unix`, `unix-ms` or `iso8601`"),
    }
}

pub(super) fn role(text: &str) -> Parsed<Role> {
    match Role::named(text) {
        Some(role) => Ok(role),
        None => refuse("`decide`, `read` or `admin`"),
    }
}
