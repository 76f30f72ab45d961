//! What is between the processes and the server: it may stand still, and tell another time.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tollgate::Clock;

/// How long a term is.
const TERM_SECS: u64 = 60;
/// The longest piece that is carried at once; an answer of the server is shorter.
const PIECE_BYTES_MAX: usize = 1 << 16;

pub(crate) struct Network {
    pub(crate) address: SocketAddr,
    /// Whoever carries something holds it for that moment.
    way: Arc<RwLock<()>>,
}

impl Network {
    /// A network where the server seems to be so much ahead that a term ends in so many seconds.
    pub(crate) fn start(server: SocketAddr, term_ends_in_secs: u64) -> Self {
        let now_secs = Clock::start().now().as_nanos() / 1_000_000_000;
        let ahead_secs = TERM_SECS - (now_secs + term_ends_in_secs) % TERM_SECS;
        let ahead = SignedDuration::from_secs(i64::try_from(ahead_secs).unwrap());
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
                connect(&client, &server, &ways, ahead);
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

fn connect(client: &TcpStream, server: &TcpStream, way: &Arc<RwLock<()>>, ahead: SignedDuration) {
    for (from, to, is_answer) in [(client, server, false), (server, client, true)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        to.set_nodelay(true).unwrap();
        let way = Arc::clone(way);
        std::thread::spawn(move || {
            let change = |piece: &mut [u8]| {
                if is_answer {
                    tell_another_time(piece, ahead);
                }
            };
            carry(&from, &to, &way, change);
            // Either end may be gone already.
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

fn carry(mut from: &TcpStream, mut to: &TcpStream, way: &RwLock<()>, change: impl Fn(&mut [u8])) {
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let _on_the_way = way.read();
        let piece = &mut buffer[..length];
        change(piece);
        if to.write_all(piece).is_err() {
            return;
        }
    }
}

/// All dates have the same length.
fn tell_another_time(piece: &mut [u8], ahead: SignedDuration) {
    const NAME: &[u8] = b"\r\ndate: ";
    const DATE_BYTES: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();
    let Some(at) = piece.windows(NAME.len()).position(|it| it.eq_ignore_ascii_case(NAME)) else {
        return;
    };
    let date = &mut piece[at + NAME.len()..][..DATE_BYTES];
    let told: Timestamp = rfc2822::parse(str::from_utf8(date).unwrap()).unwrap().timestamp();
    let printer = rfc2822::DateTimePrinter::new();
    date.copy_from_slice(printer.timestamp_to_rfc9110_string(&(told + ahead)).unwrap().as_bytes());
}
