//! The servers that are measured: ours, those that only echo, and those of others.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::Failure;
use super::process::{Process, SERVER_CORE, output, pinned};

/// The limit that everybody asks for; the words of every peer say the same. A token takes an hour to
/// come back, so nobody forgets a key while it is measured, and there are enough that nobody is denied.
/// What peers reckon with, in nanoseconds since 1970, still fits into 63 bits.
pub(super) const LIMIT: &str = "RequestsPerClient";
pub(super) const BURST: u64 = 2_000_000;
pub(super) const COUNT: u64 = 1;
pub(super) const PERIOD_SECS: u64 = 3_600;

/// The limit of a key that all ask for, with a name as long: at 20 million a second it has enough for more than a minute and
/// a half, and is asked for less long.
pub(super) const HOT_LIMIT: &str = "RequestsOfOneUser";
const HOT_BURST: u64 = 2_000_000_000;
const HOT_COUNT: u64 = 1_000_000;
const HOT_PERIOD_SECS: u64 = 3_600_000;

/// As the starter rules of the UDP door, but for a limit that a hot key at 20 million a second does
/// not come up to.
const RULES: &str =
    r"rules: [{match: '^ws ip=\d+\.\d+\.\d+\.\d+$', limit: 1000000000, period: 20, strict: true}]";
/// What is in a Throttr quota: enough for minutes, too.
pub(super) const QUOTA: &str = "4000000000";

/// What all keys of all doors fit in.
const MEMORY: &str = "4GiB";
/// How many keys throttlecrab makes room for at the start.
const STORE_CAPACITY: &str = "1000000";
/// How long the polling server looks for more before it sleeps.
pub(super) const POLL: &str = "50us";
/// How long a server may take to listen, and how soon it is tried again.
const PATIENCE: Duration = Duration::from_secs(10);
const TRY_AGAIN: Duration = Duration::from_millis(10);
/// How long an answer over HTTP can be, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 12;

/// What a door's requests and answers are, in bytes: of the keys that `cases` asks for.
const BUCKET_BYTES: [&str; 2] = ["34", "2"];
const THROTTR_BYTES: [&str; 2] = ["44", "18"];
const RESP_BYTES: [&str; 2] = ["66", "42"];
/// What the RESP door answers to one ask of the usual limit.
pub(super) const RESP_ANSWER: &str = "*5\r\n:0\r\n:2000000\r\n:1999900\r\n:-1\r\n:360000\r\n";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ratekeeper,
    /// Ours, told to look for more before it sleeps.
    Polling,
    EchoUdp,
    EchoSegments,
    /// Over TCP, with the bytes of a door.
    EchoBucket,
    EchoThrottr,
    EchoResp,
    /// Says the same to every command.
    ConstantResp,
    /// The same, and it looks for more before it sleeps.
    PollingResp,
    EchoHttp,
    /// Those that look for more before they sleep, as ours does if told.
    PollingEchoUdp,
    PollingEchoBucket,
    PollingEchoThrottr,
    Redis,
    Throttlecrab,
}

impl Kind {
    /// Whether it knows no keys.
    pub(super) fn is_echo(self) -> bool {
        let knows_none = matches!(
            self,
            Self::EchoUdp
                | Self::PollingEchoUdp
                | Self::EchoSegments
                | Self::ConstantResp
                | Self::PollingResp
                | Self::EchoHttp
        );
        knows_none || self.bytes().is_some()
    }

    /// How many bytes a request and its answer have, of an echo over TCP.
    pub(super) fn bytes(self) -> Option<[&'static str; 2]> {
        match self {
            Self::EchoBucket | Self::PollingEchoBucket => Some(BUCKET_BYTES),
            Self::EchoThrottr | Self::PollingEchoThrottr => Some(THROTTR_BYTES),
            Self::EchoResp => Some(RESP_BYTES),
            _ => None,
        }
    }
}

/// The programs that are started.
pub(super) struct Programs {
    pub(super) ratekeeper: PathBuf,
    pub(super) lab: PathBuf,
    /// Where what servers need is written.
    pub(super) folder: PathBuf,
    /// Why there is none, if there is none.
    pub(super) throttlecrab: Result<PathBuf, String>,
}

/// A server that listens.
pub(super) struct Server {
    pub(super) process: Process,
    /// Each door and its address.
    addresses: Vec<(String, String)>,
}

impl Server {
    /// Where a door listens; a server of one door has but one address.
    pub(super) fn address(&self, door: &str) -> Option<&str> {
        let named = self.addresses.iter().find(|(name, _)| name == door);
        let only = (self.addresses.len() == 1).then(|| self.addresses.first()).flatten();
        named.or(only).map(|(_, address)| address.as_str())
    }

    /// One that says where it listens, a line for each door.
    fn listening(command: Command, doors: usize) -> Result<Self, Failure> {
        let mut process = Process::start(command)?;
        let mut addresses = Vec::new();
        for _ in 0..doors {
            let line = process.line()?;
            let address = line.strip_prefix("listening ").and_then(|rest| rest.split_once(' '));
            let (door, address) = address.ok_or_else(|| format!("it said `{line}`"))?;
            addresses.push((door.to_owned(), address.to_owned()));
        }
        Ok(Self { process, addresses })
    }

    /// One that was told a port, once it lets us in there.
    fn at_port(command: Command, port: u16) -> Result<Self, Failure> {
        let process = Process::start_silent(command)?;
        let address = format!("127.0.0.1:{port}");
        for _ in 0..PATIENCE.as_millis() / TRY_AGAIN.as_millis() {
            if TcpStream::connect(&address).is_ok() {
                return Ok(Self { process, addresses: vec![(String::new(), address)] });
            }
            std::thread::park_timeout(TRY_AGAIN);
        }
        Err(format!("it does not listen at {address}").into())
    }
}

/// All that run. One is started when it is first asked for, and stays until this is dropped: who is
/// not asked takes no time.
pub(super) struct Servers {
    programs: Programs,
    running: Vec<(Kind, Result<Server, String>)>,
}

impl Servers {
    pub(super) fn new(programs: Programs) -> Self {
        Self { programs, running: Vec::new() }
    }

    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The server of a kind. Refuses, each time with the same words, one that cannot be had.
    pub(super) fn of(&mut self, kind: Kind) -> Result<&Server, Failure> {
        let find = |running: &[(Kind, _)]| running.iter().position(|(other, _)| *other == kind);
        if find(&self.running).is_none() {
            let server = self.start(kind).map_err(|error| error.to_string());
            self.running.push((kind, server));
        }
        // One that is started may start another, so its place is looked for again.
        let place = find(&self.running).unwrap_or_default();
        self.running[place].1.as_ref().map_err(|words| words.clone().into())
    }

    fn start(&mut self, kind: Kind) -> Result<Server, Failure> {
        match kind {
            Kind::Ratekeeper => self.ratekeeper(&[]),
            Kind::Polling => self.ratekeeper(&["--poll", POLL]).map_err(|error| {
                format!("`ratekeeper serve --poll {POLL}` does not start: {error}").into()
            }),
            Kind::EchoUdp => self.echo(&["udp"]),
            Kind::PollingEchoUdp => self.echo(&["polling-udp"]),
            Kind::EchoSegments => self.echo(&["segments"]),
            Kind::PollingEchoBucket | Kind::PollingEchoThrottr => {
                let [bytes, answer] = kind.bytes().unwrap_or_default();
                self.echo(&["polling-tcp", "--bytes", bytes, "--answer-bytes", answer])
            }
            Kind::EchoBucket | Kind::EchoThrottr | Kind::EchoResp => {
                let [bytes, answer] = kind.bytes().unwrap_or_default();
                self.echo(&["tcp", "--bytes", bytes, "--answer-bytes", answer])
            }
            Kind::ConstantResp => self.echo(&["resp", "--answer", RESP_ANSWER]),
            Kind::PollingResp => self.echo(&["resp", "--poll", "--answer", RESP_ANSWER]),
            Kind::EchoHttp => {
                let body = self.of(Kind::Ratekeeper)?.address("http").map(http_answer);
                let body = body.ok_or("the HTTP door is not open")??;
                self.echo(&["http", "--body", &body])
            }
            Kind::Redis => self.redis(),
            Kind::Throttlecrab => self.throttlecrab(),
        }
    }

    fn ratekeeper(&self, more: &[&str]) -> Result<Server, Failure> {
        let limits = self.programs.folder.join("limits.yaml");
        let text = format!(
            "{LIMIT}: {{burst: {BURST}, count: {COUNT}, period: {PERIOD_SECS}s}}\n\
             {HOT_LIMIT}: {{burst: {HOT_BURST}, count: {HOT_COUNT}, period: {HOT_PERIOD_SECS}s}}\n"
        );
        fs::write(&limits, text)?;
        let rules = self.programs.folder.join("rules.yaml");
        fs::write(&rules, RULES)?;
        let mut command = pinned(SERVER_CORE, &self.programs.ratekeeper);
        command.args(["serve", "--workers", "1", "--memory", MEMORY, "--state", "off"]);
        command.args(["--control", "off", "--watch", "off", "--log-level", "error", "--limits"]);
        command
            .arg(&limits)
            .arg("--rules")
            .arg(&rules)
            .args(more)
            .current_dir(&self.programs.folder);
        let doors = ["--http", "--udp", "--bucket", "--throttr", "--resp"];
        for door in doors {
            command.args([door, "127.0.0.1:0"]);
        }
        Server::listening(command, doors.len())
    }

    fn echo(&self, args: &[&str]) -> Result<Server, Failure> {
        let mut command = pinned(SERVER_CORE, &self.programs.lab);
        command.args(["bench", "echo"]).args(args);
        Server::listening(command, 1)
    }

    fn redis(&self) -> Result<Server, Failure> {
        let mut version = Command::new("redis-server");
        version.arg("--version");
        output(version)?;
        let port = free_port()?;
        let mut command = pinned(SERVER_CORE, "redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--dir"]).arg(&self.programs.folder);
        Server::at_port(command, port)
    }

    fn throttlecrab(&self) -> Result<Server, Failure> {
        let program: &Path = self.programs.throttlecrab.as_ref().map_err(Clone::clone)?;
        let port = free_port()?;
        let mut command = pinned(SERVER_CORE, program);
        command.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &port.to_string()]);
        command.args(["--store-capacity", STORE_CAPACITY, "--log-level", "error"]);
        Server::at_port(command, port)
    }
}

/// One that nobody listens at now.
fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// What the HTTP door says to one ask, so that the bare server can say as much.
fn http_answer(address: &str) -> Result<String, Failure> {
    let body = format!(r#"{{"limit":"{LIMIT}","id":"user","cost":1}}"#);
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /v1/spend HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX as u64).read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    Ok(body.ok_or_else(|| format!("the HTTP door answered `{answer}`"))?)
}
