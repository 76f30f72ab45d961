//! What is between the processes and the server: it may stand still.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::RwLock;

/// The longest piece that is carried at once; an answer of the server is shorter.
const PIECE_BYTES_MAX: usize = 1 << 16;

pub(crate) struct Network {
    pub(crate) address: SocketAddr,
    /// Whoever carries something holds it for that moment.
    way: Arc<RwLock<()>>,
}

impl Network {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let way = Arc::new(RwLock::new(()));
        let ways = Arc::clone(&way);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                // A server that is away is met with a connection that ends at once.
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else {
                    continue;
                };
                connect(&client, &server, &ways);
            }
        });
        Self { address, way }
    }

    /// Nothing arrives anywhere until the caller is done.
    pub(crate) fn stand_still(&self, while_this: impl FnOnce()) {
        let _held = self.way.write();
        while_this();
    }
}

fn connect(client: &TcpStream, server: &TcpStream, way: &Arc<RwLock<()>>) {
    for (from, to) in [(client, server), (server, client)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        to.set_nodelay(true).unwrap();
        let way = Arc::clone(way);
        std::thread::spawn(move || {
            carry(&from, &to, &way);
            // Either end may be gone already.
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

fn carry(mut from: &TcpStream, mut to: &TcpStream, way: &RwLock<()>) {
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let _on_the_way = way.read();
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
