//! Redis servers for tests: alone, watched by Sentinels, in a cluster.

mod cluster;
mod sentinel;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::{Clock, Moment, Nanos};
use ratekeeper_redis::{Address, Failure, Link, Tls, Visit};

pub(crate) use cluster::Cluster;
pub(crate) use sentinel::Sentinel;

/// How long a server may take to do what it was told, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a test waits for an answer that must come; the machine may be busy.
pub(crate) const GENEROUS: Duration = Duration::from_secs(10);
/// How long to wait before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(3);

/// How often a server is started on another port because it could not have the first.
const STARTS_MAX: usize = 8;

/// The moment at which virtual time begins.
pub(crate) const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);

/// Waits until it is so; fails loudly if it is not within 30 seconds.
pub(crate) fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(within(PATIENCE, is_so), "{what} did not happen within {PATIENCE:?}");
}

/// Whether it comes to be so within this time.
pub(crate) fn within(length: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let clock = Clock::start();
    let end = clock.now().after(Nanos::from(length));
    while !is_so() {
        if clock.now() >= end {
            return false;
        }
        std::thread::park_timeout(LOOK_AGAIN);
    }
    true
}

/// A port that nobody uses, for servers that have to be told one.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// An empty directory of its own.
pub(crate) fn directory() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!(
        "ratekeeper-redis-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// One `redis-server`, killed when it is dropped.
pub(crate) struct Single {
    pub(crate) port: u16,
    directory: PathBuf,
    program: &'static str,
    args: Vec<String>,
    process: Process,
}

/// A process that ends when it is dropped, and also when the tests end without dropping it.
struct Process {
    child: Child,
    guard: Child,
}

impl Process {
    /// Its directory goes with it.
    fn start(mut command: Command, directory: &Path) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = command.get_program().display().to_string();
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("{program} does not start ({error}): run `cargo xtask test` to install it")
        });
        // Its input ends when we do, however we end.
        let watch = format!("cat > /dev/null; kill -9 {}; rm -r \"$1\"", child.id());
        let mut guard = Command::new("sh");
        guard.args(["-c", &watch, "sh"]).arg(directory).stdin(Stdio::piped());
        let guard = guard.stderr(Stdio::null()).spawn().unwrap();
        Self { child, guard }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard first: it must not kill whoever has the number next.
        for child in [&mut self.guard, &mut self.child] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Single {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(args: &[&str]) -> Self {
        Self::of("redis-server", args)
    }

    /// Valkey where it is installed.
    pub(crate) fn valkey() -> Self {
        let is_there = Command::new("valkey-server").arg("--version").output().is_ok();
        Self::of(if is_there { "valkey-server" } else { "redis-server" }, &[])
    }

    /// Starts any program that understands the options of `redis-server`.
    pub(crate) fn of(program: &'static str, args: &[&str]) -> Self {
        let args: Vec<_> = args.iter().map(|&arg| arg.to_owned()).collect();
        for _ in 0..STARTS_MAX {
            let (port, directory) = (free_port(), directory());
            let process = spawn(program, port, &directory, &args);
            let mut server = Self { port, directory, program, args: args.clone(), process };
            // Somebody else may have taken the port, or the one for talk within a cluster.
            if server.is_up() {
                return server;
            }
        }
        panic!("{program} {args:?} does not start");
    }

    /// Waits until it answers; false if it ended instead.
    fn is_up(&mut self) -> bool {
        let mut has_ended = false;
        until(&format!("{} on {}", self.program, self.port), || {
            has_ended = self.process.child.try_wait().unwrap().is_some();
            let pong = self.try_command(&["PING"]);
            // One that wants a password is up too.
            has_ended || pong.map_or_else(|error| error.code().is_some(), |_| true)
        });
        !has_ended
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.process.child.kill().unwrap();
        self.process.child.wait().unwrap();
    }

    /// Starts it again on the same port, with what it had saved.
    pub(crate) fn restart(&mut self) {
        self.restart_at_once();
        assert!(self.is_up(), "{} does not start again", self.program);
    }

    pub(crate) fn restart_at_once(&mut self) {
        self.process = spawn(self.program, self.port, &self.directory, &self.args);
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.process.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A command of an operator's.
    pub(crate) fn command(&self, words: &[&str]) -> redis::Value {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub(crate) fn try_command(&self, words: &[&str]) -> redis::RedisResult<redis::Value> {
        command(&self.url(), words)
    }

    /// Whether its answer has this in it; not, if it breaks off the connection.
    pub(crate) fn says(&self, words: &[&str], expected: &str) -> bool {
        self.try_command(words).is_ok_and(|answer| text(answer).contains(expected))
    }

    pub(crate) fn text(&self, words: &[&str]) -> String {
        text(self.command(words))
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn spawn(program: &str, port: u16, directory: &Path, args: &[String]) -> Process {
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--protected-mode", "no"]);
    command.arg("--dir").arg(directory);
    if !args.iter().any(|arg| arg == "--save") {
        command.args(["--save", ""]);
    }
    command.args(args);
    Process::start(command, directory)
}

pub(crate) fn command(url: &str, words: &[&str]) -> redis::RedisResult<redis::Value> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_connection_with_timeout(GENEROUS)?;
    connection.set_read_timeout(Some(GENEROUS))?;
    let mut command = redis::Cmd::new();
    command.arg(words);
    command.query(&mut connection)
}

pub(crate) fn text(value: redis::Value) -> String {
    match value {
        redis::Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        redis::Value::Int(number) => number.to_string(),
        redis::Value::Okay => "OK".to_owned(),
        redis::Value::SimpleString(text) | redis::Value::VerbatimString { text, .. } => text,
        other => panic!("{other:?} is not text"),
    }
}

pub(crate) fn open(url: &str) -> Link {
    let address: Address = url.parse().unwrap();
    Link::open(&address, &Tls::default()).unwrap()
}

/// A link that tests call without waiting themselves: its connections live on a thread of its own.
pub(crate) struct Blocking {
    pub(crate) link: Link,
    handle: tokio::runtime::Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Blocking {
    pub(crate) fn open(url: &str) -> Self {
        Self::with(|| open(url))
    }

    /// The link that `make` makes where tasks can be started.
    pub(crate) fn with(make: impl FnOnce() -> Link) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = runtime.block_on(stopped);
        });
        let entered = handle.enter();
        let link = make();
        drop(entered);
        Self { link, handle, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }

    /// Answers to buckets; every one must have an answer.
    pub(crate) fn gcra(
        &self,
        asks: &[ratekeeper_redis::Ask<'_>],
        now: Option<Moment>,
    ) -> Vec<ratekeeper_redis::Answer> {
        let visit = Visit { within: GENEROUS, now };
        let mut answers = Vec::new();
        self.wait(self.link.gcra(asks, &visit, &mut answers));
        let all: Result<Vec<_>, Failure> = answers.into_iter().collect();
        all.unwrap_or_else(|failure| panic!("{asks:?}: {failure}"))
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
