//! Where Redis is, and who we are to it: read from one line of text, shown without its secrets.

use std::fmt;
use std::path::PathBuf;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    ProtocolVersion, RedisConnectionInfo, TlsCertificates,
};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where Redis or Valkey is.
///
/// ```text
/// redis://[user:password@]host[:port][/database]              one server
/// redis+sentinel://[user:password@]host[:port],../service[/database]   a primary that Sentinels know
/// redis+cluster://[user:password@]host[:port],..              a cluster, by some of its nodes
/// ```
///
/// With `rediss` in place of `redis` all connections are under TLS. `valkey` means the same as
/// `redis`. A password may stand alone, as `:password@`; what is special in an address is written
/// as `%40`. Sentinels that ask for credentials are given the same ones.
///
/// Neither `Debug` nor `Display` shows the credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    layout: Layout,
    hosts: Vec<(String, u16)>,
    is_tls: bool,
    user: Option<String>,
    password: Option<String>,
    database: i64,
}

/// What stands at the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Single,
    /// Sentinels, and what they call the primary.
    Sentinel(String),
    Cluster,
}

/// What TLS needs, as it was read from files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Whose certificates are believed; those the system believes if there is none.
    pub authority: Option<PemFile>,
    /// A certificate and its key to show to the server.
    pub client: Option<(PemFile, PemFile)>,
}

/// What was in a file of certificates or with a key. `Debug` shows only where the file is.
#[derive(Clone, PartialEq, Eq)]
pub struct PemFile {
    /// Where it was read, for messages. Nothing is read there again.
    pub path: PathBuf,
    /// What was in it.
    pub text: Vec<u8>,
}

impl fmt::Debug for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PemFile({})", self.path.display())
    }
}

/// Why an address cannot be used. It never repeats the address, which may hold a password.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum AddressError {
    #[error(
        "the store's address must begin with redis://, rediss://, redis+sentinel:// or \
         redis+cluster://"
    )]
    Scheme,
    #[error("the store's address names no host")]
    NoHost,
    #[error("`{0}` in the store's address is not host:port")]
    Host(String),
    #[error("the store's address names several hosts: say redis+sentinel:// or redis+cluster://")]
    ManyHosts,
    #[error("the database in the store's address must be a number")]
    Database,
    #[error("a cluster has no databases: leave out what follows the hosts")]
    ClusterDatabase,
    #[error("say what the Sentinels call the primary: redis+sentinel://host:port/service")]
    NoService,
    #[error("`%` in the store's address must be followed by two hexadecimal digits")]
    Percent,
    #[error("options after `?` in the store's address are not known")]
    Options,
    #[error("a file for TLS was given, but the store's address does not begin with rediss")]
    TlsUnused,
    #[error("TLS to the store cannot be set up with {files}")]
    Tls { files: String, source: redis::RedisError },
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let (is_tls, kind) = scheme_of(scheme).ok_or(AddressError::Scheme)?;
        if rest.contains('?') {
            return Err(AddressError::Options);
        }
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, hosts) = match place.rsplit_once('@') {
            Some((who, hosts)) => (Some(who), hosts),
            None => (None, place),
        };
        let (user, password) = credentials(who)?;
        let (layout, database) = layout(kind, path)?;
        let port = if matches!(layout, Layout::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        let hosts: Vec<_> = hosts
            .split(',')
            .filter(|host| !host.is_empty())
            .map(|text| host(text, port))
            .collect::<Result<_, _>>()?;
        match hosts.len() {
            0 => Err(AddressError::NoHost),
            2.. if layout == Layout::Single => Err(AddressError::ManyHosts),
            _ => Ok(Self { layout, hosts, is_tls, user, password, database }),
        }
    }
}

fn scheme_of(scheme: &str) -> Option<(bool, Option<&str>)> {
    let (name, kind) = match scheme.split_once('+') {
        Some((name, kind)) => (name, Some(kind)),
        None => (scheme, None),
    };
    match name {
        "redis" | "valkey" => Some((false, kind)),
        "rediss" | "valkeys" => Some((true, kind)),
        _ => None,
    }
}

fn credentials(who: Option<&str>) -> Result<(Option<String>, Option<String>), AddressError> {
    let Some(who) = who else { return Ok((None, None)) };
    let (user, password) = match who.split_once(':') {
        Some((user, password)) => (user, Some(decode(password)?)),
        None => (who, None),
    };
    let user = if user.is_empty() { None } else { Some(decode(user)?) };
    Ok((user, password))
}

fn layout(kind: Option<&str>, path: &str) -> Result<(Layout, i64), AddressError> {
    match kind {
        None => Ok((Layout::Single, database(path)?)),
        Some("cluster") if path.is_empty() || path == "0" => Ok((Layout::Cluster, 0)),
        Some("cluster") => Err(AddressError::ClusterDatabase),
        Some("sentinel") => {
            let (service, rest) = path.split_once('/').unwrap_or((path, ""));
            if service.is_empty() {
                return Err(AddressError::NoService);
            }
            Ok((Layout::Sentinel(decode(service)?), database(rest)?))
        }
        Some(_) => Err(AddressError::Scheme),
    }
}

fn database(text: &str) -> Result<i64, AddressError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse::<u32>().map(i64::from).map_err(|_| AddressError::Database)
}

fn host(text: &str, port: u16) -> Result<(String, u16), AddressError> {
    let wrong = || AddressError::Host(text.to_owned());
    let (name, rest) = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']').ok_or_else(wrong)?,
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    let port = match rest.strip_prefix(':') {
        Some(digits) => digits.parse().map_err(|_| wrong())?,
        None if rest.is_empty() => port,
        None => return Err(wrong()),
    };
    if name.is_empty() { Err(wrong()) } else { Ok((name.to_owned(), port)) }
}

fn decode(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or(AddressError::Percent)?;
        let digits = str::from_utf8(digits).map_err(|_| AddressError::Percent)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| AddressError::Percent)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Percent)
}

impl Address {
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn hosts(&self) -> &[(String, u16)] {
        &self.hosts
    }
}

/// Without the credentials.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.layout {
            Layout::Single => "",
            Layout::Sentinel(_) => "+sentinel",
            Layout::Cluster => "+cluster",
        };
        write!(f, "redis{}{kind}://", if self.is_tls { "s" } else { "" })?;
        for (index, (host, port)) in self.hosts.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", Named(host, *port))?;
        }
        if let Layout::Sentinel(service) = &self.layout {
            write!(f, "/{service}")?;
        }
        if self.database == 0 { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

/// Without the credentials.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// A host and a port as one writes them.
pub(crate) struct Named<'a>(pub(crate) &'a str, pub(crate) u16);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') {
            write!(f, "[{}]:{}", self.0, self.1)
        } else {
            write!(f, "{}:{}", self.0, self.1)
        }
    }
}

/// What it takes to connect to any node at an address: its credentials, and its certificates in
/// memory.
#[derive(Clone)]
pub(crate) struct Access {
    template: ConnectionInfo,
}

impl Access {
    /// Refuses certificates that cannot be used, or are not needed. Nothing is read from a disk.
    pub(crate) fn new(address: &Address, tls: &Tls) -> Result<Self, AddressError> {
        let mut settings = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(address.database);
        if let Some(user) = &address.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &address.password {
            settings = settings.set_password(password);
        }
        let addr = if address.is_tls {
            secure(tls)?
        } else if *tls == Tls::default() {
            ConnectionAddr::Tcp(String::new(), PORT)
        } else {
            return Err(AddressError::TlsUnused);
        };
        let failed = |source| AddressError::Tls { files: tls.files(), source };
        let info = addr.into_connection_info().map_err(failed)?;
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        Ok(Self { template: info.set_redis_settings(settings).set_tcp_settings(tcp) })
    }

    /// How to connect to one node.
    pub(crate) fn node(&self, name: &str, port: u16) -> Client {
        let mut addr = self.template.addr().clone();
        match &mut addr {
            ConnectionAddr::Tcp(host, at) => (*host, *at) = (name.to_owned(), port),
            ConnectionAddr::TcpTls { host, port: at, .. } => {
                (*host, *at) = (name.to_owned(), port);
            }
            _ => {}
        }
        Self::client(self.template.clone().set_addr(addr))
    }

    /// How to connect to a Sentinel, which has no databases and often wants no credentials.
    pub(crate) fn sentinel(&self, name: &str, port: u16, with_credentials: bool) -> Client {
        let node = self.node(name, port);
        let info = node.get_connection_info();
        let settings = if with_credentials {
            info.redis_settings().clone().set_db(0)
        } else {
            RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3)
        };
        Self::client(info.clone().set_redis_settings(settings))
    }

    fn client(info: ConnectionInfo) -> Client {
        #[expect(clippy::expect_used, reason = "opening only copies what it is given")]
        Client::open(info).expect("an address that was built, not parsed, is taken as it is")
    }
}

impl Tls {
    /// Where all of it was read, for messages.
    fn files(&self) -> String {
        let client = self.client.iter().flat_map(|(certificate, key)| [certificate, key]);
        let files = self.authority.iter().chain(client);
        let files: Vec<_> = files.map(|file| file.path.display().to_string()).collect();
        if files.is_empty() { "the system's certificates".to_owned() } else { files.join(", ") }
    }
}

fn secure(tls: &Tls) -> Result<ConnectionAddr, AddressError> {
    let root_cert = tls.authority.as_ref().map(|file| file.text.clone());
    let client_tls = tls.client.as_ref().map(|(certificate, key)| ClientTlsConfig {
        client_cert: certificate.text.clone(),
        client_key: key.text.clone(),
    });
    let addr = ConnectionAddr::TcpTls {
        host: String::new(),
        port: PORT,
        insecure: false,
        tls_params: None,
    };
    if root_cert.is_none() && client_tls.is_none() {
        return Ok(addr);
    }
    let client = Client::build_with_tls(addr, TlsCertificates { client_tls, root_cert });
    let client = client.map_err(|source| AddressError::Tls { files: tls.files(), source })?;
    Ok(client.get_connection_info().addr().clone())
}

#[cfg(test)]
mod tests;
