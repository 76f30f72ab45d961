//! What is asked for a batch of datagrams, in as few trips to the buckets as their order allows.
//!
//! A use of a key is a step. Steps that do not depend on each other are asked together. One that
//! is only asked if the one before it is not over its limit comes a trip later, and so does
//! whatever asks for the same bucket behind it: so every bucket is asked in the order of the
//! datagrams.

use std::collections::HashMap;

use futures_util::future::join;
use ratekeeper::algorithm::average::{self, Average, Outcome};
use ratekeeper::store::shared::BucketNames;
use ratekeeper::store::{Fingerprint, Question};
use ratekeeper::{Keyed, Limiter, Moment};
use smallvec::SmallVec;

use super::codec::{self, Verdict};
use super::named::NamedAsks;
use super::rules::DEFAULT_VERDICT;
use super::statistics::Statistics;

/// What keeps the buckets of named limits apart from averages, where their order matters.
const NAMED: &[u8] = b"named";

/// What is asked for a batch. It is used again, so that asking does not allocate.
#[derive(Default)]
pub(super) struct Asks {
    steps: Vec<Step>,
    /// In how many trips they are asked.
    trips: usize,
    averages: Averages,
    named: NamedAsks,
    /// What to count for statistics once all is answered, in order.
    tallies: Vec<Tally>,
    /// In which trip a bucket is asked last, if not in the first.
    last_trips: HashMap<Fingerprint, usize>,
}

/// A use of a key.
struct Step {
    /// In which trip it is asked.
    trip: usize,
    /// The step that must not be over its limit for this one to be asked.
    behind: Option<usize>,
    planned: Planned,
    is_asked: bool,
}

/// A verdict, or which question will bring it.
#[derive(Clone, Copy)]
pub(super) enum Planned {
    Question(usize),
    Named(usize),
    Verdict(Verdict),
}

struct Tally {
    step: usize,
    key: Fingerprint,
    of: Planned,
    /// Whether the use can be over its limit, as one that is only counted cannot.
    is_limited: bool,
}

/// Averages that are asked for, and what they were answered.
#[derive(Default)]
struct Averages {
    questions: Vec<Question<Average>>,
    /// Which step each of them belongs to.
    steps: Vec<usize>,
    /// What they are called, where others need to know.
    names: BucketNames,
    outcomes: Vec<Outcome>,
    trip: Trip,
}

/// The averages of one trip.
#[derive(Default)]
struct Trip {
    /// Which of all they are.
    places: Vec<usize>,
    questions: Vec<Question<Average>>,
    names: BucketNames,
    outcomes: Vec<Outcome>,
}

impl Asks {
    /// How much is to be asked, or was.
    pub(super) fn asked(&self) -> usize {
        self.averages.questions.len().saturating_add(self.named.len())
    }

    /// Plans to ask for an average, as part of the step that is planned next.
    pub(super) fn ask_average(
        &mut self,
        averages: &Keyed<Average>,
        key: &[&[u8]],
        rule: average::Rule,
    ) -> Planned {
        let place = self.averages.questions.len();
        self.averages.questions.push(averages.question(key, rule));
        self.averages.steps.push(self.steps.len());
        if averages.waits() {
            self.averages.names.push_parts(key);
        }
        Planned::Question(place)
    }

    /// Plans to ask for a token of a named limit, as part of the step that is planned next. `None`
    /// where the limit has no place for the id.
    pub(super) fn ask_named(
        &mut self,
        limiter: &Limiter,
        limit: &str,
        id: &str,
    ) -> Option<Planned> {
        self.named.push(limiter, limit, id, self.steps.len()).map(Planned::Named)
    }

    /// Plans to count for statistics, as part of the step that is planned next.
    pub(super) fn tally(&mut self, key: Fingerprint, of: Planned) {
        self.tallies.push(Tally { step: self.steps.len(), key, of, is_limited: true });
    }

    /// The same for a use that a count rule counts: it is never over, whatever its rate.
    pub(super) fn tally_counted(&mut self, key: Fingerprint, of: Planned) {
        self.tallies.push(Tally { step: self.steps.len(), key, of, is_limited: false });
    }

    /// Plans a step of what was planned since the one before, and returns its place. It is only
    /// asked if the step that it stands `behind` is not over its limit.
    pub(super) fn plan(
        &mut self,
        planned: Planned,
        behind: Option<usize>,
        limiter: &Limiter,
        averages: &Keyed<Average>,
    ) -> usize {
        let place = self.steps.len();
        let before = behind.and_then(|step| self.steps.get(step));
        let mut trip = before.map_or(0, |step| step.trip.saturating_add(1));
        if trip > 0 || !self.last_trips.is_empty() {
            let buckets = self.buckets(place, limiter, averages);
            let last = buckets.iter().filter_map(|bucket| self.last_trips.get(bucket)).max();
            trip = trip.max(last.copied().unwrap_or(0));
            if trip > 0 {
                self.last_trips.extend(buckets.into_iter().map(|bucket| (bucket, trip)));
            }
        }
        self.steps.push(Step { trip, behind, planned, is_asked: behind.is_none() });
        self.trips = self.trips.max(trip.saturating_add(1));
        place
    }

    /// The buckets that a step asks for, which is the last so far.
    fn buckets(
        &self,
        step: usize,
        limiter: &Limiter,
        averages: &Keyed<Average>,
    ) -> SmallVec<[Fingerprint; 4]> {
        let Averages { questions, steps, .. } = &self.averages;
        let own = questions.iter().zip(steps).rev().take_while(|(_, of)| **of == step);
        let mut buckets: SmallVec<_> = own.map(|(question, _)| question.bucket).collect();
        if let Some((limit, id)) = self.named.last_of(step)
            && let Ok(key) = limiter.bucket_key(limit, id)
        {
            buckets.push(averages.fingerprint(&[NAMED, key.as_bytes()]));
        }
        buckets
    }

    /// Asks all steps, and does the counting.
    pub(super) async fn settle(
        &mut self,
        averages: &Keyed<Average>,
        limiter: &Limiter,
        statistics: &Statistics,
        now: Moment,
    ) {
        let trips = self.trips;
        for trip in 0..trips {
            self.begin(trip);
            let Self { steps, averages: asked, named, .. } = self;
            let is_due = |step: usize| steps.get(step).is_some_and(|it| it.is_due(trip));
            let asked = asked.settle(averages, is_due, trips == 1, now);
            if named.len() == 0 {
                asked.await;
                continue;
            }
            // They have nothing in common, so both are asked at once.
            join(asked, named.settle(limiter.wherever(), is_due, now)).await;
        }
        for tally in &self.tallies {
            if self.steps.get(tally.step).is_some_and(|step| step.is_asked) {
                let Verdict { over, rate, .. } = self.resolved(tally.of);
                statistics.count(tally.key, over && tally.is_limited, rate, now);
            }
        }
    }

    /// Decides which steps are asked in a trip, of those that stand behind others. In the first
    /// there are none.
    fn begin(&mut self, trip: usize) {
        if trip == 0 {
            return;
        }
        for place in 0..self.steps.len() {
            let step = self.steps.get(place).filter(|step| step.trip == trip);
            let Some(behind) = step.and_then(|step| step.behind) else { continue };
            let goes = self.verdict(behind).is_some_and(|verdict| !verdict.over);
            if let Some(step) = self.steps.get_mut(place) {
                step.is_asked = goes;
            }
        }
    }

    /// What a step was answered; nothing if it was not asked.
    pub(super) fn verdict(&self, step: usize) -> Option<Verdict> {
        let step = self.steps.get(step).filter(|step| step.is_asked)?;
        Some(self.resolved(step.planned))
    }

    fn resolved(&self, planned: Planned) -> Verdict {
        let place = match planned {
            Planned::Verdict(verdict) => return verdict,
            Planned::Named(place) => return self.named.verdict(place).unwrap_or(DEFAULT_VERDICT),
            Planned::Question(place) => place,
        };
        let Averages { questions, outcomes, .. } = &self.averages;
        match (questions.get(place), outcomes.get(place)) {
            (Some(question), Some(outcome)) => averaged(&question.ask, *outcome),
            _ => DEFAULT_VERDICT,
        }
    }

    /// Forgets everything, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.trips = 0;
        self.averages.clear();
        self.named.clear();
        self.tallies.clear();
        self.last_trips.clear();
    }
}

impl Step {
    fn is_due(&self, trip: usize) -> bool {
        self.trip == trip && self.is_asked
    }
}

impl Averages {
    /// Asks for those whose step is due; for all, if the trip is the only one.
    async fn settle(
        &mut self,
        from: &Keyed<Average>,
        is_due: impl Fn(usize) -> bool,
        is_only: bool,
        now: Moment,
    ) {
        let Self { questions, steps, names, outcomes, trip } = self;
        outcomes.resize(questions.len(), Outcome::default());
        if is_only {
            return from.decide_wherever(questions, names, outcomes, now).await;
        }
        trip.clear();
        for (place, (question, _)) in
            questions.iter().zip(&*steps).enumerate().filter(|(_, (_, step))| is_due(**step))
        {
            trip.places.push(place);
            trip.questions.push(*question);
        }
        // There are none where nobody needs to know.
        for ((name, sharing), _) in names.iter().zip(&*steps).filter(|(_, step)| is_due(**step)) {
            trip.names.push_with(|to| {
                to.extend_from_slice(name);
                sharing
            });
        }
        trip.outcomes.resize(trip.places.len(), Outcome::default());
        from.decide_wherever(&trip.questions, &trip.names, &mut trip.outcomes, now).await;
        for (place, answered) in trip.places.iter().zip(&trip.outcomes) {
            if let Some(outcome) = outcomes.get_mut(*place) {
                *outcome = *answered;
            }
        }
    }

    fn clear(&mut self) {
        self.questions.clear();
        self.steps.clear();
        self.names.clear();
        self.outcomes.clear();
    }
}

impl Trip {
    fn clear(&mut self) {
        self.places.clear();
        self.questions.clear();
        self.names.clear();
        self.outcomes.clear();
    }
}

fn averaged(rule: &average::Rule, outcome: Outcome) -> Verdict {
    let period_secs = codec::whole(rule.period_secs()).max(1);
    Verdict { over: outcome.over, rate: outcome.rate, limit: rule.limit(), period_secs }
}
