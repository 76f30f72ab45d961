//! `ratekeeper replay limits`: recorded asks, decided in virtual time.

use std::io::{self, Read};

use ratekeeper::limiter::Account;
use ratekeeper::{Decision, Limiter, Mistake, Moment};
use ratekeeper_console::{Output, OutputError};
use serde::Serialize;

use super::lines::{Line, Lines};
use super::request::{Ask, BadLine, Op, Request};
use crate::answer::Answer;
use crate::error::{Error, Exit};
use crate::files::Files;

/// Answers standard input line by line.
pub(crate) fn run(files: &Files) -> Result<Exit, Error> {
    let replay = Replay { limiter: super::limiter(files.load()?)? };
    replay.answer_all(io::stdin().lock(), &mut Output::stdout())?;
    Ok(Exit::Allowed)
}

struct Replay {
    limiter: Limiter,
}

/// Why a line is answered by an error. The replay goes on.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Line(#[from] BadLine),
    #[error(transparent)]
    Mistake(#[from] Mistake),
    #[error("{}", .0.with_causes())]
    Reload(#[from] Error),
}

#[derive(Serialize)]
struct JsonError {
    error: String,
}

#[derive(Serialize)]
struct JsonReloaded {
    reloaded: bool,
}

impl Replay {
    /// One line out for each line in, until there is none or nobody reads them.
    fn answer_all(&self, input: impl Read, output: &mut Output) -> Result<(), Error> {
        let mut lines = Lines::new(input);
        while !output.is_closed() {
            // Whoever waits for an answer before asking again must get it.
            if !lines.is_ready() {
                output.finish()?;
            }
            let Some(line) = lines.read().map_err(Error::Input)? else { break };
            self.answer(&line, output)?;
        }
        Ok(output.finish()?)
    }

    fn answer(&self, line: &Line<'_>, output: &mut Output) -> Result<(), OutputError> {
        let request = match line {
            Line::Whole(line) => Request::parse(line),
            Line::TooLong => Err(BadLine::TooLong),
        };
        let Request { at, op } = match request {
            Ok(request) => request,
            Err(bad) => return refuse(&bad.into(), output),
        };
        let answered = match &op {
            Op::Reload(files) => return self.answer_reload(files, at, output),
            Op::Spend(ask) => self.one(ask, Limiter::spend, at),
            Op::Check(ask) => self.one(ask, Limiter::check, at),
            Op::Refund(ask) => self.one(ask, Limiter::refund, at),
            Op::Reset(ask) => {
                self.one(ask, |limiter, limit, id, _, at| limiter.reset(limit, id, at), at)
            }
            Op::Transaction(asks) => self.transaction(asks, at),
        };
        match answered {
            Ok(Decided { decision, ask, of }) => {
                output.json(&Answer::new(&decision, &ask.limit, of))
            }
            Err(mistake) => refuse(&mistake.into(), output),
        }
    }

    fn one<'a>(
        &self,
        ask: &'a Ask<'a>,
        action: impl FnOnce(&Limiter, &str, &str, u64, Moment) -> Result<Decision, Mistake>,
        at: Moment,
    ) -> Result<Decided<'a>, Mistake> {
        let decision = action(&self.limiter, &ask.limit, &ask.id, ask.cost, at)?;
        self.decided(decision, ask)
    }

    fn transaction<'a>(&self, asks: &'a [Ask<'a>], at: Moment) -> Result<Decided<'a>, Mistake> {
        let requests: Vec<_> = asks
            .iter()
            .map(|ask| ratekeeper::Request::new(&ask.limit, &ask.id, ask.cost).with_mode(ask.mode))
            .collect();
        let merged = self.limiter.transaction(&requests, at)?;
        let decider = asks.get(merged.decided_by).ok_or(Mistake::NoAsks)?;
        self.decided(merged.decision, decider)
    }

    fn decided<'a>(&self, decision: Decision, ask: &'a Ask<'a>) -> Result<Decided<'a>, Mistake> {
        let of = self.limiter.account(&ask.limit, &ask.id)?;
        Ok(Decided { decision, ask, of })
    }

    fn answer_reload(
        &self,
        files: &Files,
        at: Moment,
        output: &mut Output,
    ) -> Result<(), OutputError> {
        let reloaded = files.load().and_then(|limits| Ok(self.limiter.reload(limits, at)?));
        match reloaded {
            Ok(()) => output.json(&JsonReloaded { reloaded: true }),
            Err(error) => refuse(&error.into(), output),
        }
    }
}

/// What was decided, and the ask that it is about.
struct Decided<'a> {
    decision: Decision,
    ask: &'a Ask<'a>,
    of: Account,
}

fn refuse(refused: &Refused, output: &mut Output) -> Result<(), OutputError> {
    output.json(&JsonError { error: refused.to_string() })
}
