//! A server, an API, and the processes that use both.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ratekeeper::Clock;
use ratekeeper_server::Server;
use ratekeeper_server::settings::Settings;

use crate::api::Api;
use crate::network::Network;
use crate::process;

const PROCESSES: usize = 4;
/// One that is held until it is given back, and others that keep nothing that is shared.
const LIMITS: &str = "
HeldFifty: { burst: 50, count: 1, period: 1m }
SpentFifty: { burst: 2, count: 48, period: 1s }
HeldForty: { burst: 40, count: 1, period: 1m }
OnlyLooked: { burst: 50, count: 1, period: 1m, shadow: true }
";

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Direct,
    /// Through a network that may stand still.
    Network,
}

pub(crate) struct Scene {
    pub(crate) api: Api,
    pub(crate) network: Option<Network>,
    /// Where the processes find the server.
    pub(crate) server_address: SocketAddr,
    settings: Settings,
    server: Option<Server>,
    processes: Vec<Child>,
    folder: PathBuf,
}

impl Scene {
    /// A server and an API.
    pub(crate) fn start(way: Way) -> Self {
        Self::start_with(way, |_| {})
    }

    /// The same with other settings of the server.
    pub(crate) fn start_with(way: Way, change: impl FnOnce(&mut Settings)) -> Self {
        static SCENES: AtomicU32 = AtomicU32::new(0);
        let number = SCENES.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("sharing-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut settings = settings(&folder);
        change(&mut settings);
        let server = Server::start(&settings, Arc::new(Clock::start())).unwrap();
        // Where it comes back if it goes away.
        settings.http.listen = server.address("http");
        let http = server.address("http").unwrap();
        let network = (way == Way::Network).then(|| Network::start(http));
        let server_address = network.as_ref().map_or(http, |network| network.address);
        let (api, server, processes) = (Api::start(), Some(server), Vec::new());
        Self { api, network, server_address, settings, server, processes, folder }
    }

    /// Four processes with a share of their own, which send for so many seconds and then close.
    pub(crate) fn start_processes(&mut self, alone: u32, secs: u64) {
        for _ in 0..PROCESSES {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let [server, api] = [self.server_address, self.api.address].map(|it| it.to_string());
            let [alone, secs] = [alone.to_string(), secs.to_string()];
            let process = command.args([process::WORD, &server, &api, &alone, &secs]).spawn();
            self.processes.push(process.unwrap());
        }
    }

    /// Kills all processes.
    pub(crate) fn kill_processes(&mut self) {
        for mut process in self.processes.drain(..) {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Waits until all processes have closed and ended.
    pub(crate) fn join_processes(&mut self) {
        for mut process in self.processes.drain(..) {
            assert!(process.wait().unwrap().success(), "a process failed");
        }
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
        self.join_processes();
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
    settings.udp.listen = None;
    settings.bucket.stream.listen = None;
    settings.throttr.stream.listen = None;
    settings.resp.listen = None;
    settings.memory = 64 << 20;
    settings.limits = Some(write("limits.yaml", LIMITS));
    settings
}
