//! A seeded generator of nasty scripts, for one bucket or several.

use crate::oracle::Answer;
use crate::random::Random;
use crate::sample;
use crate::terms::Terms;
use crate::transaction::Mode;

/// No step happens after this moment.
pub const AT_NS_MAX: u64 = 1 << 62;
/// A transaction asks at most this many buckets.
pub const ASKS_MAX: u64 = 5;

/// One call of the limiter; buckets are numbered from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Step {
    /// Spend if there is room.
    Spend { bucket: usize, cost: u64 },
    /// Ask without spending.
    Check { bucket: usize, cost: u64 },
    /// Give back.
    Refund { bucket: usize, cost: u64 },
    /// Forget what was spent.
    Reset { bucket: usize },
    /// Put new terms in force; the first change of a bucket creates it, full.
    Change { bucket: usize, terms: Terms },
    /// Several asks, as bucket, cost and mode, in one decision.
    Transaction { asks: Vec<(usize, u64, Mode)> },
}

impl Step {
    /// The buckets the step touches.
    pub fn buckets(&self) -> impl Iterator<Item = usize> {
        let (one, many) = match self {
            Self::Spend { bucket, .. }
            | Self::Check { bucket, .. }
            | Self::Refund { bucket, .. }
            | Self::Reset { bucket }
            | Self::Change { bucket, .. } => (Some(*bucket), &[][..]),
            Self::Transaction { asks } => (None, asks.as_slice()),
        };
        one.into_iter().chain(many.iter().map(|(bucket, _, _)| *bucket))
    }
}

/// What the next step is already meant to be.
#[derive(Debug, Clone, Copy)]
enum Plan {
    /// Spend once more, one nanosecond before the last answer says it can be.
    KnockTooEarly { bucket: usize, cost: u64 },
    /// Spend once more, exactly when the last answer says it can be.
    KnockInTime { bucket: usize, cost: u64 },
    /// Let the bucket fill almost, just or more than up.
    IdleAlmostToFull { bucket: usize },
    /// Spend on, without pause.
    Burst { bucket: usize, cost: u64, left: u64 },
    /// Forget what was spent, so that a step back in time is not followed by denials only.
    Forget { bucket: usize },
}

/// The generator; driven step by step, because it aims at what the last answer said.
#[derive(Debug, Clone)]
pub struct Traffic {
    random: Random,
    accepts: fn(Terms) -> bool,
    terms: Vec<Option<Terms>>,
    /// The terms before those, for changes that are taken back.
    former: Vec<Option<Terms>>,
    now: u64,
    bucket: usize,
    plan: Option<Plan>,
}

impl Traffic {
    /// Traffic for `buckets` buckets, at least one, whose terms all pass `accepts`.
    ///
    /// # Panics
    /// Where there is no bucket.
    pub fn new(seed: u64, buckets: usize, accepts: fn(Terms) -> bool) -> Self {
        assert!(buckets > 0, "traffic needs a bucket");
        let mut random = Random::new(seed);
        let now = if random.chance(1, 4) { 0 } else { random.log_between(1, AT_NS_MAX / 2) };
        let (terms, former) = (vec![None; buckets], vec![None; buckets]);
        Self { random, accepts, terms, former, now, bucket: 0, plan: None }
    }

    /// The next step and its moment; `last` is the answer to the step before, where it had one.
    pub fn next(&mut self, last: Option<&Answer>) -> (u64, Step) {
        let step = if let Some(bucket) = self.terms.iter().position(Option::is_none) {
            self.create(bucket)
        } else if let Some(plan) = self.plan.take() {
            self.follow(plan, last)
        } else {
            self.improvise(last)
        };
        (self.now, step)
    }

    fn create(&mut self, bucket: usize) -> Step {
        let terms = sample::terms(&mut self.random, self.accepts);
        self.terms[bucket] = Some(terms);
        Step::Change { bucket, terms }
    }

    fn follow(&mut self, plan: Plan, last: Option<&Answer>) -> Step {
        let retry_in = last.map_or(0, |last| ns(last.retry_in));
        match plan {
            Plan::KnockTooEarly { bucket, cost } => {
                self.advance(retry_in.saturating_sub(1));
                self.plan = Some(Plan::KnockInTime { bucket, cost });
                Step::Spend { bucket, cost }
            }
            Plan::KnockInTime { bucket, cost } => {
                self.advance(retry_in);
                Step::Spend { bucket, cost }
            }
            Plan::IdleAlmostToFull { bucket } => {
                let idle = last.map_or(0, |last| ns(last.reset_in));
                let idle = self.around(idle);
                self.advance(idle);
                self.begin_burst(bucket)
            }
            Plan::Burst { bucket, cost, left } => {
                let pause = u64::from(self.random.chance(1, 8));
                self.advance(pause);
                self.plan = (left > 1).then(|| Plan::Burst { bucket, cost, left: left - 1 });
                Step::Spend { bucket, cost }
            }
            Plan::Forget { bucket } => Step::Reset { bucket },
        }
    }

    /// A few spends that together come to the burst or just above it.
    fn begin_burst(&mut self, bucket: usize) -> Step {
        let burst = self.terms_of(bucket).burst;
        let cost = burst.div_ceil(self.random.between(1, 6));
        let left = burst.div_ceil(cost);
        self.plan = Some(Plan::Burst { bucket, cost, left });
        Step::Spend { bucket, cost }
    }

    fn improvise(&mut self, last: Option<&Answer>) -> Step {
        if self.random.chance(1, 4) {
            self.bucket = self.random.index(self.terms.len());
        }
        let bucket = self.bucket;
        let pause = self.random.below(1_000);
        self.pass_time(pause, bucket, last);
        let cost = self.cost(bucket, last);
        match self.random.below(1_000) {
            450..560 if cost > 0 => {
                self.plan = Some(Plan::KnockTooEarly { bucket, cost });
                Step::Spend { bucket, cost }
            }
            560..620 => {
                self.plan = Some(Plan::IdleAlmostToFull { bucket });
                Step::Spend { bucket, cost: 1 }
            }
            0..560 => Step::Spend { bucket, cost },
            620..720 => Step::Check { bucket, cost },
            720..820 => Step::Refund { bucket, cost },
            820..840 => Step::Reset { bucket },
            840..870 => self.change(bucket),
            _ => self.transaction(bucket, cost, last),
        }
    }

    fn change(&mut self, bucket: usize) -> Step {
        let old = self.terms_of(bucket);
        let former = self.former[bucket].filter(|_| self.random.chance(1, 3));
        let changed = |random: &mut Random| sample::changed(random, old, self.accepts);
        let terms = former.unwrap_or_else(|| changed(&mut self.random));
        (self.former[bucket], self.terms[bucket]) = (Some(old), Some(terms));
        Step::Change { bucket, terms }
    }

    fn transaction(&mut self, bucket: usize, cost: u64, last: Option<&Answer>) -> Step {
        let buckets = self.terms.len();
        let len = self.random.between(1, ASKS_MAX.min(buckets as u64));
        let mut asks = vec![(bucket, cost, self.mode())];
        for offset in 1..len {
            let bucket = (bucket + usize::try_from(offset).unwrap_or(0)) % buckets;
            // Mostly small, or every transaction would be denied or a mistake.
            let cost = if self.random.chance(2, 3) { 1 } else { self.cost(bucket, last) };
            asks.push((bucket, cost, self.mode()));
        }
        if self.random.chance(1, 100) {
            asks.push(asks[0]);
        }
        Step::Transaction { asks }
    }

    fn mode(&mut self) -> Mode {
        self.random.pick(&[
            Mode::CheckAndSpend,
            Mode::CheckAndSpend,
            Mode::CheckOnly,
            Mode::SpendOnly,
        ])
    }

    fn cost(&mut self, bucket: usize, last: Option<&Answer>) -> u64 {
        let burst = self.terms_of(bucket).burst;
        let remaining = last.map_or(burst, |last| last.remaining).min(burst);
        match self.random.below(100) {
            0..6 => 0,
            6..50 => 1,
            50..55 => burst,
            55..60 => burst - self.random.below(burst.min(4)),
            60..61 => burst + 1,
            61..75 => remaining,
            75..85 => (remaining + 1).min(burst),
            _ => self.random.log_between(1, burst),
        }
    }

    fn pass_time(&mut self, kind: u64, bucket: usize, last: Option<&Answer>) {
        let interval = self.terms_of(bucket).interval_ns_floor();
        let retry_in = last.map_or(1, |last| ns(last.retry_in));
        let reset_in = last.map_or(1, |last| ns(last.reset_in));
        let ahead = match kind {
            0..300 => 0,
            300..400 => 1,
            400..560 => self.around(interval),
            560..660 => retry_in,
            660..740 => retry_in.saturating_sub(1),
            740..800 => self.around(reset_in),
            800..900 => self.random.log_between(1, reset_in.saturating_add(2)),
            900..920 => reset_in.saturating_mul(self.random.between(2, 9)),
            920..925 => self.random.log_between(1, AT_NS_MAX / 4),
            925..940 => return self.step_back(1),
            940..945 => return self.step_back(1_000),
            945..960 => return self.step_back(interval.max(1)),
            960..965 => return self.leap_back(),
            _ => self.random.log_between(1, 1_000_000_000),
        };
        self.advance(ahead);
    }

    /// Moves on; what would pass the end of time starts again somewhere before.
    fn advance(&mut self, ahead: u64) {
        match self.now.checked_add(ahead).filter(|&at| at <= AT_NS_MAX) {
            Some(at) => self.now = at,
            None => self.leap_back(),
        }
    }

    fn step_back(&mut self, back_max: u64) {
        let back = self.random.between(1, back_max);
        self.now = self.now.saturating_sub(back);
    }

    /// To any earlier moment, early ones as likely as late ones.
    fn leap_back(&mut self) {
        self.now = if self.random.chance(1, 2) {
            self.random.below(self.now + 1)
        } else {
            self.random.log_between(1, self.now.max(1)).min(self.now)
        };
        if self.random.chance(3, 4) {
            self.plan = Some(Plan::Forget { bucket: self.bucket });
        }
    }

    /// One less, exactly, or one more.
    fn around(&mut self, value: u64) -> u64 {
        value.saturating_add(self.random.below(3)).saturating_sub(1)
    }

    fn terms_of(&self, bucket: usize) -> Terms {
        self.terms[bucket].expect("a bucket is created before it is used")
    }
}

fn ns(length: u128) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
