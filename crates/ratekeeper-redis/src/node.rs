//! One connection to one server, kept up in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, PushInfo, PushKind, Value};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::address::{Access, Named};
use crate::failure::Failure;
use crate::key::{CHANGED_CHANNEL, Kind};

/// How long a connection may take to be made, and an answer to whether it still lives.
const CONNECT_MAX: Duration = Duration::from_millis(400);
/// How long after a first failure it is tried again, and at most after many.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// How many batches may wait to be written to one connection.
const BATCHES_MAX: usize = 1_024;
/// How many things may be said about a connection before its keeper looks.
const NEWS_MAX: usize = 64;

/// What a link hears of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// It hears what changes from now on; what did before may have been missed.
    Began,
    /// This bucket was given tokens which time did not give it.
    Changed(&'a [u8]),
    /// It hears no more.
    Ended,
}

/// Called with what is heard.
pub(crate) type Listener = Arc<dyn Fn(Heard<'_>) + Send + Sync>;

/// As long as it is there, what changes is heard.
struct Listening(Listener);

impl Listening {
    fn begin(listener: &Listener) -> Self {
        listener(Heard::Began);
        Self(Arc::clone(listener))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        (self.0)(Heard::Ended);
    }
}

/// How to find a server.
pub(crate) enum Finder {
    /// It stands there.
    At(Access, String, u16),
    /// These Sentinels know it by this name.
    Sentinels(Access, Vec<(String, u16)>, String),
}

/// One server and the connection to it. When it is dropped, so is the connection.
pub(crate) struct Node {
    name: String,
    state: watch::Receiver<State>,
    news: mpsc::Sender<News>,
    /// Whether it is to hear what changes.
    listens: bool,
    /// Ends the keeper when the node is dropped.
    _keeper: JoinSet<()>,
}

#[derive(Clone)]
enum State {
    /// Nobody knows yet.
    New,
    Up(MultiplexedConnection, u64),
    Down(Failure),
}

/// What was noticed about a connection, by its number.
enum News {
    Lost(u64, Failure),
    /// An answer was late.
    Late(u64),
}

impl Node {
    /// Begins to connect. Must be called where tasks can be started.
    pub(crate) fn start(finder: Finder, listener: Option<Listener>) -> Self {
        let (sender, state) = watch::channel(State::New);
        let (news, heard) = mpsc::channel(NEWS_MAX);
        let (name, listens) = (finder.to_string(), listener.is_some());
        let keeper = Keeper { finder, listener, state: sender, news: news.clone(), heard };
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper.keep());
        Self { name, state, news, listens, _keeper: tasks }
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is to hear what changes.
    pub(crate) const fn listens(&self) -> bool {
        self.listens
    }

    /// Whether it was tried and is not there.
    pub(crate) fn is_down(&self) -> bool {
        matches!(*self.state.borrow(), State::Down(_))
    }

    /// Sends all commands in one go and waits for all answers, however long it takes. Waits for
    /// the first connection, but not for one that was lost.
    pub(crate) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let (mut connection, number) = self.connection().await?;
        let late = Late { node: self, number };
        let answers = connection.send_packed_commands(commands, 0, commands.len()).await;
        std::mem::forget(late);
        answers.map_err(|error| {
            let failure = Failure::of_client(&error);
            self.tell(News::Lost(number, failure.clone()));
            failure
        })
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, u64), Failure> {
        let mut state = self.state.clone();
        let gone = |_| Failure::Unreachable("the connection is closed".to_owned());
        let known = state.wait_for(|state| !matches!(state, State::New)).await.map_err(gone)?;
        match &*known {
            State::Up(connection, number) => Ok((connection.clone(), *number)),
            State::Down(failure) => Err(failure.clone()),
            State::New => Err(Failure::Timeout),
        }
    }

    /// It is not what it was taken for: find it anew.
    pub(crate) fn renounce(&self, why: Failure) {
        if let State::Up(_, number) = &*self.state.borrow() {
            self.tell(News::Lost(*number, why));
        }
    }

    /// A keeper that has not looked at what it was told before needs not be told more.
    fn tell(&self, news: News) {
        let _ = self.news.try_send(news);
    }
}

/// Says that an answer was late if it is dropped: then nobody waits for it any more.
struct Late<'a> {
    node: &'a Node,
    number: u64,
}

impl Drop for Late<'_> {
    fn drop(&mut self) {
        self.node.tell(News::Late(self.number));
    }
}

struct Keeper {
    finder: Finder,
    listener: Option<Listener>,
    state: watch::Sender<State>,
    news: mpsc::Sender<News>,
    heard: mpsc::Receiver<News>,
}

/// Numbers connections, so that what is said of one is not taken for another.
static NUMBER: AtomicU64 = AtomicU64::new(1);

impl Keeper {
    async fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let failure = match self.connect(number).await {
                Ok((connection, listening)) => {
                    pause = PAUSE_MIN;
                    self.state.send_replace(State::Up(connection.clone(), number));
                    let why = self.until_lost(connection, number).await;
                    drop(listening);
                    tracing::warn!(node = %self.finder, %why, "the connection to Redis is lost");
                    why
                }
                Err(failure) => failure,
            };
            // A replica stays one for a while; what broke may be back at once.
            let wait = if failure == Failure::ReadOnly { PAUSE_MAX } else { pause };
            self.state.send_replace(State::Down(failure));
            sleep(wait).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// A connection, and that it hears what changes, if it is to.
    async fn connect(
        &self,
        number: u64,
    ) -> Result<(MultiplexedConnection, Option<Listening>), Failure> {
        let connecting = async {
            let client = self.finder.find().await?;
            let mut connection = client
                .get_multiplexed_async_connection_with_config(&self.config(number))
                .await
                .map_err(|error| Failure::of_client(&error))?;
            if matches!(self.finder, Finder::Sentinels(..)) {
                ensure_primary(&mut connection).await?;
            }
            let listening = match &self.listener {
                Some(listener) if self.subscribe(&mut connection).await? => {
                    Some(Listening::begin(listener))
                }
                _ => None,
            };
            Ok((connection, listening))
        };
        timeout(CONNECT_MAX, connecting).await.unwrap_or_else(|_| {
            let text = format!("no connection to {} within {CONNECT_MAX:?}", self.finder);
            Err(Failure::Unreachable(text))
        })
    }

    /// Whether the server lets us hear what changes. If it does not, it can still decide.
    async fn subscribe(&self, connection: &mut MultiplexedConnection) -> Result<bool, Failure> {
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(CHANGED_CHANNEL);
        match connection.send_packed_command(&subscribe).await {
            Ok(Value::ServerError(why)) => {
                let why = Failure::of_server(&why);
                tracing::warn!(node = %self.finder, %why, "denials are not remembered: Redis \
                    refuses SUBSCRIBE {CHANGED_CHANNEL}");
                Ok(false)
            }
            Ok(_) => Ok(true),
            Err(error) => Err(Failure::of_client(&error)),
        }
    }

    /// No time limits of the client's own: each batch has one, and a connection has ours.
    fn config(&self, number: u64) -> AsyncConnectionConfig {
        let (news, listener) = (self.news.clone(), self.listener.clone());
        let heard = move |info: PushInfo| {
            match info.kind {
                PushKind::Disconnection => {
                    let why = Failure::Unreachable("the server closed the connection".to_owned());
                    let _ = news.try_send(News::Lost(number, why));
                }
                PushKind::Message => {
                    if let (Some(listener), [_, Value::BulkString(key)]) =
                        (&listener, info.data.as_slice())
                        && let Some(name) = Kind::Bucket.name(key)
                    {
                        listener(Heard::Changed(name));
                    }
                }
                _ => {}
            }
            Ok::<(), redis::aio::SendError>(())
        };
        AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(BATCHES_MAX)
            .set_push_sender(heard)
    }

    async fn until_lost(&mut self, mut connection: MultiplexedConnection, number: u64) -> Failure {
        loop {
            match self.heard.recv().await {
                Some(News::Lost(of, why)) if of == number => return why,
                Some(News::Late(of)) if of == number => {
                    // A server that hangs, or is no longer there, keeps the connection open.
                    let ping = redis::cmd("PING");
                    let answer = timeout(CONNECT_MAX, connection.send_packed_command(&ping)).await;
                    match answer {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => return Failure::of_client(&error),
                        Err(_) => return Failure::Timeout,
                    }
                }
                Some(_) => {}
                None => return Failure::Unreachable("nobody uses the connection".to_owned()),
            }
        }
    }
}

async fn ensure_primary(connection: &mut MultiplexedConnection) -> Result<(), Failure> {
    let role = connection.send_packed_command(&redis::cmd("ROLE")).await;
    let role = role.map_err(|error| Failure::of_client(&error))?;
    let Value::Array(items) = &role else { return Ok(()) };
    match items.first() {
        Some(Value::BulkString(role)) if role != b"master" => Err(Failure::ReadOnly),
        _ => Ok(()),
    }
}

impl Finder {
    async fn find(&self) -> Result<Client, Failure> {
        match self {
            Self::At(access, host, port) => Ok(access.node(host, *port)),
            Self::Sentinels(access, sentinels, service) => {
                let mut last = Failure::Unreachable("there are no Sentinels".to_owned());
                for (host, port) in sentinels {
                    match ask_sentinel(access, host, *port, service).await {
                        Ok((host, port)) => return Ok(access.node(&host, port)),
                        Err(failure) => last = failure,
                    }
                }
                Err(last)
            }
        }
    }
}

/// How long one Sentinel may take, so that another can be asked in time.
const SENTINEL_MAX: Duration = Duration::from_millis(100);

async fn ask_sentinel(
    access: &Access,
    host: &str,
    port: u16,
    service: &str,
) -> Result<(String, u16), Failure> {
    let late = |_| Failure::Unreachable(format!("Sentinel {} is late", Named(host, port)));
    let open = primary_of(access.sentinel(host, port, false), service);
    match timeout(SENTINEL_MAX, open).await.map_err(late)? {
        Err(Failure::Auth(_)) => {
            let known = primary_of(access.sentinel(host, port, true), service);
            timeout(SENTINEL_MAX, known).await.map_err(late)?
        }
        answer => answer,
    }
}

async fn primary_of(sentinel: Client, service: &str) -> Result<(String, u16), Failure> {
    let failed = |error: redis::RedisError| Failure::of_client(&error);
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let connecting = sentinel.get_multiplexed_async_connection_with_config(&config);
    let mut connection = connecting.await.map_err(failed)?;
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("get-master-addr-by-name").arg(service);
    let answer = connection.send_packed_command(&ask).await.map_err(failed)?;
    match answer {
        Value::Nil => {
            let text = format!("the Sentinels know no primary named {service}");
            Err(Failure::Refused(text))
        }
        Value::ServerError(error) => Err(Failure::of_server(&error)),
        Value::Array(items) => {
            let text = |item: Option<&Value>| match item {
                Some(Value::BulkString(bytes)) => String::from_utf8(bytes.clone()).ok(),
                _ => None,
            };
            let port = text(items.get(1)).and_then(|port| port.parse().ok());
            text(items.first())
                .zip(port)
                .ok_or_else(|| crate::bucket::nonsense(&Value::Array(items)))
        }
        other => Err(crate::bucket::nonsense(&other)),
    }
}

impl std::fmt::Display for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(_, host, port) => write!(f, "{}", Named(host, *port)),
            Self::Sentinels(_, _, service) => write!(f, "the primary of {service}"),
        }
    }
}
