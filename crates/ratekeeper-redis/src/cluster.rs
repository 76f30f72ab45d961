//! Which node of a cluster has which slot, kept up to date in the background.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Pipeline, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::address::{Access, Address};
use crate::bucket::nonsense;
use crate::failure::Failure;
use crate::key::SLOTS;
use crate::node::{Finder, Listener, Node};

/// How often the map is asked for at most, and how often while a node is down.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a node may take to tell the map.
const MAP_MAX: Duration = Duration::from_millis(400);
/// How many nodes are looked at; the largest clusters have a thousand.
const NODES_MAX: usize = 4_096;
/// How many nodes are remembered that no map shows.
const GUESTS_MAX: usize = 16;

/// The nodes of a cluster.
pub(crate) struct Cluster {
    state: watch::Receiver<State>,
    wake: Arc<Notify>,
    access: Access,
    /// Nodes that others point to, and no map has shown yet.
    guests: Mutex<Vec<(Place, Arc<Node>)>>,
    /// Ends the mapper when the cluster is dropped.
    _mapper: JoinSet<()>,
}

#[derive(Clone)]
enum State {
    New,
    Known(Arc<Map>),
    Down(Failure),
}

/// Which node has which slot.
pub(crate) struct Map {
    /// For each slot the index of its node plus one; zero if none has it.
    owners: Vec<u16>,
    nodes: Vec<(Place, Arc<Node>)>,
}

type Place = (String, u16);

impl Map {
    /// The node that has this slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let index = usize::from(*self.owners.get(usize::from(slot))?).checked_sub(1)?;
        self.nodes.get(index).map(|(_, node)| node)
    }

    /// All nodes that have slots.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.iter().map(|(_, node)| node)
    }
}

impl Cluster {
    /// Begins to look for the nodes. Must be called where tasks can be started.
    pub(crate) fn start(address: &Address, access: Access, listener: Option<Listener>) -> Self {
        let (sender, state) = watch::channel(State::New);
        let wake = Arc::new(Notify::new());
        let mapper = Mapper {
            access: access.clone(),
            seeds: address.hosts().to_vec(),
            listener,
            state: sender,
            wake: Arc::clone(&wake),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(mapper.keep());
        Self { state, wake, access, guests: Mutex::default(), _mapper: tasks }
    }

    /// The map; waits for the first.
    pub(crate) async fn map(&self) -> Result<Arc<Map>, Failure> {
        let mut state = self.state.clone();
        let gone = |_| Failure::Unreachable("the cluster is no longer looked at".to_owned());
        let known = state.wait_for(|state| !matches!(state, State::New)).await.map_err(gone)?;
        match &*known {
            State::Known(map) => Ok(Arc::clone(map)),
            State::Down(failure) => Err(failure.clone()),
            State::New => Err(Failure::Timeout),
        }
    }

    /// The node at `host:port`, as a redirection names it. Without a host it is the one that was
    /// asked; of those that are known, the port tells.
    pub(crate) fn at(&self, map: &Map, place: &str) -> Option<Arc<Node>> {
        let (host, port) = place.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        let is_it = |known: &Place| known.1 == port && (host.is_empty() || known.0 == host);
        let mut guests = self.guests.lock();
        let mut known = map.nodes.iter().chain(&*guests);
        if let Some((_, node)) = known.find(|(known, _)| is_it(known)) {
            return Some(Arc::clone(node));
        }
        if host.is_empty() {
            return None;
        }
        let finder = Finder::At(self.access.clone(), host.to_owned(), port);
        let node = Arc::new(Node::start(finder, None));
        guests.truncate(GUESTS_MAX - 1);
        guests.insert(0, ((host.to_owned(), port), Arc::clone(&node)));
        Some(node)
    }

    /// Something was not where the map says.
    pub(crate) fn is_stale(&self) {
        self.wake.notify_one();
    }
}

struct Mapper {
    access: Access,
    seeds: Vec<Place>,
    listener: Option<Listener>,
    state: watch::Sender<State>,
    wake: Arc<Notify>,
}

impl Mapper {
    async fn keep(self) {
        loop {
            let found = self.ask_anyone().await;
            self.state.send_if_modified(|state| match (found, &state) {
                (Ok(map), _) => {
                    *state = State::Known(Arc::new(map));
                    true
                }
                // An old map is better than none: most slots are where they were.
                (Err(_), State::Known(_)) => false,
                (Err(failure), _) => {
                    *state = State::Down(failure);
                    true
                }
            });
            sleep(PAUSE).await;
            let is_whole = match &*self.state.borrow() {
                State::Known(map) => map.nodes().all(|node| !node.is_down()),
                _ => false,
            };
            if is_whole {
                self.wake.notified().await;
            }
        }
    }

    /// The nodes of the last map are asked first, those that are up before those that are not,
    /// then those of the address.
    async fn ask_anyone(&self) -> Result<Map, Failure> {
        let known = match &*self.state.borrow() {
            State::Known(map) => Some(Arc::clone(map)),
            _ => None,
        };
        let mut last = Failure::Unreachable("no node of the cluster".to_owned());
        if let Some(map) = &known {
            for (place, node) in map.nodes.iter().filter(|(_, node)| !node.is_down()) {
                match self.ask(node, place, known.as_deref()).await {
                    Ok(map) => return Ok(map),
                    Err(failure) => last = failure,
                }
            }
        }
        for (host, port) in &self.seeds {
            let finder = Finder::At(self.access.clone(), host.clone(), *port);
            let node = Node::start(finder, None);
            match self.ask(&node, &(host.clone(), *port), known.as_deref()).await {
                Ok(map) => return Ok(map),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn ask(&self, node: &Node, place: &Place, known: Option<&Map>) -> Result<Map, Failure> {
        let mut command = Pipeline::new();
        command.cmd("CLUSTER").arg("SLOTS");
        let answers = timeout(MAP_MAX, node.send(&command)).await;
        let answers = answers.unwrap_or(Err(Failure::Timeout))?;
        let reply = match answers.first() {
            Some(Value::ServerError(error)) => return Err(Failure::of_server(error)),
            Some(reply) => reply,
            None => return Err(Failure::Nonsense("no answer to CLUSTER SLOTS".to_owned())),
        };
        let ranges = ranges(reply, &place.0).ok_or_else(|| nonsense(reply))?;
        if ranges.is_empty() {
            return Err(Failure::ClusterDown("no node has any slot".to_owned()));
        }
        Ok(self.map(ranges, known))
    }

    fn map(&self, ranges: Vec<Range>, known: Option<&Map>) -> Map {
        let mut map = Map { owners: vec![0; SLOTS], nodes: Vec::new() };
        for range in ranges {
            let index = map.nodes.iter().position(|(place, _)| *place == range.place);
            let index = index.unwrap_or_else(|| {
                let node = self.node(&range.place, known, map.nodes.is_empty());
                map.nodes.push((range.place.clone(), node));
                map.nodes.len() - 1
            });
            let owner = u16::try_from(index.min(NODES_MAX) + 1).unwrap_or_default();
            map.owners[range.first..=range.last].fill(owner);
        }
        map
    }

    /// The connection that there is to this node, or a new one. One node is enough to hear what
    /// changes: a cluster tells all of them.
    fn node(&self, place: &Place, known: Option<&Map>, is_first: bool) -> Arc<Node> {
        let before = known.and_then(|map| map.nodes.iter().find(|(name, _)| name == place));
        if let Some((_, node)) = before
            && (node.listens() || !is_first || self.listener.is_none())
        {
            return Arc::clone(node);
        }
        let finder = Finder::At(self.access.clone(), place.0.clone(), place.1);
        let listener = if is_first { self.listener.clone() } else { None };
        Arc::new(Node::start(finder, listener))
    }
}

struct Range {
    first: usize,
    last: usize,
    place: Place,
}

/// The answer to `CLUSTER SLOTS`: each range with its primary, which comes first. A node that does
/// not know its own host is `asked`.
fn ranges(reply: &Value, asked: &str) -> Option<Vec<Range>> {
    let Value::Array(items) = reply else { return None };
    items.iter().map(|item| range(item, asked)).collect()
}

fn range(item: &Value, asked: &str) -> Option<Range> {
    let Value::Array(fields) = item else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = fields.as_slice() else {
        return None;
    };
    let slot = |number: i64| usize::try_from(number).ok().filter(|&slot| slot < SLOTS);
    let (first, last) = (slot(*first)?, slot(*last)?);
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) if host.as_slice() != b"?" && !host.is_empty() => {
            String::from_utf8(host.clone()).ok()?
        }
        _ => asked.to_owned(),
    };
    (first <= last).then_some(Range { first, last, place: (host, u16::try_from(*port).ok()?) })
}
