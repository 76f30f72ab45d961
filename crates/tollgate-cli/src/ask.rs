//! `tollgate ask`: trying limits by hand, in virtual time.

use std::collections::VecDeque;

use serde::Serialize;
use tollgate::limiter::Explanation;
use tollgate::{Decision, Limiter, Mistake, Moment, Nanos};

use crate::answer::Answer;
use crate::args::Format;
use crate::error::{Error, Exit};
use crate::files::{self, Files};
use crate::output::{Output, say};

/// How often one command can ask.
pub(crate) const TIMES_MAX: u64 = 1_000_000;

/// Up to this many answers are all printed.
const WHOLE_MAX: u64 = 20;
/// Of a longer run of equal verdicts, this many are printed at its beginning and at its end.
const RUN_ENDS: usize = 3;

/// What is to be asked.
#[derive(Debug)]
pub(crate) struct Ask {
    /// Where the limits are; the starter limits if nowhere.
    pub(crate) files: Option<Files>,
    pub(crate) limit: String,
    pub(crate) id: String,
    pub(crate) cost: u64,
    pub(crate) times: u64,
    /// How much time passes between two asks.
    pub(crate) every: Nanos,
    pub(crate) explain: bool,
    pub(crate) format: Format,
}

/// Asks, and says what was answered.
pub(crate) fn run(ask: &Ask) -> Result<Exit, Error> {
    ask.check_time()?;
    let limits = match &ask.files {
        Some(files) => files.load()?,
        None => files::starter()?,
    };
    let limiter = Limiter::new(limits).map_err(Error::Memory)?;
    let mut output = Output::new();
    // A mistake is told before anything else is.
    let bucket = limiter.bucket_key(&ask.limit, &ask.id)?;
    limiter.check(&ask.limit, &ask.id, ask.cost, Moment::EPOCH)?;
    if ask.files.is_none() {
        say("note: no --limits given: these are the starter limits that come with the program");
    }
    let last = match ask.format {
        Format::Text => ask.print(&limiter, &mut output)?,
        Format::Json => ask.print_json(&limiter, &bucket, &mut output)?,
    };
    output.finish()?;
    Ok(if last.allowed { Exit::Allowed } else { Exit::Denied })
}

impl Ask {
    /// Refuses to ask at times that there are not.
    fn check_time(&self) -> Result<(), Error> {
        let Self { times, every, .. } = *self;
        let last = every.get().saturating_mul(times.saturating_sub(1).into());
        if last > Moment::MAX.as_nanos().into() {
            return Err(Error::TooLate { times, every });
        }
        Ok(())
    }

    /// The moment of each ask, and which one it is, from 1.
    fn moments(&self) -> impl Iterator<Item = (u64, Moment)> {
        let every = self.every;
        let moments = std::iter::successors(Some(Moment::EPOCH), move |at| Some(at.after(every)));
        (1..=self.times).zip(moments)
    }

    fn spend(&self, limiter: &Limiter, now: Moment) -> Result<Decision, Mistake> {
        limiter.spend(&self.limit, &self.id, self.cost, now)
    }

    fn print(&self, limiter: &Limiter, output: &mut Output) -> Result<Decision, Error> {
        let mut page = Page::new(self, output);
        let (mut last, mut at) = (Decision::default(), Moment::EPOCH);
        for (number, now) in self.moments() {
            (last, at) = (self.spend(limiter, now)?, now);
            page.add(number, now, &last)?;
        }
        page.finish()?;
        if self.explain {
            output.line(format_args!(
                "\n{}",
                self.explanation(limiter, at)?.to_string().trim_end()
            ))?;
        }
        Ok(last)
    }

    fn print_json(
        &self,
        limiter: &Limiter,
        bucket: &str,
        output: &mut Output,
    ) -> Result<Decision, Error> {
        let (mut last, mut at) = (Decision::default(), Moment::EPOCH);
        for (_, now) in self.moments() {
            (last, at) = (self.spend(limiter, now)?, now);
            output.json(&Answer::new(&last, &self.limit, &self.id, bucket))?;
        }
        if self.explain {
            output.json(&JsonExplanation::new(&self.explanation(limiter, at)?))?;
        }
        Ok(last)
    }

    fn explanation(&self, limiter: &Limiter, now: Moment) -> Result<Explanation, Mistake> {
        limiter.explain(&self.limit, &self.id, self.cost, now)
    }
}

/// The answers as a person reads them: long runs of equal verdicts are cut short.
struct Page<'a> {
    output: &'a mut Output,
    number_width: usize,
    is_whole: bool,
    has_times: bool,
    run: Run,
    allowed: u64,
    denied: u64,
}

/// Answers with the same verdict, one after the other.
#[derive(Default)]
struct Run {
    verdict: bool,
    length: usize,
    /// The latest lines, which are printed if the run ends with them.
    end: VecDeque<String>,
}

impl<'a> Page<'a> {
    fn new(ask: &Ask, output: &'a mut Output) -> Self {
        Self {
            output,
            number_width: ask.times.to_string().len(),
            is_whole: ask.times <= WHOLE_MAX,
            has_times: !ask.every.is_zero(),
            run: Run::default(),
            allowed: 0,
            denied: 0,
        }
    }

    fn add(&mut self, number: u64, now: Moment, decision: &Decision) -> Result<(), Error> {
        *(if decision.allowed { &mut self.allowed } else { &mut self.denied }) += 1;
        let line = self.describe(number, now, decision);
        if self.is_whole {
            return self.output.line(line);
        }
        if self.run.verdict != decision.allowed {
            self.end_run()?;
            self.run.verdict = decision.allowed;
        }
        self.run.length += 1;
        if self.run.length <= RUN_ENDS {
            return self.output.line(line);
        }
        self.run.end.push_back(line);
        if self.run.end.len() > RUN_ENDS {
            self.run.end.pop_front();
        }
        Ok(())
    }

    /// Says that lines were left out only where there were.
    fn end_run(&mut self) -> Result<(), Error> {
        let run = std::mem::take(&mut self.run);
        if run.length > RUN_ENDS + run.end.len() {
            self.output.line("...")?;
        }
        run.end.iter().try_for_each(|line| self.output.line(line))
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.end_run()?;
        let Self { allowed, denied, .. } = *self;
        if allowed + denied > 1 {
            self.output.line(format_args!("{allowed} allowed, {denied} denied"))?;
        }
        Ok(())
    }

    fn describe(&self, number: u64, now: Moment, decision: &Decision) -> String {
        let Decision { allowed, shadow, remaining, retry_in, reset_in } = *decision;
        let width = self.number_width;
        let at = if self.has_times {
            format!("at {:<8}  ", now.since(Moment::EPOCH).to_string())
        } else {
            String::new()
        };
        if !allowed {
            return format!("{number:>width$}  {at}denied   try again in {retry_in}");
        }
        let full = if reset_in.is_zero() {
            "full".to_owned()
        } else {
            format!("full again in {reset_in}")
        };
        let note = if shadow { "; denied if it were not for the shadow" } else { "" };
        format!("{number:>width$}  {at}allowed  {remaining} left, {full}{note}")
    }
}

/// [`Explanation`], for programs.
#[derive(Serialize)]
struct JsonExplanation<'a> {
    explanation: JsonReason<'a>,
}

#[derive(Serialize)]
struct JsonReason<'a> {
    limit: &'a str,
    id: &'a str,
    bucket: &'a str,
    terms: String,
    is_override: bool,
    origin: Option<String>,
    comment: Option<&'a str>,
    default: Option<String>,
    default_origin: Option<String>,
    /// All of it, as people read it.
    text: String,
}

impl<'a> JsonExplanation<'a> {
    fn new(from: &'a Explanation) -> Self {
        let default = from.default.as_ref();
        let explanation = JsonReason {
            limit: &from.limit,
            id: &from.id,
            bucket: &from.bucket,
            terms: from.terms.to_string(),
            is_override: from.is_override,
            origin: from.origin.as_ref().map(ToString::to_string),
            comment: from.comment.as_deref(),
            default: default.map(|(limit, _)| limit.to_string()),
            default_origin: default.map(|(_, origin)| origin.to_string()),
            text: from.to_string(),
        };
        Self { explanation }
    }
}
