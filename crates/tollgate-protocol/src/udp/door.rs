//! The door itself: many datagrams in, as many answers out.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tollgate::algorithm::average::{self, Average, Outcome};
use tollgate::store::shared::BucketNames;
use tollgate::store::{Fingerprint, Question};
use tollgate::{Keyed, Limiter, Moment};

use super::check::Check;
use super::codec::{self, Body, Request, Verdict};
use super::named::NamedAsks;
use super::pattern::Pattern;
use super::rules::{Action, DEFAULT_VERDICT, Desk, Rules};
use super::statistics::Statistics;
use crate::{Counts, DatagramDoor, Replies};

/// How many averages and named limits are asked for at once, so that a batch of any length takes bounded memory.
const QUESTIONS_MAX: usize = 256;

/// What statistics of the default are kept under.
const DEFAULT_KEY: &[u8] = b"default";
/// What keeps the averages of count rules apart from those that refuse.
const COUNTED: &[u8] = b"count";

/// Answers the datagrams of the UDP rate limiter.
///
/// Any number of threads may ask at once. Averages and statistics stay when the rules are
/// replaced.
pub struct Door {
    limiter: Arc<Limiter>,
    averages: Arc<Keyed<Average>>,
    statistics: Statistics,
    default_key: Fingerprint,
    live: RwLock<Arc<Live>>,
}

/// The rules in force, and what threads need to apply them.
struct Live {
    rules: Rules,
    /// Rooms that no thread is in; as many as there were threads at once. Each has kilobytes of its
    /// own, which would be copied twice for every batch without the box.
    #[expect(clippy::vec_box, reason = "they are moved in and out all the time")]
    rooms: Mutex<Vec<Box<Room>>>,
}

/// What one thread needs while it answers. It is used again, so that answering does not allocate.
struct Room {
    desk: Desk,
    questions: Vec<Question<Average>>,
    /// What the averages are called that are still to be asked for, where others need to know.
    names: BucketNames,
    outcomes: Vec<Outcome>,
    /// Asks of named limits.
    named: NamedAsks,
    /// What to count for statistics once the questions are answered, in order.
    tallies: Vec<Tally>,
    /// Answers that wait for the questions, in order.
    waiting: Vec<Waiting>,
}

struct Tally {
    key: Fingerprint,
    of: Planned,
}

/// A datagram, and what it will be answered.
struct Waiting {
    datagram: usize,
    /// How many bytes of the datagram the answer begins with.
    prefix: usize,
    reply: Reply,
}

enum Reply {
    Silence,
    Pong,
    Verdict(Planned),
}

/// A verdict, or which question will bring it.
#[derive(Clone, Copy)]
enum Planned {
    Question(usize),
    Named(usize),
    Verdict(Verdict),
}

impl Door {
    /// A door that keeps averages in `averages` and asks `limiter` where a rule uses a named limit.
    pub fn new(limiter: Arc<Limiter>, averages: Arc<Keyed<Average>>, rules: Rules) -> Self {
        let default_key = averages.fingerprint(&[DEFAULT_KEY]);
        let live = RwLock::new(Arc::new(Live::new(rules)));
        Self { limiter, averages, statistics: Statistics::default(), default_key, live }
    }

    /// Replaces the rules. While `swap` replaces the limits that they were read with, no datagram
    /// is answered; so none sees rules of one file and limits of another.
    pub fn reload<R>(&self, rules: Rules, swap: impl FnOnce() -> R) -> R {
        let next = Arc::new(Live::new(rules));
        let mut live = self.live.write();
        *live = next;
        swap()
    }
}

impl Live {
    fn new(rules: Rules) -> Self {
        Self { rules, rooms: Mutex::new(Vec::new()) }
    }

    fn enter(&self) -> Box<Room> {
        let room = self.rooms.lock().pop();
        room.unwrap_or_else(|| {
            Box::new(Room {
                desk: self.rules.desk(),
                questions: Vec::new(),
                names: BucketNames::default(),
                outcomes: Vec::new(),
                named: NamedAsks::default(),
                tallies: Vec::new(),
                waiting: Vec::new(),
            })
        })
    }

    fn leave(&self, room: Box<Room>) {
        self.rooms.lock().push(room);
    }
}

impl DatagramDoor for Door {
    const REQUEST_BYTES_MAX: usize = 1200;

    fn waits(&self) -> bool {
        self.averages.waits() || self.limiter.wherever().waits()
    }

    #[expect(clippy::await_holding_lock, reason = "it is held only where nothing is waited for")]
    async fn answer_wherever(
        &self,
        requests: &[&[u8]],
        now: Moment,
        replies: &mut Replies,
        counts: &mut Counts,
    ) {
        let guard = self.live.read();
        let live = Arc::clone(&guard);
        // A reload cannot wait for others to answer. Where they have to, a rule may ask for a limit
        // that has just gone, and then is as good as none.
        let _guard = (!self.waits()).then_some(guard);
        let mut room = live.enter();
        let mut visit = Visit { door: self, rules: &live.rules, room: &mut room, now };
        for datagram in 0..requests.len() {
            visit.take(requests, datagram, replies, counts).await;
        }
        visit.flush(requests, replies, counts).await;
        live.leave(room);
    }
}

/// One batch on its way.
struct Visit<'a> {
    door: &'a Door,
    rules: &'a Rules,
    room: &'a mut Room,
    now: Moment,
}

impl Visit<'_> {
    /// Answers a datagram, or lets it wait for the answers of others.
    async fn take(
        &mut self,
        requests: &[&[u8]],
        datagram: usize,
        replies: &mut Replies,
        counts: &mut Counts,
    ) {
        let bytes = requests.get(datagram).copied().unwrap_or_default();
        if bytes.len() > Door::REQUEST_BYTES_MAX {
            counts.ignored = counts.ignored.saturating_add(1);
            return self.wait(datagram, &[], Reply::Silence);
        }
        let Some(Request { prefix, body }) = codec::parse(bytes) else {
            return self.refuse(datagram, counts);
        };
        match body {
            Body::OverLimit(key) => {
                let planned = self.plan(key);
                self.wait(datagram, prefix, Reply::Verdict(planned));
                if self.room.asked() >= QUESTIONS_MAX {
                    self.flush(requests, replies, counts).await;
                }
            }
            Body::Ping => self.wait(datagram, prefix, Reply::Pong),
            // These see what those before them did, so those are answered first.
            Body::Stats(key) => {
                self.flush(requests, replies, counts).await;
                self.tell_stats(prefix, key, replies);
            }
            Body::Size => {
                self.flush(requests, replies, counts).await;
                self.tell_size(prefix, replies);
            }
            Body::CheckLimit(json) => {
                let Some(check) = Check::parse(json) else {
                    return self.refuse(datagram, counts);
                };
                self.flush(requests, replies, counts).await;
                self.check(prefix, &check, replies, counts).await;
            }
        }
        counts.requests = counts.requests.saturating_add(1);
    }

    fn refuse(&mut self, datagram: usize, counts: &mut Counts) {
        counts.malformed = counts.malformed.saturating_add(1);
        self.wait(datagram, &[], Reply::Silence);
    }

    fn wait(&mut self, datagram: usize, prefix: &[u8], reply: Reply) {
        self.room.waiting.push(Waiting { datagram, prefix: prefix.len(), reply });
    }

    fn tell_stats(&self, prefix: &[u8], key: &[u8], replies: &mut Replies) {
        let fingerprint = self.door.averages.fingerprint(&[key]);
        let summary = self.door.statistics.summary(fingerprint, self.now);
        replies.push_with(|out| {
            out.extend_from_slice(prefix);
            codec::write_stats(summary.requests, summary.over, summary.last_max_rate, key, out);
        });
    }

    fn tell_size(&self, prefix: &[u8], replies: &mut Replies) {
        let held = self.door.averages.held();
        replies.push_with(|out| {
            out.extend_from_slice(prefix);
            codec::write_size(held.keys, held.bytes, held.bytes_max, out);
        });
    }

    /// Asks for each key of a check in turn, up to the first that is over its limit.
    async fn check(
        &mut self,
        prefix: &[u8],
        check: &Check,
        replies: &mut Replies,
        counts: &mut Counts,
    ) {
        let mut verdicts = Vec::with_capacity(check.keys.len());
        for key in &check.keys {
            let planned = self.plan(key.as_bytes());
            self.settle().await;
            let verdict = self.room.verdict(planned);
            verdicts.push(verdict);
            if verdict.over {
                break;
            }
        }
        self.room.clear();
        counts.decided(verdicts.iter().any(|verdict| verdict.over));
        replies.push_with(|out| {
            out.extend_from_slice(prefix);
            check.write(&verdicts, out);
        });
    }

    /// Answers everything that waits.
    async fn flush(&mut self, requests: &[&[u8]], replies: &mut Replies, counts: &mut Counts) {
        self.settle().await;
        for waiting in &self.room.waiting {
            let request = requests.get(waiting.datagram).copied().unwrap_or_default();
            let prefix = request.get(..waiting.prefix).unwrap_or_default();
            replies.push_with(|out| match waiting.reply {
                Reply::Silence => {}
                Reply::Pong => {
                    out.extend_from_slice(prefix);
                    out.extend_from_slice(b"pong");
                }
                Reply::Verdict(planned) => {
                    let verdict = self.room.verdict(planned);
                    counts.decided(verdict.over);
                    out.extend_from_slice(prefix);
                    codec::write_verdict(&verdict, out);
                }
            });
        }
        self.room.clear();
    }

    /// Asks the questions and does the counting.
    async fn settle(&mut self) {
        let Room { questions, names, outcomes, named, .. } = &mut *self.room;
        // Those that were asked before stay answered.
        let asked = outcomes.len();
        outcomes.resize(questions.len(), Outcome::default());
        if let (Some(questions), Some(outcomes)) =
            (questions.get(asked..), outcomes.get_mut(asked..))
        {
            self.door.averages.decide_wherever(questions, names, outcomes, self.now).await;
        }
        names.clear();
        named.settle(self.door.limiter.wherever(), self.now).await;
        for tally in &self.room.tallies {
            let Verdict { over, rate, .. } = self.room.verdict(tally.of);
            self.door.statistics.count(tally.key, over, rate, self.now);
        }
        self.room.tallies.clear();
    }

    /// Counts, rewrites and matches a key.
    fn plan(&mut self, key: &[u8]) -> Planned {
        let Self { door, rules, room, .. } = self;
        let Room { desk, questions, names, tallies, .. } = &mut **room;
        let waits = door.averages.waits();
        let is_rewritten = desk.rewrite(rules, key, |rule, counted| {
            let of = Planned::Question(questions.len());
            questions.push(door.averages.question(&[COUNTED, counted], rule));
            if waits {
                names.push_parts(&[COUNTED, counted]);
            }
            tallies.push(Tally { key: door.averages.fingerprint(&[counted]), of });
        });
        if !is_rewritten {
            return self.judge(key);
        }
        let rewritten = desk.take_rewritten();
        let planned = self.judge(&rewritten);
        self.room.desk.put_back(rewritten);
        planned
    }

    /// What becomes of a use of a key that has been rewritten.
    fn judge(&mut self, key: &[u8]) -> Planned {
        if let Some(rule) = self.room.desk.rule(self.rules, key)
            && let Some(planned) = self.apply(&rule.action, Some(&rule.pattern), key)
        {
            if rule.stats {
                let key = self.door.averages.fingerprint(&[key]);
                self.room.tallies.push(Tally { key, of: planned });
            }
            return planned;
        }
        let default = &self.rules.default;
        let planned = self.apply(&default.action, None, key);
        let planned = planned.unwrap_or(Planned::Verdict(DEFAULT_VERDICT));
        if default.stats {
            self.room.tallies.push(Tally { key: self.door.default_key, of: planned });
        }
        planned
    }

    /// `None` where a named limit has no place for the id.
    fn apply(&mut self, action: &Action, pattern: Option<&Pattern>, key: &[u8]) -> Option<Planned> {
        match action {
            Action::Fixed(verdict) => Some(Planned::Verdict(*verdict)),
            Action::Average(rule, template) => {
                let key = match template {
                    Some(template) => self.room.desk.make(template, pattern, key),
                    None => key,
                };
                let question = self.door.averages.question(&[key], *rule);
                if self.door.averages.waits() {
                    self.room.names.push_parts(&[key]);
                }
                let place = self.room.questions.len();
                self.room.questions.push(question);
                Some(Planned::Question(place))
            }
            Action::Named { limit, id } => {
                let id = std::str::from_utf8(self.room.desk.make(id, pattern, key)).ok()?;
                self.room.named.push(&self.door.limiter, limit, id).map(Planned::Named)
            }
        }
    }
}

impl Room {
    fn verdict(&self, planned: Planned) -> Verdict {
        let place = match planned {
            Planned::Verdict(verdict) => return verdict,
            Planned::Named(place) => return self.named.verdict(place).unwrap_or(DEFAULT_VERDICT),
            Planned::Question(place) => place,
        };
        match (self.questions.get(place), self.outcomes.get(place)) {
            (Some(question), Some(outcome)) => averaged(&question.ask, *outcome),
            _ => DEFAULT_VERDICT,
        }
    }

    /// How much is to be asked, or was.
    fn asked(&self) -> usize {
        self.questions.len().saturating_add(self.named.len())
    }

    fn clear(&mut self) {
        self.questions.clear();
        self.outcomes.clear();
        self.named.clear();
        self.waiting.clear();
    }
}

fn averaged(rule: &average::Rule, outcome: Outcome) -> Verdict {
    let period_secs = codec::whole(rule.period_secs()).max(1);
    Verdict { over: outcome.over, rate: outcome.rate, limit: rule.limit(), period_secs }
}

impl Counts {
    fn decided(&mut self, is_over: bool) {
        let count = if is_over { &mut self.denied } else { &mut self.allowed };
        *count = count.saturating_add(1);
    }
}
