//! A server, an API, and the processes that use both.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use tollgate::Clock;
use tollgate_server::Server;
use tollgate_server::settings::Settings;

use crate::api::Api;
use crate::network::Network;
use crate::process;

const PROCESSES: usize = 4;
/// One for each door: held until they are given back, and spent.
const LIMITS: &str = "
HeldFifty: { burst: 50, count: 1, period: 365d }
SpentFifty: { burst: 2, count: 48, period: 1s }
";
const RULES: &str = "rules:\n  - { match: '^fifty$', use: SpentFifty, id: 'bot' }\n";

/// Which door of the server they use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Door {
    Http,
    /// Through a network, on the server's clock so many seconds before a term ends.
    Far {
        term_ends_in_secs: u64,
    },
    Udp,
}

pub(crate) struct Scene {
    pub(crate) api: Api,
    pub(crate) network: Option<Network>,
    settings: Settings,
    server: Option<Server>,
    processes: Vec<Child>,
    folder: PathBuf,
}

impl Scene {
    /// Processes with a share of their own, for so many seconds.
    pub(crate) fn start(door: Door, alone: u32, secs: u64) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("sharing-{}-{alone}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut settings = settings(&folder);
        let server = Server::start(&settings, Arc::new(Clock::start())).unwrap();
        // Where it comes back if it goes away.
        settings.http.listen = server.address("http");
        settings.udp.listen = server.address("udp");
        let [http, udp] = ["http", "udp"].map(|name| server.address(name).unwrap());
        let network = match door {
            Door::Far { term_ends_in_secs } => Some(Network::start(http, term_ends_in_secs)),
            Door::Http | Door::Udp => None,
        };
        let (name, address) = match (&network, door) {
            (Some(network), _) => ("http", network.address),
            (None, Door::Udp) => ("udp", udp),
            (None, _) => ("http", http),
        };
        let api = Api::start();
        let start = || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args([process::WORD, name, &address.to_string(), &api.address.to_string()]);
            command.args([alone.to_string(), secs.to_string()]).spawn().unwrap()
        };
        let processes = (0..PROCESSES).map(|_| start()).collect();
        Self { api, network, settings, server: Some(server), processes, folder }
    }

    pub(crate) fn stop_server(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain(Duration::ZERO).unwrap();
        }
    }

    pub(crate) fn start_server(&mut self) {
        let server = Server::start(&self.settings, Arc::new(Clock::start())).unwrap();
        self.server = Some(server);
    }

    /// Lets the processes run until so long after the start.
    pub(crate) fn wait_until_ms(&self, until_ms: u64) {
        let rest = Duration::from_millis(until_ms.saturating_sub(self.api.elapsed_ms()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async { tokio::time::sleep(rest).await });
    }

    /// Waits for the processes to end. How many requests the API had to refuse.
    pub(crate) fn end(mut self) -> usize {
        for process in &mut self.processes {
            assert!(process.wait().unwrap().success(), "a process failed");
        }
        self.stop_server();
        self.api.refused()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Most have ended already.
            let _ = process.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn settings(folder: &std::path::Path) -> Settings {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let mut settings = Settings::default();
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings.http.listen = free;
    settings.udp.listen = free;
    settings.bucket.stream.listen = None;
    settings.throttr.stream.listen = None;
    settings.resp.listen = None;
    settings.memory = 64 << 20;
    settings.limits = Some(write("limits.yaml", LIMITS));
    settings.udp.rules = Some(write("rules.yaml", RULES));
    settings
}
