//! What the server is told to do: every setting, its default, and where it can be written.
//!
//! A setting has one name, such as `udp.allow`. It is written in `ratekeeper.yaml` under that name,
//! in the environment as `RATEKEEPER_UDP_ALLOW`, and on the command line as `--udp-allow`; the later
//! wins. Wherever it is written, the same text means the same.

mod file;
mod table;
#[cfg(test)]
mod tests;
mod value;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use ratekeeper_redis::Address;

pub use table::{SETTINGS, Setting};
pub use value::{ControlSetting, Level, Role, ValueError, XRateLimit};

/// The settings file that says what is built in: the reference page.
pub const DEFAULT_FILE: &str = include_str!("settings/ratekeeper.yaml");

/// Where the server listens and what it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The HTTP door.
    pub http: HttpSettings,
    /// The UDP rate limiter.
    pub udp: UdpSettings,
    /// The token-bucket server.
    pub bucket: BucketSettings,
    /// Throttr.
    pub throttr: ThrottrSettings,
    /// The RESP door, for clients of Redis.
    pub resp: StreamSettings,
    /// Where buckets are.
    pub store: StoreSettings,
    /// What each limit allows; the starter limits if there is no file.
    pub limits: Option<PathBuf>,
    /// What limits allow to some.
    pub overrides: Option<PathBuf>,
    /// Where what was spent is saved.
    pub state: Option<PathBuf>,
    /// How often it is saved.
    pub state_every: Duration,
    /// How many threads answer; one per core if nothing is said.
    pub workers: Option<NonZeroUsize>,
    /// How long a thread looks for more requests before it sleeps.
    pub poll: Option<Duration>,
    /// How many bytes all buckets may take.
    pub memory: usize,
    /// How long the server may take to stop.
    pub drain: Duration,
    /// How often files are looked at for changes.
    pub watch: Option<Duration>,
    /// The socket that `ratekeeper stats` reads.
    pub control: ControlSetting,
    /// How the log is written.
    pub log: LogSettings,
}

/// Where buckets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Redis or Valkey; this process's memory if there is none.
    pub address: Option<Address>,
    /// How long a decision may wait for it.
    pub timeout: Duration,
    /// Whose certificates are believed under TLS; those the system believes if there is none.
    pub ca: Option<PathBuf>,
    /// A certificate to show, and its key.
    pub cert: Option<PathBuf>,
    /// The key of the certificate.
    pub key: Option<PathBuf>,
}

impl Default for StoreSettings {
    fn default() -> Self {
        let timeout = ratekeeper_redis::WITHIN_DEFAULT;
        Self { address: None, timeout, ca: None, cert: None, key: None }
    }
}

/// Settings of the HTTP door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Where it listens.
    pub listen: Option<std::net::SocketAddr>,
    /// Who may connect; everybody who can reach it if this is empty.
    pub allow: Vec<IpNet>,
    /// How many connections there may be.
    pub connections: usize,
    /// How many of them from one address.
    pub connections_per_source: usize,
    /// How many requests one HTTP/2 connection may have at once.
    pub streams: u32,
    /// How long the head of the next request may take.
    pub header_time: Duration,
    /// How many bytes it may have.
    pub header_bytes: u32,
    /// How long a body may take.
    pub body_time: Duration,
    /// How many bytes it may have.
    pub body_bytes: usize,
    /// How long a client may leave its answers unread.
    pub stall: Duration,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether `X-RateLimit-*` is sent too, and how.
    pub x_ratelimit: XRateLimit,
    /// Who may do what.
    pub tokens: Option<PathBuf>,
    /// The same text from the environment.
    pub tokens_text: Option<SecretText>,
    /// The certificate, and those above it.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// Who signs the certificates that clients must have.
    pub client_ca: Option<PathBuf>,
    /// What a client may do that has a certificate and no token.
    pub client_role: Role,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText(..)")
    }
}

/// Settings of the UDP door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Where it listens.
    pub listen: Option<std::net::SocketAddr>,
    /// Who may ask; everybody who can reach it if this is empty.
    pub allow: Vec<IpNet>,
    /// The rules; the starter rules if there is no file.
    pub rules: Option<PathBuf>,
    /// Whether `check_limit` is answered, whose answer is many times as long as a request.
    pub check_limit: bool,
    /// Whether every request is logged as the original did.
    pub log_requests: bool,
}

/// Settings of the token-bucket door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSettings {
    /// What every door for streams has.
    pub stream: StreamSettings,
    /// The buckets; the starter buckets if there is no file.
    pub buckets: Option<PathBuf>,
    /// The longest line that is read.
    pub line_bytes: usize,
}

/// Settings of the Throttr door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrottrSettings {
    /// What every door for streams has.
    pub stream: StreamSettings,
    /// Whether a request that is not understood closes its connection.
    pub strict: bool,
    /// Whether resources that are called like a limit are decided by it.
    pub named_limits: bool,
}

/// Settings of a door whose clients keep a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// Where it listens.
    pub listen: Option<std::net::SocketAddr>,
    /// Who may connect; everybody who can reach it if this is empty.
    pub allow: Vec<IpNet>,
    /// How many connections there may be.
    pub connections: usize,
    /// How many of them from one address.
    pub connections_per_source: usize,
    /// How many bytes of replies may wait for a client that does not read.
    pub output_bytes: usize,
    /// How long they may wait before the connection is dropped.
    pub stall: Duration,
    /// How long a connection may be silent.
    pub idle: Option<Duration>,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Whether it is JSON.
    pub json: bool,
    /// What is worth a line.
    pub level: Level,
}

impl Settings {
    /// Whether what comes with the program applies, because no file is named of limits, overrides, rules
    /// or buckets.
    pub fn has_starters(&self) -> bool {
        let files = [&self.limits, &self.overrides, &self.udp.rules, &self.bucket.buckets];
        files.into_iter().all(Option::is_none)
    }
}

const LOOPBACK: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

impl Default for Settings {
    fn default() -> Self {
        Self {
            http: HttpSettings::default(),
            udp: UdpSettings {
                listen: Some((LOOPBACK, 2000).into()),
                allow: Vec::new(),
                rules: None,
                check_limit: true,
                log_requests: false,
            },
            bucket: BucketSettings {
                stream: StreamSettings::new(4444, Some(Duration::from_hours(1))),
                buckets: None,
                line_bytes: ratekeeper_protocol::bucket::LINE_BYTES_MAX,
            },
            // Its clients never connect again, so an idle one is left alone.
            throttr: ThrottrSettings {
                stream: StreamSettings::new(9000, None),
                strict: false,
                named_limits: false,
            },
            // Its clients keep connections for later, and Redis leaves an idle one alone.
            resp: StreamSettings::new(6380, None),
            store: StoreSettings::default(),
            limits: None,
            overrides: None,
            state: None,
            state_every: Duration::from_secs(1),
            workers: None,
            poll: None,
            memory: 256 << 20,
            drain: Duration::from_secs(10),
            watch: Some(Duration::from_secs(1)),
            control: ControlSetting::Auto,
            log: LogSettings { json: false, level: Level::Info },
        }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: Some((LOOPBACK, 8080).into()),
            allow: Vec::new(),
            connections: 16_384,
            connections_per_source: 8_192,
            streams: 128,
            header_time: Duration::from_secs(30),
            header_bytes: 16 << 10,
            body_time: Duration::from_secs(10),
            body_bytes: 256 << 10,
            stall: Duration::from_secs(10),
            trusted_proxies: Vec::new(),
            x_ratelimit: XRateLimit::Off,
            tokens: None,
            tokens_text: None,
            tls_cert: None,
            tls_key: None,
            client_ca: None,
            client_role: Role::Decide,
        }
    }
}

impl StreamSettings {
    fn new(port: u16, idle: Option<Duration>) -> Self {
        Self {
            listen: Some((LOOPBACK, port).into()),
            allow: Vec::new(),
            connections: 16_384,
            connections_per_source: 8_192,
            output_bytes: 256 << 10,
            stall: Duration::from_secs(10),
            idle,
        }
    }
}
