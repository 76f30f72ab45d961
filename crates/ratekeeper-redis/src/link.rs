//! The way to Redis: every batch is one round trip per node, within a time that the caller sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use ratekeeper::Moment;
use redis::{Pipeline, ServerErrorKind, Value};
use tokio::time::{sleep, timeout};

use crate::address::{Access, Address, AddressError, Layout, Tls};
use crate::bucket::{self, Answer, Ask, Owed};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::node::{Finder, Heard, Listener, Node};
use crate::script::Call;
use crate::{average, cross_slot, quota};

/// How often a call is sent again because a node said that it did not run it: the script was not
/// there, the slot has moved.
const ROUNDS_MAX: usize = 8;
/// How long to wait while a slot moves with only some keys of a transaction.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// Connections to Redis: one to each server that decides. Each worker has a link of its own.
///
/// It connects, and connects again, in the background. While there is no connection every ask
/// fails at once; only the first is waited for.
pub struct Link {
    routes: Routes,
    /// Whether a call is of one slot, although there is only one server that is known of.
    has_slots: AtomicBool,
}

enum Routes {
    One(Arc<Node>),
    Many(Box<Cluster>),
}

/// How one batch is decided.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// How long it may take. What has no answer by then has failed with [`Failure::Timeout`].
    pub within: Duration,
    /// The moment to decide for, in tests; otherwise Redis looks at its own clock. In whole
    /// microseconds: what is beyond them is cut off.
    pub now: Option<Moment>,
}

impl Visit {
    /// By the clock of Redis, in no more than this time.
    pub const fn within(within: Duration) -> Self {
        Self { within, now: None }
    }
}

impl Link {
    /// Begins to connect. Refuses only what can be told without the server, such as a certificate
    /// that cannot be read. Must be called inside a Tokio runtime, which the connections then
    /// belong to.
    pub fn open(address: &Address, tls: &Tls) -> Result<Self, AddressError> {
        Self::start(address, tls, None)
    }

    /// Like [`Self::open`], and also listens: `listener` is called with each bucket that was refunded
    /// or reset, by whichever server. In a cluster, one node is listened to; all tell each other.
    pub fn open_and_listen(
        address: &Address,
        tls: &Tls,
        listener: impl Fn(Heard<'_>) + Send + Sync + 'static,
    ) -> Result<Self, AddressError> {
        Self::start(address, tls, Some(Arc::new(listener)))
    }

    fn start(
        address: &Address,
        tls: &Tls,
        listener: Option<Listener>,
    ) -> Result<Self, AddressError> {
        let access = Access::new(address, tls)?;
        let (host, port) = address.hosts().first().ok_or(AddressError::NoHost)?.clone();
        let finder = match address.layout() {
            Layout::Single => Finder::At(access, host, port),
            Layout::Sentinel(service) => {
                Finder::Sentinels(access, address.hosts().to_vec(), service.clone())
            }
            Layout::Cluster => {
                let cluster = Cluster::start(address, access, listener);
                return Ok(Self::over(Routes::Many(Box::new(cluster))));
            }
        };
        Ok(Self::over(Routes::One(Arc::new(Node::start(finder, listener)))))
    }

    fn over(routes: Routes) -> Self {
        let has_slots = AtomicBool::new(matches!(routes, Routes::Many(_)));
        Self { routes, has_slots }
    }

    /// Decides transactions over buckets: one answer for each ask, in place of what `answers` held.
    /// If a transaction fails, all its asks have the same failure. What is asked of one bucket
    /// is decided in order, but for transactions that span slots.
    pub async fn gcra(
        &self,
        asks: &[Ask<'_>],
        visit: &Visit,
        answers: &mut Vec<Result<Answer, Failure>>,
    ) {
        answers.clear();
        answers.resize(asks.len(), Err(Failure::Timeout));
        let has_slots = self.has_slots.load(Ordering::Relaxed);
        let (deals, cross_slot) = bucket::deal(asks, visit.now, has_slots);
        let together = async {
            let mut replies = Vec::new();
            self.call(&deals, visit.within, &mut replies).await;
            replies
        };
        let apart = async {
            let mut apart = Vec::new();
            let all = cross_slot.iter().map(|place| {
                let asks = &asks[place.clone()];
                async move { (place.clone(), cross_slot::decide(self, asks, visit).await) }
            });
            let mut all: FuturesUnordered<_> = all.collect();
            while let Some(done) = all.next().await {
                apart.push(done);
            }
            apart
        };
        let (replies, apart) = tokio::join!(together, apart);
        for (deal, reply) in deals.iter().zip(replies) {
            match reply {
                Ok(reply) => deal.read(&reply, answers),
                Err(failure) => deal.fail(&failure, answers),
            }
        }
        for (place, decided) in apart {
            match decided {
                Ok(decided) => {
                    for (answer, decided) in answers[place].iter_mut().zip(decided) {
                        *answer = Ok(decided);
                    }
                }
                Err(failure) => answers[place].fill(Err(failure)),
            }
        }
    }

    /// Counts uses of decaying averages: one answer for each ask, in place of what `answers` held.
    pub async fn average(
        &self,
        asks: &[average::Ask<'_>],
        visit: &Visit,
        answers: &mut Vec<Result<average::Answer, Failure>>,
    ) {
        let uses = asks.iter().map(|ask| average::Use { ask, now: visit.now });
        let (uses, mut replies): (Vec<_>, _) = (uses.collect(), Vec::new());
        self.call(&uses, visit.within, &mut replies).await;
        answers.clear();
        answers.extend(replies.into_iter().map(|reply| average::read(&reply?)));
    }

    /// Answers requests to quotas: one answer for each ask, in place of what `answers` held.
    pub async fn quota(
        &self,
        asks: &[quota::Ask<'_>],
        visit: &Visit,
        answers: &mut Vec<Result<quota::Answer, Failure>>,
    ) {
        let requests = asks.iter().map(|ask| quota::Request { ask, now: visit.now });
        let (requests, mut replies): (Vec<_>, _) = (requests.collect(), Vec::new());
        self.call(&requests, visit.within, &mut replies).await;
        answers.clear();
        answers.extend(replies.into_iter().map(|reply| quota::read(&reply?)));
    }

    /// All servers that decide, or why they are not known.
    pub(crate) async fn nodes(&self) -> Result<Vec<Arc<Node>>, Failure> {
        match &self.routes {
            Routes::One(node) => Ok(vec![Arc::clone(node)]),
            Routes::Many(cluster) => Ok(cluster.map().await?.nodes().cloned().collect()),
        }
    }

    /// Runs every call once, or tells why not.
    pub(crate) async fn call<C: Call>(
        &self,
        calls: &[C],
        within: Duration,
        replies: &mut Vec<Result<Value, Failure>>,
    ) {
        replies.clear();
        replies.resize(calls.len(), Err(Failure::Timeout));
        // What came in time stays in `replies`; what did not is there as such already.
        let _ = timeout(within, self.rounds(calls, replies)).await;
    }

    /// Sends what has no reply yet, until every call was run or has failed. Only a call that its
    /// node says it did not run is sent again.
    async fn rounds<C: Call>(&self, calls: &[C], replies: &mut [Result<Value, Failure>]) {
        let mut waiting: Vec<_> = (0..calls.len()).map(Errand::new).collect();
        let mut rounds = 0;
        while !waiting.is_empty() && rounds < ROUNDS_MAX {
            let batches = match self.batches(calls, waiting, replies).await {
                Ok(batches) => batches,
                Err((failure, waiting)) => {
                    for errand in waiting {
                        replies[errand.call] = Err(failure.clone());
                    }
                    return;
                }
            };
            waiting = Vec::new();
            let mut is_moving = false;
            let sent = batches.into_iter().map(|batch| batch.send(calls));
            let mut sent: FuturesUnordered<_> = sent.collect();
            while let Some((batch, answer)) = sent.next().await {
                is_moving |= self.sort(batch, answer, &mut waiting, replies);
            }
            if is_moving {
                // However long it takes: the deadline ends it.
                sleep(TRY_AGAIN).await;
            } else {
                rounds += 1;
            }
        }
        for errand in waiting {
            let text = "it moved from node to node".to_owned();
            replies[errand.call] = Err(Failure::ClusterDown(text));
        }
    }

    /// What goes to which node.
    async fn batches<C: Call>(
        &self,
        calls: &[C],
        waiting: Vec<Errand>,
        replies: &mut [Result<Value, Failure>],
    ) -> Result<Vec<Batch>, (Failure, Vec<Errand>)> {
        let (cluster, map) = match &self.routes {
            Routes::One(node) => return Ok(vec![Batch::new(Arc::clone(node), waiting)]),
            Routes::Many(cluster) => match cluster.map().await {
                Ok(map) => (cluster, map),
                Err(failure) => return Err((failure, waiting)),
            },
        };
        let mut batches: Vec<Batch> = Vec::new();
        for errand in waiting {
            let told = errand.to.as_deref().and_then(|place| cluster.at(&map, place));
            let node = told.or_else(|| map.owner(calls[errand.call].slot()).cloned());
            let Some(node) = node else {
                let text = "no known node has the slot".to_owned();
                replies[errand.call] = Err(Failure::ClusterDown(text));
                self.is_stale();
                continue;
            };
            match batches.iter_mut().find(|batch| Arc::ptr_eq(&batch.node, &node)) {
                Some(batch) => batch.errands.push(errand),
                None => batches.push(Batch::new(node, vec![errand])),
            }
        }
        Ok(batches)
    }

    /// Puts replies where they belong, and into `waiting` what has to be sent again. Tells whether
    /// that should wait a little.
    fn sort(
        &self,
        batch: Batch,
        answer: Result<Vec<Value>, Failure>,
        waiting: &mut Vec<Errand>,
        replies: &mut [Result<Value, Failure>],
    ) -> bool {
        let values = match answer {
            Ok(values) => values,
            Err(failure) => {
                self.is_stale();
                for errand in batch.errands {
                    replies[errand.call] = Err(failure.clone());
                }
                return false;
            }
        };
        let mut is_moving = false;
        for (errand, value) in batch.errands.into_iter().zip(values) {
            let Value::ServerError(error) = &value else {
                replies[errand.call] = Ok(value);
                continue;
            };
            let place =
                || error.details().and_then(|text| text.split(' ').nth(1)).map(str::to_owned);
            match error.kind() {
                Some(ServerErrorKind::NoScript) => {
                    waiting.push(Errand { must_load: true, ..errand });
                }
                Some(ServerErrorKind::Moved) => {
                    self.is_stale();
                    waiting.push(Errand { to: place(), ..Errand::new(errand.call) });
                }
                Some(ServerErrorKind::Ask) => {
                    let call = errand.call;
                    waiting.push(Errand { to: place(), is_asking: true, ..Errand::new(call) });
                }
                Some(ServerErrorKind::TryAgain) => {
                    is_moving = true;
                    waiting.push(errand);
                }
                kind => {
                    if kind == Some(ServerErrorKind::CrossSlot) {
                        // A server of a cluster, or what stands in front of one: from now on calls
                        // are cut as for one.
                        self.has_slots.store(true, Ordering::Relaxed);
                    }
                    let failure = Failure::of_server(error);
                    if failure == Failure::ReadOnly {
                        batch.node.renounce(failure.clone());
                    }
                    if matches!(failure, Failure::ReadOnly | Failure::ClusterDown(_)) {
                        self.is_stale();
                    }
                    replies[errand.call] = Err(failure);
                }
            }
        }
        is_moving
    }

    fn is_stale(&self) {
        if let Routes::Many(cluster) = &self.routes {
            cluster.is_stale();
        }
    }
}

/// One call on its way.
struct Errand {
    /// Which of the calls.
    call: usize,
    /// Where a node said that it should go, instead of where the map says.
    to: Option<String>,
    /// Whether that node does not own the slot yet.
    is_asking: bool,
    /// Whether its script has to be sent first.
    must_load: bool,
}

impl Errand {
    fn new(call: usize) -> Self {
        Self { call, to: None, is_asking: false, must_load: false }
    }
}

/// What goes to one node in one go.
struct Batch {
    node: Arc<Node>,
    errands: Vec<Errand>,
}

impl Batch {
    fn new(node: Arc<Node>, errands: Vec<Errand>) -> Self {
        Self { node, errands }
    }

    /// One reply for each errand.
    async fn send<C: Call>(self, calls: &[C]) -> (Self, Result<Vec<Value>, Failure>) {
        let mut commands = Pipeline::with_capacity(self.errands.len());
        // Which of the answers are not to errands, in order.
        let mut extra = Vec::new();
        let mut loaded = "";
        for errand in &self.errands {
            let script = calls[errand.call].script();
            if errand.must_load && loaded != script.hash {
                extra.push(commands.len());
                commands.cmd("SCRIPT").arg("LOAD").arg(script.text);
                loaded = &script.hash;
            }
            if errand.is_asking {
                extra.push(commands.len());
                commands.cmd("ASKING");
            }
            commands.cmd("EVALSHA").arg(&script.hash);
            calls[errand.call].write(&mut commands);
        }
        let sent = self.node.send(&commands).await;
        let answer = sent.and_then(|values| {
            if values.len() != commands.len() {
                let text = format!("{} answers to {} commands", values.len(), commands.len());
                return Err(Failure::Nonsense(text));
            }
            let mut index = 0;
            let mut values = values;
            values.retain(|_| {
                index += 1;
                extra.binary_search(&(index - 1)).is_err()
            });
            Ok(values)
        });
        (self, answer)
    }
}

/// Puts the moments and debts of a reply beside its asks.
pub(crate) fn read_debts(
    asks: &[Ask<'_>],
    now: u64,
    owed: &[[u64; 2]],
) -> Result<Vec<Answer>, Failure> {
    let now = bucket::moment(now);
    let read = |(ask, &[debt, hidden]): (&Ask<'_>, &[u64; 2])| {
        bucket::read_owed(ask, Owed { debt, hidden }, now)
    };
    asks.iter().zip(owed).map(read).collect()
}
