//! Answers as a person reads them.

use std::collections::VecDeque;

use ratekeeper::{Decision, Nanos};
use ratekeeper_console::{Output, OutputError};

/// Up to this many answers are all printed.
const WHOLE_MAX: u64 = 20;
/// Of a longer run of equal verdicts, this many are printed at its beginning and at its end.
const RUN_ENDS: usize = 3;

/// What a yes and a no are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Verdict,
    Refund,
    Reset,
}

impl Words {
    fn both(self) -> [&'static str; 2] {
        match self {
            Self::Verdict => ["allowed", "denied"],
            Self::Refund => ["refunded", "nothing given back"],
            Self::Reset => ["reset", "not reset"],
        }
    }
}

/// The answers as a person reads them: long runs of equal verdicts are cut short.
pub(super) struct Page<'a> {
    output: &'a mut Output,
    number_width: usize,
    is_whole: bool,
    words: Words,
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
    /// A page of `times` answers.
    pub(super) fn new(times: u64, words: Words, output: &'a mut Output) -> Self {
        Self {
            output,
            number_width: times.to_string().len(),
            is_whole: times <= WHOLE_MAX,
            words,
            run: Run::default(),
            allowed: 0,
            denied: 0,
        }
    }

    /// Adds the answer with this number, from 1, and when it was given, if that is to be told.
    pub(super) fn add(
        &mut self,
        number: u64,
        at: Option<Nanos>,
        decision: &Decision,
    ) -> Result<(), OutputError> {
        *(if decision.allowed { &mut self.allowed } else { &mut self.denied }) += 1;
        let line = self.describe(number, at, decision);
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
    fn end_run(&mut self) -> Result<(), OutputError> {
        let run = std::mem::take(&mut self.run);
        if run.length > RUN_ENDS + run.end.len() {
            self.output.line("...")?;
        }
        run.end.iter().try_for_each(|line| self.output.line(line))
    }

    /// Writes what was held back, and the sum.
    pub(super) fn finish(&mut self) -> Result<(), OutputError> {
        self.end_run()?;
        let Self { allowed, denied, .. } = *self;
        let [yes, no] = self.words.both();
        if allowed + denied > 1 {
            self.output.line(format_args!("{allowed} {yes}, {denied} {no}"))?;
        }
        Ok(())
    }

    /// Shows what is written so far, and says whether anybody still reads.
    pub(super) fn show(&mut self) -> Result<bool, OutputError> {
        self.output.finish().map(|()| !self.output.is_closed())
    }

    fn describe(&self, number: u64, at: Option<Nanos>, decision: &Decision) -> String {
        let Decision { allowed, shadow, remaining, retry_in, reset_in } = *decision;
        let width = self.number_width;
        let at = at.map_or_else(String::new, |at| format!("at {:<8}  ", at.to_string()));
        let [yes, no] = self.words.both();
        let word = if allowed { yes } else { no };
        let (retry_in, full_in) = (retry_in.brief(), reset_in.brief());
        let line = format!("{number:>width$}  {at}{word:<7}  ");
        if !allowed && self.words == Words::Verdict {
            return format!("{line}try again in {retry_in}");
        }
        let full =
            if reset_in.is_zero() { "full".to_owned() } else { format!("full again in {full_in}") };
        let note = if shadow { "; denied if it were not for the shadow" } else { "" };
        format!("{line}{remaining} left, {full}{note}")
    }
}
