//! What stands behind a proxy: a gate in virtual time, and a page.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ratekeeper::{Moment, Nanos};
use ratekeeper_server::settings::{SecretText, Settings};
use ratekeeper_server::{Server, Time};

use crate::page::Page;

/// How long something that must happen may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The limit of the examples, one of the starter limits: 20 at once, and one more every 100 ms.
pub(crate) const LIMIT: &str = "RequestsPerIPAddress";
pub(crate) const BURST: usize = 20;
pub(crate) const POLICY: &str = "\"RequestsPerIPAddress\";q=20;w=2";
pub(crate) const EMISSION: Nanos = Nanos::new(100_000_000);

const NOON: Moment = Moment::from_nanos(1_800_000_000_000_000_000);

/// A gate, a page and a folder, for one test.
pub(crate) struct Stage {
    pub(crate) time: Arc<StandingTime>,
    pub(crate) page: Page,
    pub(crate) gate: SocketAddr,
    settings: Settings,
    server: Option<Server>,
    folder: PathBuf,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// With tokens, in the form of the environment.
    pub(crate) fn with_tokens(tokens: &str) -> Self {
        Self::with(|settings| settings.http.tokens_text = Some(SecretText(tokens.to_owned())))
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let time = Arc::new(StandingTime(AtomicU64::new(NOON.as_nanos())));
        let mut settings = Settings::default();
        settings.http.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        settings.udp.listen = None;
        settings.bucket.stream.listen = None;
        settings.throttr.stream.listen = None;
        settings.resp.listen = None;
        settings.memory = 16 << 20;
        change(&mut settings);
        let server = Server::start(&settings, Arc::clone(&time) as _).unwrap();
        let gate = server.address("http").unwrap();
        settings.http.listen = Some(gate);
        let (page, folder) = (Page::open(), folder());
        Self { time, page, gate, settings, server: Some(server), folder }
    }

    /// Takes the gate away.
    pub(crate) fn close_gate(&mut self) {
        let server = self.server.take().unwrap();
        assert!(server.drain(PATIENCE).unwrap(), "somebody would not go");
    }

    /// A gate that knows nothing of what was spent, in the same place.
    pub(crate) fn open_gate(&mut self) {
        let time = Arc::clone(&self.time) as Arc<dyn Time>;
        self.server = Some(Server::start(&self.settings, time).unwrap());
    }

    /// How many connections the gate has had.
    pub(crate) fn connections(&self) -> u64 {
        let stats = self.server.as_ref().unwrap().stats();
        let stats = serde_json::to_value(stats).unwrap();
        stats["doors"]["http"]["accepted"].as_u64().unwrap()
    }

    /// An example with its ports and paths replaced by those of this test.
    pub(crate) fn example(&self, text: &str, replaced: &[(&str, &str)]) -> String {
        let (gate, page) = (self.gate.to_string(), self.page.address.to_string());
        let ports = [("127.0.0.1:8080", &*gate), ("127.0.0.1:3000", &page)];
        ports.iter().chain(replaced).fold(text.to_owned(), |text, (old, new)| {
            assert!(text.contains(old), "the example has no {old:?}");
            text.replace(old, new)
        })
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).into_os_string().into_string().unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A time that stands still until it is moved.
pub(crate) struct StandingTime(AtomicU64);

impl StandingTime {
    pub(crate) fn pass(&self, length: Nanos) {
        self.0.fetch_add(u64::try_from(length.get()).unwrap(), Ordering::SeqCst);
    }
}

impl Time for StandingTime {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// An address of loopback where nobody listens.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("proxies").join(name);
    fs::create_dir_all(&path).unwrap();
    path
}
