//! `ratekeeper ask offline`: trying limits by hand, in virtual time.

use ratekeeper::limiter::{Account, Explanation};
use ratekeeper::{Decision, Limiter, Mistake, Moment, Nanos};
use ratekeeper_console::{Format, Output, say};
use ratekeeper_server::json::ExplanationBody;
use serde::Serialize;

use super::page::{Page, Words};
use crate::answer::Answer;
use crate::error::{Error, Exit};
use crate::files::{self, Files};

/// What is to be asked.
#[derive(Debug)]
pub(crate) struct Offline {
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
pub(crate) fn run(ask: &Offline) -> Result<Exit, Error> {
    ask.check_time()?;
    let limits = match &ask.files {
        Some(files) => files.load()?,
        None => files::starter()?,
    };
    let limiter = Limiter::new(limits).map_err(Error::Memory)?;
    let mut output = Output::stdout();
    // A mistake is told before anything else is.
    let account = limiter.account(&ask.limit, &ask.id)?;
    let _ = limiter.check(&ask.limit, &ask.id, ask.cost, Moment::EPOCH)?;
    if ask.files.is_none() {
        say("note: no --limits given: these are the starter limits that come with the program");
    }
    let last = match ask.format {
        Format::Text => ask.print(&limiter, &mut output)?,
        Format::Json => ask.print_json(&limiter, &account, &mut output)?,
    };
    output.finish()?;
    Ok(if last.allowed { Exit::Allowed } else { Exit::Denied })
}

impl Offline {
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
        let mut page = Page::new(self.times, Words::Verdict, output);
        let (mut last, mut at) = (Decision::default(), Moment::EPOCH);
        for (number, now) in self.moments() {
            (last, at) = (self.spend(limiter, now)?, now);
            let at = now.since(Moment::EPOCH);
            page.add(number, (!self.every.is_zero()).then_some(at), &last)?;
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
        account: &Account,
        output: &mut Output,
    ) -> Result<Decision, Error> {
        let (mut last, mut at) = (Decision::default(), Moment::EPOCH);
        for (_, now) in self.moments() {
            (last, at) = (self.spend(limiter, now)?, now);
            output.json(&Answer::new(&last, &self.limit, account.clone()))?;
        }
        if self.explain {
            let explanation = ExplanationBody::new(self.explanation(limiter, at)?, None);
            output.json(&Explained { explanation })?;
        }
        Ok(last)
    }

    fn explanation(&self, limiter: &Limiter, now: Moment) -> Result<Explanation, Mistake> {
        limiter.explain(&self.limit, &self.id, self.cost, now)
    }
}

/// What an explanation is called, as one of several lines.
#[derive(Serialize)]
struct Explained {
    explanation: ExplanationBody,
}
