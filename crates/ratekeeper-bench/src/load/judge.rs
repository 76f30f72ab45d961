//! What a server decided, against what it should have.

mod law;

use ratekeeper_oracle::trace::{Finding, Rule, Said, Seen};
use serde::Serialize;

pub(crate) use law::{Law, RawJudge};
use law::{Numbers, Reader};
use ratekeeper_console::{say, shown};

use super::record::{DECISIONS_MAX, Decision, Record};
use crate::deviation::{COLUMNS, Row, WIDTH, as_f64, head};

/// How many findings of a kind are told, over all keys.
const TOLD_MAX: usize = 3;
/// How many keys have a row of their own in the table.
const ROWS_MAX: usize = 3;
/// From so many decisions on, judging takes a while.
const MANY: usize = 1_000_000;

/// What was found in one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Judgement {
    /// Those that were judged, warm-up included.
    decisions: u64,
    /// How many buckets they were about.
    keys: usize,
    pub(crate) over_admissions: u64,
    pub(crate) wrong_denials: u64,
    first_over_admissions: Vec<Told>,
    first_wrong_denials: Vec<Told>,
    /// Requests that nobody answered: they may have been spent, or not.
    unanswered: u64,
    /// Answers that were no decisions.
    errors: u64,
    /// Decisions that no rule applies to, or that came when the record was full; and denials that
    /// those may explain.
    unjudged: u64,
    deviation: Vec<Deviation>,
}

/// One that cannot be right.
#[derive(Clone, Debug, Serialize)]
struct Told {
    key: String,
    /// In seconds since the run began.
    sent: f64,
    received: f64,
    why: String,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
struct Deviation {
    name: String,
    seconds: f64,
    granted: u64,
    rate: f64,
    goal: f64,
    percent: f64,
}

/// The decisions about one bucket.
struct Group<'a> {
    bucket: String,
    rule: Rule,
    /// Whether keys that share it have rules that differ.
    is_mixed: bool,
    parts: Vec<&'a [Decision]>,
}

impl Judgement {
    /// Judges all that was recorded; each request asked for `cost`.
    pub(crate) fn of(record: Record, law: &Law, cost: u64) -> Self {
        let mut judgement = Self::empty(&record);
        let answered = record.answered;
        let decisions = record.by_key();
        if decisions.len() >= MANY {
            say(format_args!("judging {} decisions", decisions.len()));
        }
        let groups = groups(&decisions, law);
        let last = decisions.iter().map(|it| Seen::from(it).answered_at()).max().unwrap_or(0);
        let seconds = secs(last);
        let mut all = Deviation::new(String::new(), seconds);
        let (mut asks, mut rows) = (Vec::new(), 0_usize);
        for group in &groups {
            asks.clear();
            asks.extend(group.parts.iter().copied().flatten().map(Seen::from));
            let is_judged = judgement.judge(group, &asks);
            let Some(goal) = goal(&group.rule).filter(|_| is_judged) else { continue };
            let allowed = asks.iter().filter(|ask| ask.said == Said::Allowed).count();
            let granted = u64::try_from(allowed).unwrap_or(u64::MAX).saturating_mul(cost);
            rows += 1;
            all.granted += granted;
            all.goal += goal;
            let row = Deviation { granted, goal, ..Deviation::new(group.bucket.clone(), seconds) };
            judgement.keep(row.finished());
        }
        if rows > 1 {
            all.name = format!("{rows} keys");
            judgement.deviation.insert(0, all.finished());
        }
        judgement.unjudged = answered.saturating_sub(judgement.decisions);
        judgement
    }

    fn empty(record: &Record) -> Self {
        Self {
            decisions: 0,
            keys: 0,
            over_admissions: 0,
            wrong_denials: 0,
            first_over_admissions: Vec::new(),
            first_wrong_denials: Vec::new(),
            unanswered: record.lost,
            errors: record.errors,
            unjudged: 0,
            deviation: Vec::new(),
        }
    }

    /// Returns whether it can be judged.
    fn judge(&mut self, group: &Group<'_>, asks: &[Seen]) -> bool {
        if group.is_mixed || group.rule.refusal().is_some() {
            return false;
        }
        let answered = asks.iter().filter(|ask| ask.said != Said::Nothing).count();
        self.decisions += u64::try_from(answered).unwrap_or(u64::MAX);
        self.keys += 1;
        let findings = group.rule.judge(0, asks, TOLD_MAX);
        self.over_admissions += findings.over_admissions;
        self.wrong_denials += findings.wrong_denials;
        tell(&mut self.first_over_admissions, &findings.over, &group.bucket);
        tell(&mut self.first_wrong_denials, &findings.wrong, &group.bucket);
        true
    }

    /// Keeps the rows of those that are furthest above their goal.
    fn keep(&mut self, row: Deviation) {
        let above = |it: &Deviation| it.percent >= row.percent;
        let place = self.deviation.partition_point(above);
        if place < ROWS_MAX {
            self.deviation.insert(place, row);
            self.deviation.truncate(ROWS_MAX);
        }
    }

    /// Whether something was certainly wrong.
    pub(crate) fn is_guilty(&self) -> bool {
        self.over_admissions + self.wrong_denials > 0
    }

    /// The same for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { decisions, keys, over_admissions, wrong_denials, .. } = self;
        let noun = if *keys == 1 { "key" } else { "keys" };
        let mut lines = vec![
            format!("judged    {decisions} decisions about {keys} {noun}, warm-up included"),
            format!("over      {over_admissions} definite over-admissions"),
        ];
        lines.extend(self.first_over_admissions.iter().map(Told::line));
        lines.push(format!("wrong     {wrong_denials} wrong denials"));
        lines.extend(self.first_wrong_denials.iter().map(Told::line));
        if self.unanswered > 0 {
            let words = "unanswered: they may have been spent, or not";
            lines.push(format!("open      {} {words}", self.unanswered));
        }
        if self.unjudged > 0 {
            let words = "no rule applies to them, or they came after the first";
            lines.push(format!("unjudged  {}: {words} {DECISIONS_MAX}", self.unjudged));
        }
        if !self.deviation.is_empty() {
            let names = self.deviation.iter().map(|row| row.name.chars().count());
            let width = names.fold(WIDTH, usize::max);
            lines.push(String::new());
            lines.extend(head(&COLUMNS, width));
            lines.extend(self.deviation.iter().map(|row| row.row().line(width)));
        }
        lines
    }
}

/// The decisions by their buckets, without those that no rule applies to.
fn groups<'a>(decisions: &'a [Decision], law: &Law) -> Vec<Group<'a>> {
    let mut reader: Reader<'_> = law.reader();
    let (mut groups, mut numbers) = (Vec::<Group<'a>>::new(), Numbers::default());
    let are_apart = matches!(law, Law::Carried(..));
    for part in decisions.chunk_by(|a, b| a.key == b.key) {
        let key = part.first().map_or(0, |decision| u64::from(decision.key));
        let Ok(applied) = reader.apply(key) else { continue };
        let next = groups.len();
        let number = if are_apart { next } else { numbers.number(&applied.bucket, next) };
        match groups.get_mut(number) {
            Some(group) => {
                group.is_mixed |= group.rule != applied.rule;
                group.parts.push(part);
            }
            None => groups.push(Group {
                bucket: applied.bucket,
                rule: applied.rule,
                is_mixed: false,
                parts: vec![part],
            }),
        }
    }
    groups
}

fn tell(told: &mut Vec<Told>, findings: &[Finding], key: &str) {
    let room = TOLD_MAX.saturating_sub(told.len());
    told.extend(findings.iter().take(room).map(|finding| Told {
        key: key.to_owned(),
        sent: secs(finding.sent),
        received: secs(finding.received),
        why: finding.why.to_string(),
    }));
}

impl Told {
    fn line(&self) -> String {
        let Self { key, sent, received, why } = self;
        format!("          {}, {sent:.6} to {received:.6} s: {why}", shown(key))
    }
}

impl Deviation {
    fn new(name: String, seconds: f64) -> Self {
        Self { name, seconds, granted: 0, rate: 0.0, goal: 0.0, percent: 0.0 }
    }

    fn finished(self) -> Self {
        let (rate, percent) = (self.row().rate(), self.row().deviation());
        Self { rate, percent, ..self }
    }

    fn row(&self) -> Row<'_> {
        Row { name: &self.name, time: self.seconds, granted: self.granted, goal: self.goal }
    }
}

/// How many tokens or uses per second a rule allows for good, if it is a number.
fn goal(rule: &Rule) -> Option<f64> {
    let goal = match *rule {
        Rule::Tokens { terms, .. } => as_f64(terms.count) / secs(terms.period_ns),
        Rule::Average { limit, period_secs, .. } => limit / period_secs,
        Rule::Quota { quota, ttl_ns, .. } => as_f64(quota) / secs(ttl_ns),
        Rule::Fixed { .. } => return None,
    };
    (goal.is_finite() && goal > 0.0).then_some(goal)
}

fn secs(nanos: u64) -> f64 {
    as_f64(nanos) / 1e9
}

#[cfg(test)]
mod tests;
