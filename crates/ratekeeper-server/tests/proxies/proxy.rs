//! A proxy's process.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::stage::{PATIENCE, free_address};

/// A free port can be taken before the proxy comes to it; not this often in a row.
const ATTEMPTS: usize = 5;
/// What a program says whose port is taken.
const PORT_TAKEN: &str = "address already in use";

/// A running proxy, which ends with the test.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    child: Child,
    /// Nobody reads it after the start, but who writes it must not be stopped.
    log: Receiver<String>,
}

impl Proxy {
    /// Starts a proxy on a free port, and waits until its log says `ready`.
    pub(crate) fn start(package: &str, ready: &str, to: impl Fn(SocketAddr) -> Command) -> Self {
        for _ in 0..ATTEMPTS {
            let address = free_address();
            if let Some(proxy) = Self::start_at(address, package, ready, to(address)) {
                return proxy;
            }
        }
        panic!("no port stays free");
    }

    /// Nothing if the port was taken.
    fn start_at(
        address: SocketAddr,
        package: &str,
        ready: &str,
        mut command: Command,
    ) -> Option<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => panic!("install the Debian package `{package}`"),
            _ => panic!("{command:?}: {error}"),
        });
        let log = lines(&mut child);
        let proxy = Self { address, child, log };
        let mut said = Vec::new();
        while let Ok(line) = proxy.log.recv_timeout(PATIENCE) {
            if line.contains(ready) {
                return Some(proxy);
            }
            said.push(line);
        }
        let is_taken = said.iter().any(|line| line.to_ascii_lowercase().contains(PORT_TAKEN));
        assert!(is_taken, "it does not start: {said:#?}");
        None
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    let stderr = child.stderr.take().unwrap();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            // The pipe is read to its end also when nobody wants to know.
            let _ = sender.send(line);
        }
    });
    receiver
}
