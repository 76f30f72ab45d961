//! A network between a server and its Redis that can be split.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To Redis.
    There,
    /// From Redis.
    Back,
}

/// Forwards connections. What is held up is not lost, as little as in a network that sends again.
pub(crate) struct Proxy {
    port: u16,
    gates: [Arc<Gate>; 2],
}

#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Proxy {
    pub(crate) fn start(redis_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let gates: [Arc<Gate>; 2] = Default::default();
        let [there, back] = gates.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                // Nobody is there any more when the test is over.
                let Ok(far) = TcpStream::connect(("127.0.0.1", redis_port)) else { return };
                let (near_end, far_end) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let (there, back) = (Arc::clone(&there), Arc::clone(&back));
                thread::spawn(move || forward(near, far, &there));
                thread::spawn(move || forward(far_end, near_end, &back));
            }
        });
        Self { port, gates }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Lets nothing through on these ways.
    pub(crate) fn split(&self, ways: &[Way]) {
        for way in ways {
            self.gate(*way).set(true);
        }
    }

    /// Lets everything through again.
    pub(crate) fn heal(&self) {
        for way in [Way::There, Way::Back] {
            self.gate(way).set(false);
        }
    }

    fn gate(&self, way: Way) -> &Gate {
        &self.gates[usize::from(way == Way::Back)]
    }
}

impl Gate {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.changed.notify_all();
    }

    fn wait_until_open(&self) {
        let shut = self.is_shut.lock().unwrap();
        drop(self.changed.wait_while(shut, |is_shut| *is_shut).unwrap());
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, gate: &Gate) {
    let mut bytes = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        gate.wait_until_open();
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    gate.wait_until_open();
    let _ = to.shutdown(std::net::Shutdown::Write);
}
