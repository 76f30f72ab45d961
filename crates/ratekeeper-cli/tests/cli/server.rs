//! A server process of this program, on free ports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::program::command;

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every door on a free port.
pub(crate) const FREE: [&str; 10] = [
    "--http",
    "127.0.0.1:0",
    "--udp",
    "127.0.0.1:0",
    "--bucket",
    "127.0.0.1:0",
    "--throttr",
    "127.0.0.1:0",
    "--resp",
    "127.0.0.1:0",
];

/// A running server, which is killed if a test fails.
pub(crate) struct Server {
    child: Child,
    addresses: Vec<(String, SocketAddr)>,
    log: Receiver<String>,
}

impl Server {
    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Starts a server with every door on a free port, and waits until it listens.
    pub(crate) fn start(args: &[&str]) -> Self {
        let all = [&["serve", "--memory", "16MiB", "--control", "off"][..], &FREE, args].concat();
        Self::start_exactly(&all)
    }

    /// Starts a server with these arguments only.
    pub(crate) fn start_exactly(args: &[&str]) -> Self {
        Self::start_command(command(args), open_doors(args))
    }

    /// Starts a server that opens so many doors.
    pub(crate) fn start_command(mut command: Command, doors: usize) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = lines(child.stderr.take().unwrap());
        let output = lines(child.stdout.take().unwrap());
        let mut addresses = Vec::new();
        while let Ok(line) = output.recv_timeout(PATIENCE) {
            let words: Vec<&str> = line.split(' ').collect();
            let ["listening", door, address] = words[..] else { panic!("{line:?}") };
            addresses.push((door.to_owned(), address.parse().unwrap()));
            if addresses.len() == doors {
                break;
            }
        }
        let server = Self { child, addresses, log };
        assert!(!server.addresses.is_empty(), "it does not listen: {:?}", server.said());
        server
    }

    pub(crate) fn address(&self, door: &str) -> SocketAddr {
        self.addresses.iter().find(|(name, _)| name == door).unwrap().1
    }

    /// The address of the HTTP door, as clients take it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address("http"))
    }

    /// What the HTTP door answers to `GET path`, as JSON.
    pub(crate) fn get(&self, path: &str) -> serde_json::Value {
        let mut stream = TcpStream::connect(self.address("http")).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    pub(crate) fn bucket(&self) -> Lines {
        let stream = TcpStream::connect(self.address("bucket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Lines { reader: BufReader::new(stream.try_clone().unwrap()), writer: stream }
    }

    /// Asks the UDP door.
    pub(crate) fn udp(&self, request: &str) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(request.as_bytes(), self.address("udp")).unwrap();
        let mut answer = [0; 2048];
        let length = socket.recv(&mut answer).unwrap();
        String::from_utf8(answer[..length].to_vec()).unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let kill = Command::new("kill").args(["-s", name, &process]).status();
        assert!(kill.unwrap().success());
    }

    /// The next line of the log that contains `part`; those before it are passed over.
    pub(crate) fn logged(&self, part: &str) -> String {
        let mut passed = Vec::new();
        loop {
            let line = self.log.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("{part:?} is not in {passed:#?}"));
            if line.contains(part) {
                return line;
            }
            passed.push(line);
        }
    }

    /// Everything that the log says until it ends.
    fn said(&self) -> Vec<String> {
        self.log.iter().collect()
    }

    /// Stops it as a service manager does.
    pub(crate) fn stop(self) -> ExitStatus {
        self.signal("TERM");
        self.ended()
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Ends it without a warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn open_doors(args: &[&str]) -> usize {
    let doors = FREE.iter().step_by(2);
    doors.filter(|door| !args.windows(2).any(|it| it == [**door, "off"])).count()
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A client of the token-bucket door.
pub(crate) struct Lines {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Lines {
    /// Sends a line and returns the answer to it, or nothing if there is none.
    pub(crate) fn ask(&mut self, line: &str) -> Option<String> {
        writeln!(self.writer, "{line}").ok()?;
        let mut answer = String::new();
        self.reader.read_line(&mut answer).ok()?;
        answer.strip_suffix('\n').map(str::to_owned)
    }
}
