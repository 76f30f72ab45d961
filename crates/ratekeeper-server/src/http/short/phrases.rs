//! Answers, put together from what they have in common with those before.

use std::time::{Duration, UNIX_EPOCH};

use ratekeeper::limiter::Entitled;
use ratekeeper::limits::Limit;
use ratekeeper::{Decision, Mistake, Moment, Request};

use super::Op;
use crate::http::decide::Done;
use crate::http::decision::{self, Decided};
use crate::http::fields::{self, Lines, digits};
use crate::http::problem::Problem;
use crate::settings::XRateLimit;

/// How many limits a worker keeps the words for, each in the place that the length of its name says.
const LIMITS_MAX: usize = 8;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// How an answer begins.
const BEGIN: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
/// Between what the only ask was answered, told of all and told of it.
const BETWEEN: &[u8] = b",\"decided_by\":0,\"asks\":[{";

/// What was written before, and is to be written again.
#[derive(Default)]
pub(super) struct Phrases {
    limits: [Words; LIMITS_MAX],
    /// The end of a head: the date of a second, and what stands around it.
    end: String,
    date_secs: Option<u64>,
    body: Vec<u8>,
}

/// How answers about a limit are worded.
#[derive(Default)]
struct Words {
    name: String,
    prefix: String,
    /// What applies, and whether it is in shadow.
    terms: Option<(Limit, bool)>,
    /// The head up to how much is left.
    head: Vec<u8>,
    /// The body from behind the numbers up to the id.
    limit: Vec<u8>,
    /// And from behind the id up to the id once more.
    bucket: Vec<u8>,
}

impl Phrases {
    /// Appends the answer to the only ask of a request, as hyper writes it.
    pub(super) fn decision(
        &mut self,
        op: Op,
        decided: &Decided<'_>,
        dialect: XRateLimit,
        wall: Moment,
        out: &mut Vec<u8>,
    ) {
        let Decided { ask, of, decision } = decided;
        let Self { limits, body, .. } = self;
        let words = &mut limits[ask.limit.len() % LIMITS_MAX];
        words.be_about(decided);
        body.clear();
        words.say(decision, of.id, body);
        let twice = body.len();
        if op == Op::Spend {
            decision::mode(ask.mode, body);
        }
        digits(",\"cost\":", ask.cost, body);
        body.extend_from_slice(b"}]}");
        out.extend_from_slice(&words.head);
        let denied = op.is_denied(decision.allowed);
        fields::finish_lists(out, &decided.answered(), denied, dialect, wall);
        let body_bytes = 1 + twice + BETWEEN.len() + self.body.len();
        self.end_head(body_bytes, wall, out);
        out.push(b'{');
        out.extend_from_slice(&self.body[..twice]);
        out.extend_from_slice(BETWEEN);
        out.extend_from_slice(&self.body);
    }

    /// The same for a transaction.
    pub(super) fn done(
        &mut self,
        done: &Done<'_>,
        dialect: XRateLimit,
        wall: Moment,
        out: &mut Vec<u8>,
    ) {
        self.body.clear();
        done.write(&mut self.body);
        out.extend_from_slice(BEGIN.as_bytes());
        done.write_fields(&mut Lines(out), dialect, wall);
        self.end_head(self.body.len(), wall, out);
        out.extend_from_slice(&self.body);
    }

    /// The same for what was wrong with the only ask of a request.
    pub(super) fn mistake(&mut self, mistake: &Mistake, wall: Moment, out: &mut Vec<u8>) {
        let problem = Problem::mistake(mistake, "");
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let begin =
            format!("HTTP/1.1 {}\r\ncontent-type: application/problem+json\r\n", problem.status());
        out.extend_from_slice(begin.as_bytes());
        self.end_head(body.len(), wall, out);
        out.extend_from_slice(&body);
    }

    fn end_head(&mut self, body_bytes: usize, wall: Moment, out: &mut Vec<u8>) {
        let secs = wall.as_nanos() / NANOS_PER_SEC;
        if self.date_secs != Some(secs) {
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs));
            self.end = format!("\r\ncache-control: no-store\r\ndate: {date}\r\n\r\n");
            self.date_secs = Some(secs);
        }
        digits("content-length: ", body_bytes as u64, out);
        out.extend_from_slice(self.end.as_bytes());
    }
}

impl Words {
    /// Finds the words for a limit, unless they are for it.
    fn be_about(&mut self, decided: &Decided<'_>) {
        let Decided { ask: Request { limit: name, .. }, of, .. } = decided;
        let Entitled { terms, shadow, prefix, .. } = *of;
        let is_same =
            self.terms == Some((*terms, shadow)) && self.name == *name && self.prefix == prefix;
        if is_same {
            return;
        }
        *self = Self {
            name: (*name).to_owned(),
            prefix: prefix.to_owned(),
            terms: Some((*terms, shadow)),
            head: [BEGIN, &fields::begin_lists(&decided.answered())].concat().into(),
            ..Self::default()
        };
        decision::limit(name, of, &mut self.limit);
        decision::bucket(prefix, &mut self.bucket);
    }

    /// Appends the fields of an answer.
    fn say(&self, decision: &Decision, id: &str, to: &mut Vec<u8>) {
        decision::state(decision, to);
        to.extend_from_slice(&self.limit);
        let begin = to.len();
        decision::escaped(id, to);
        let id = begin..to.len();
        to.extend_from_slice(&self.bucket);
        to.extend_from_within(id);
        to.push(b'"');
    }
}
