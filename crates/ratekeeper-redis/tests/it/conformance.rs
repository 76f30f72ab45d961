//! The laws of every store, kept by Redis: alone, found by Sentinels, and in a cluster.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, RwLock};

use ratekeeper::algorithm::book::{Book, Gcra};
use ratekeeper::algorithm::gcra::Outcome;
use ratekeeper::store::{Question, Store};
use ratekeeper::{Moment, Nanos};
use ratekeeper_redis::{Ask, Rule};

use crate::servers::{Blocking, Cluster, Sentinel, Single};

/// Redis tells the time in microseconds.
const RESOLUTION: Nanos = Nanos::new(1_000);

/// Buckets in Redis, behind the trait of a store: each question waits for its answer.
struct RedisStore {
    link: Blocking,
    book: RwLock<Arc<Book>>,
    /// When the rules last changed.
    since: Mutex<Moment>,
    /// Tells the buckets of one store from those of others on the same server.
    number: u64,
}

impl RedisStore {
    fn new(url: &str, book: Book) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self {
            link: Blocking::open(url),
            book: RwLock::new(Arc::new(book)),
            since: Mutex::new(Moment::EPOCH),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn ask(&self, questions: &[Question<Gcra>], now: Moment) -> Vec<Outcome> {
        let (book, since) = (self.book.read().unwrap().clone(), *self.since.lock().unwrap());
        let rule = |question: &Question<Gcra>| {
            let (_, rule) = book.in_force(question.ask.rule).unwrap();
            Rule::new(&rule).unwrap()
        };
        let name = |question: &Question<Gcra>| {
            format!("{}:{:032x}", self.number, question.bucket.get()).into_bytes()
        };
        let named: Vec<_> = questions.iter().map(|each| (name(each), rule(each))).collect();
        let asks: Vec<_> = questions
            .iter()
            .zip(&named)
            .map(|(question, (bucket, rule))| Ask {
                bucket,
                rule,
                since,
                action: question.ask.action,
                is_shadow: question.ask.is_shadow,
                cost: question.ask.cost,
                joined: question.joined,
            })
            .collect();
        self.link.gcra(&asks, Some(now)).into_iter().map(|answer| answer.outcome).collect()
    }
}

impl Store<Gcra> for RedisStore {
    fn decide(&self, questions: &[Question<Gcra>], outcomes: &mut [Outcome], now: Moment) {
        outcomes.copy_from_slice(&self.ask(questions, now));
    }

    fn install(&self, book: &Arc<Book>) {
        *self.book.write().unwrap() = Arc::clone(book);
    }

    /// Only buckets that moved are visited; the others are carried over when they are asked, as of
    /// the moment that is remembered here.
    fn carry_over(&self, moved: &[Question<Gcra>], at: Moment) {
        *self.since.lock().unwrap() = at;
        for question in moved {
            self.ask(&[*question], at);
        }
    }
}

mod single {
    use super::*;

    static SERVER: LazyLock<Single> = LazyLock::new(Single::start);

    ratekeeper::store_suite!(|book| RedisStore::new(&SERVER.url(), book), RESOLUTION);
}

mod sentinel {
    use super::*;

    static SERVERS: LazyLock<Sentinel> = LazyLock::new(Sentinel::start);

    ratekeeper::store_suite!(|book| RedisStore::new(&SERVERS.url(), book), RESOLUTION);
}

mod cluster {
    use super::*;

    static SERVERS: LazyLock<Cluster> = LazyLock::new(Cluster::start);

    ratekeeper::store_suite!(|book| RedisStore::new(&SERVERS.url(), book), RESOLUTION);
}
