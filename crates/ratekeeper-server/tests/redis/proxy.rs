//! A network between a server and its Redis that can be split, and can spoil what is sent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What no server of this kind says.
const NONSENSE: &[u8] = b"?what is this\r\n";

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

/// What becomes of what is sent on a way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// It arrives.
    #[default]
    Open,
    /// It is held up.
    Held,
    /// Something else arrives in its place.
    Garbled,
    /// Half of it arrives, and then the end.
    CutShort,
}

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
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

    /// What becomes of what is sent on these ways from now on.
    pub(crate) fn set(&self, ways: &[Way], state: State) {
        for way in ways {
            self.gate(*way).set(state);
        }
    }

    /// Lets everything through again.
    pub(crate) fn heal(&self) {
        self.set(&[Way::There, Way::Back], State::Open);
    }

    fn gate(&self, way: Way) -> &Gate {
        &self.gates[usize::from(way == Way::Back)]
    }
}

impl Gate {
    fn set(&self, state: State) {
        *self.state.lock().unwrap() = state;
        self.changed.notify_all();
    }

    /// What becomes of what is sent, once it is not held up any more.
    fn pass(&self) -> State {
        let state = self.state.lock().unwrap();
        *self.changed.wait_while(state, |state| *state == State::Held).unwrap()
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, gate: &Gate) {
    let mut bytes = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let state = gate.pass();
        let sent = match state {
            State::Garbled => NONSENSE,
            State::CutShort => &bytes[..read / 2],
            State::Open | State::Held => &bytes[..read],
        };
        if to.write_all(sent).is_err() || state == State::CutShort {
            break;
        }
    }
    gate.pass();
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
