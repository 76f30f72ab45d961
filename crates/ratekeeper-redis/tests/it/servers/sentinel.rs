//! A primary, two replicas, and three Sentinels that watch them.

use super::{Process, Single, command, directory, free_port, text, until};

/// What the Sentinels call the primary.
pub(crate) const SERVICE: &str = "ratekeeper";

pub(crate) struct Sentinel {
    pub(crate) servers: Vec<Single>,
    sentinels: Vec<Watcher>,
}

/// One `redis-sentinel`, killed when it is dropped.
struct Watcher {
    port: u16,
    directory: std::path::PathBuf,
    _process: Process,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Sentinel {
    pub(crate) fn start() -> Self {
        let primary = Single::with(&["--repl-diskless-sync-delay", "0"]);
        let port = primary.port.to_string();
        let replica = || Single::with(&["--replicaof", "127.0.0.1", &port]);
        let servers = vec![replica(), replica(), primary];
        for server in &servers[..2] {
            until("a replica that follows", || {
                server.says(&["INFO", "replication"], "master_link_status:up")
            });
        }
        let sentinels: Vec<_> = (0..3).map(|_| watch(&port)).collect();
        let all = Self { servers, sentinels };
        for watcher in &all.sentinels {
            until("a Sentinel that knows the others", || {
                let info = command(&url(watcher.port), &["INFO", "sentinel"]);
                info.is_ok_and(|info| text(info).contains("slaves=2,sentinels=3"))
            });
        }
        all
    }

    /// Has another server made the primary, while the old one lives.
    pub(crate) fn fail_over(&self) -> redis::RedisResult<redis::Value> {
        command(&url(self.sentinels[0].port), &["SENTINEL", "FAILOVER", SERVICE])
    }

    /// The port of the primary, as the Sentinel says that is asked first; nothing if it is too busy
    /// to say, as in the middle of a failover.
    #[allow(dead_code, reason = "another program uses it")]
    pub(crate) fn primary(&self) -> Option<u16> {
        let ask = ["SENTINEL", "get-master-addr-by-name", SERVICE];
        let answer = command(&url(self.sentinels[0].port), &ask).ok()?;
        let redis::Value::Array(place) = answer else { panic!("{answer:?}") };
        Some(text(place[1].clone()).parse().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        let ports = self.sentinels.iter().map(|watcher| format!("127.0.0.1:{}", watcher.port));
        format!("redis+sentinel://{}/{SERVICE}", ports.collect::<Vec<_>>().join(","))
    }
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

fn watch(primary_port: &str) -> Watcher {
    let (port, directory) = (free_port(), directory());
    let lines = [
        format!("port {port}"),
        "bind 127.0.0.1".to_owned(),
        "protected-mode no".to_owned(),
        format!("dir {}", directory.display()),
        format!("sentinel monitor {SERVICE} 127.0.0.1 {primary_port} 2"),
        format!("sentinel down-after-milliseconds {SERVICE} 500"),
        format!("sentinel failover-timeout {SERVICE} 3000"),
    ];
    let file = directory.join("sentinel.conf");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let mut command = std::process::Command::new("redis-sentinel");
    command.arg(&file);
    let process = Process::start(command, &directory);
    Watcher { port, directory, _process: process }
}
