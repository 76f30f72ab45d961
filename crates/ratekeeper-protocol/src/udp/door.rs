//! The door itself: many datagrams in, as many answers out.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use ratekeeper::algorithm::Owner;
use ratekeeper::algorithm::average::Average;
use ratekeeper::store::Fingerprint;
use ratekeeper::{Keyed, Limiter, Moment};
use smallvec::SmallVec;

use super::asks::{Asks, Planned};
use super::check::{Check, KEYS};
use super::codec::{self, Body, Request, Terms, Verdict};
use super::pattern::Pattern;
use super::rules::{Action, DEFAULT_VERDICT, RuleScratch, Rules};
use super::statistics::Statistics;
use crate::{Counts, DatagramDoor, Replies, number};

/// How many averages and named limits are asked for at once, so that a batch of any length takes
/// bounded memory.
const ASKS_MAX: usize = 256;

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
    answers_checks: bool,
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
    scratch: RuleScratch,
    asks: Asks,
    /// Answers that wait for what is asked, in order.
    waiting: Vec<Waiting>,
    terms: Terms,
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
    /// What this step is answered.
    Verdict(usize),
    /// What the steps for its keys are answered, as far as they were asked.
    Check(Box<(Check, [usize; KEYS])>),
    Stats,
    Size,
}

impl Door {
    /// A door that keeps averages in `averages` and asks `limiter` where a rule uses a named limit.
    pub fn new(limiter: Arc<Limiter>, averages: Arc<Keyed<Average>>, rules: Rules) -> Self {
        let default_key = averages.fingerprint(&[DEFAULT_KEY]);
        let live = RwLock::new(Arc::new(Live::new(rules)));
        let statistics = Statistics::default();
        Self { limiter, averages, statistics, default_key, live, answers_checks: true }
    }

    /// The same door, which does not answer `check_limit`: it is the one command whose answer is
    /// many times as long as the shortest request, and who asks can forge where it goes.
    #[must_use]
    pub fn without_checks(self) -> Self {
        Self { answers_checks: false, ..self }
    }

    /// Replaces the rules. While `swap` replaces the limits that they were read with, no datagram
    /// is answered; so none sees rules of one file and limits of another.
    pub fn reload<R>(&self, rules: Rules, swap: impl FnOnce() -> R) -> R {
        let next = Arc::new(Live::new(rules));
        let mut live = self.live.write();
        *live = next;
        swap()
    }

    /// What people call an owner of averages, in the rules that are in force: `rule 3, ^ws ip=`. None
    /// for the owner of averages of earlier rules, of which there were more.
    pub fn owner_name(&self, owner: Owner) -> Option<String> {
        self.live.read().rules.owner_name(owner).map(str::to_owned)
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
                scratch: self.rules.scratch(),
                asks: Asks::default(),
                waiting: Vec::new(),
                terms: Terms::default(),
            })
        })
    }

    fn leave(&self, room: Box<Room>) {
        self.rooms.lock().push(room);
    }
}

impl DatagramDoor for Door {
    const REQUEST_BYTES_MAX: usize = 1200;

    /// By the number that it begins with, and so does its reply.
    fn is_told_apart(request: &[u8]) -> bool {
        request.first().is_some_and(u8::is_ascii_digit)
    }

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
        for (datagram, request) in requests.iter().enumerate() {
            if visit.take(datagram, request, counts) == Then::Flush {
                visit.flush(requests, replies, counts).await;
            }
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

/// What is to be done before the next datagram is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// What waits is to be answered.
    Flush,
}

impl Visit<'_> {
    /// Lets a datagram wait for its answer.
    fn take(&mut self, datagram: usize, request: &[u8], counts: &mut Counts) -> Then {
        if request.len() > Door::REQUEST_BYTES_MAX {
            counts.ignored = counts.ignored.saturating_add(1);
            return self.wait(datagram, &[], Reply::Silence);
        }
        let Some(Request { prefix, body }) = codec::parse(request) else {
            return self.refuse(datagram, counts);
        };
        let reply = match body {
            Body::OverLimit(key) => Reply::Verdict(self.plan(key, None)),
            Body::Ping => Reply::Pong,
            Body::Stats(_) => Reply::Stats,
            Body::Size => Reply::Size,
            Body::CheckLimit(json) => {
                match Check::parse(json).filter(|_| self.door.answers_checks) {
                    Some(check) => self.check(check),
                    None => return self.refuse(datagram, counts),
                }
            }
        };
        counts.requests = counts.requests.saturating_add(1);
        self.wait(datagram, prefix, reply)
    }

    fn refuse(&mut self, datagram: usize, counts: &mut Counts) -> Then {
        counts.malformed = counts.malformed.saturating_add(1);
        self.wait(datagram, &[], Reply::Silence)
    }

    fn wait(&mut self, datagram: usize, prefix: &[u8], reply: Reply) -> Then {
        // These see what those before them did, and nothing of those behind them.
        let is_last = matches!(reply, Reply::Stats | Reply::Size);
        self.room.waiting.push(Waiting { datagram, prefix: prefix.len(), reply });
        if is_last || self.room.asks.asked() >= ASKS_MAX { Then::Flush } else { Then::Nothing }
    }

    /// Asks for each key of a check in turn, up to the first that is over its limit.
    fn check(&mut self, check: Check) -> Reply {
        let mut behind = None;
        let steps = std::array::from_fn(|place| {
            let key = check.keys.get(place).map(String::as_bytes).unwrap_or_default();
            let step = self.plan(key, behind);
            behind = Some(step);
            step
        });
        Reply::Check(Box::new((check, steps)))
    }

    /// Answers everything that waits.
    async fn flush(&mut self, requests: &[&[u8]], replies: &mut Replies, counts: &mut Counts) {
        let Self { door, room, now, .. } = self;
        let Room { asks, waiting, terms, .. } = &mut **room;
        asks.settle(&door.averages, &door.limiter, &door.statistics, *now).await;
        for Waiting { datagram, prefix, reply } in waiting.drain(..) {
            let request = requests.get(datagram).copied().unwrap_or_default();
            replies.push_with(|out| {
                push_first(request, prefix, out);
                match reply {
                    Reply::Silence => {}
                    Reply::Pong => out.extend_from_slice(b"pong"),
                    Reply::Verdict(step) => {
                        let verdict = asks.verdict(step).unwrap_or(DEFAULT_VERDICT);
                        counts.decided(verdict.over);
                        terms.write(&verdict, out);
                    }
                    Reply::Check(check) => {
                        let (check, steps) = *check;
                        let verdicts: SmallVec<[Verdict; KEYS]> =
                            steps.into_iter().map_while(|step| asks.verdict(step)).collect();
                        counts.decided(verdicts.iter().any(|verdict| verdict.over));
                        check.write(&verdicts, out);
                    }
                    Reply::Stats => door.tell_stats(request, *now, out),
                    Reply::Size => door.tell_size(out),
                }
            });
        }
        asks.clear();
    }

    /// Counts, rewrites and matches a key. Returns its step, which is only asked if the one that it
    /// stands `behind` is not over its limit.
    fn plan(&mut self, key: &[u8], behind: Option<usize>) -> usize {
        let Self { door, rules, room, .. } = self;
        let Room { scratch, asks, .. } = &mut **room;
        let is_rewritten = scratch.rewrite(rules, key, |rule, counted| {
            let of = asks.ask_average(&door.averages, &[COUNTED, counted], rule);
            asks.tally_counted(door.averages.fingerprint(&[counted]), of);
        });
        let planned = if is_rewritten {
            let rewritten = scratch.take_rewritten();
            let planned = self.judge(&rewritten);
            self.room.scratch.put_back(rewritten);
            planned
        } else {
            self.judge(key)
        };
        self.room.asks.plan(planned, behind, &self.door.limiter, &self.door.averages)
    }

    /// What becomes of a use of a key that has been rewritten.
    fn judge(&mut self, key: &[u8]) -> Planned {
        if let Some(rule) = self.room.scratch.rule(self.rules)
            && let Some(planned) = self.apply(&rule.action, Some(&rule.pattern), key)
        {
            if rule.stats {
                self.room.asks.tally(self.door.averages.fingerprint(&[key]), planned);
            }
            return planned;
        }
        let default = &self.rules.default;
        let planned = self.apply(&default.action, None, key);
        let planned = planned.unwrap_or(Planned::Verdict(DEFAULT_VERDICT));
        if default.stats {
            self.room.asks.tally(self.door.default_key, planned);
        }
        planned
    }

    /// `None` where a named limit has no place for the id.
    fn apply(&mut self, action: &Action, pattern: Option<&Pattern>, key: &[u8]) -> Option<Planned> {
        let Room { scratch, asks, .. } = &mut *self.room;
        match action {
            Action::Fixed(verdict) => Some(Planned::Verdict(*verdict)),
            Action::Average(rule, template) => {
                let key = match template {
                    Some(template) => scratch.make(template, pattern, key),
                    None => key,
                };
                Some(asks.ask_average(&self.door.averages, &[key], *rule))
            }
            Action::Named { limit, id } => {
                let id = std::str::from_utf8(scratch.make(id, pattern, key)).ok()?;
                asks.ask_named(&self.door.limiter, limit, id)
            }
        }
    }
}

impl Door {
    fn tell_stats(&self, request: &[u8], now: Moment, out: &mut Vec<u8>) {
        let Some(Request { body: Body::Stats(key), .. }) = codec::parse(request) else { return };
        let summary = self.statistics.summary(self.averages.fingerprint(&[key]), now);
        codec::write_stats(summary.requests, summary.over, summary.last_max_rate, key, out);
    }

    fn tell_size(&self, out: &mut Vec<u8>) {
        let held = self.averages.held();
        codec::write_size(held.keys, held.bytes, held.bytes_max, out);
    }
}

impl Counts {
    fn decided(&mut self, is_over: bool) {
        let count = if is_over { &mut self.denied } else { &mut self.allowed };
        *count = count.saturating_add(1);
    }
}

/// Appends the first `count` bytes of a request, of which there are at least as many.
#[inline]
fn push_first(request: &[u8], count: usize, out: &mut Vec<u8>) {
    match request.first_chunk::<16>() {
        Some(beginning) if count <= beginning.len() => number::push(beginning, count, out),
        _ => out.extend_from_slice(request.get(..count).unwrap_or_default()),
    }
}
