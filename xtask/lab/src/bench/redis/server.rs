//! A Redis of the benchmark's own, on a port that nobody uses.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::Value;

use super::super::Failure;

/// How long it may take to start, and to answer an operator.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A `redis-server` without persistence. When it is dropped, it ends and its directory goes.
pub(super) struct Server {
    port: u16,
    directory: PathBuf,
    child: Child,
}

impl Server {
    /// Starts one and waits until it answers.
    pub(super) fn start() -> Result<Self, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let directory =
            std::env::temp_dir().join(format!("ratekeeper-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let child = spawn(port, &directory)?;
        let server = Self { port, directory, child };
        let looks = PATIENCE.as_millis() / LOOK_AGAIN.as_millis();
        for _ in 0..looks {
            if server.command(&["PING"]).is_ok() {
                return Ok(server);
            }
            std::thread::park_timeout(LOOK_AGAIN);
        }
        Err(format!("redis-server does not answer on port {port}").into())
    }

    /// Ends it as a power cut would.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again on the same port, empty. Does not wait until it answers.
    pub(super) fn restart(&mut self) -> Result<(), Failure> {
        self.child = spawn(self.port, &self.directory)?;
        Ok(())
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// An operator's command.
    pub(super) fn command(&self, words: &[&str]) -> Result<Value, Failure> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(redis::Cmd::new().arg(words).query(&mut connection)?)
    }

    /// A number of its `INFO`, such as `total_commands_processed`.
    pub(super) fn number(&self, name: &str) -> Result<u64, Failure> {
        let info: String = redis::from_redis_value(self.command(&["INFO", "everything"])?)?;
        let mut values = info.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = values.find(|(key, _)| *key == name).ok_or("INFO lacks a number")?;
        Ok(value.trim().parse()?)
    }

    pub(super) fn version(&self) -> Result<String, Failure> {
        let info: String = redis::from_redis_value(self.command(&["INFO", "server"])?)?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("of unknown version").trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn spawn(port: u16, directory: &Path) -> Result<Child, Failure> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.args(["--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| format!("redis-server does not start: {error}").into())
}
