//! What can be asked of a server that speaks RESP.

use clap::Args;
use ratekeeper::Nanos;
use ratekeeper_console::parse_length;

use super::target::{Command, Decides, Words};
use super::wire::template::HOLE;
use super::words::split;

/// What such a rule allows at once, if nothing is said; and then in a period.
const BURST: u64 = 100;
const COUNT: u64 = 100;
const PERIOD: Nanos = Nanos::from_secs(60);

/// What answers begin with that say no.
const LIMITED: i64 = 1;

#[derive(Debug, Args)]
pub(crate) struct RawCommand {
    /// What to ask: cl-throttle, throttle, get, evalsha, or a command in its own words
    #[arg(long, value_name = "COMMAND", default_value = "cl-throttle")]
    command: String,
    #[arg(long, value_name = "TEXT")]
    #[arg(help = "The key, in commands that have a name [default: user{key}]")]
    key: Option<String>,
    /// Of cl-throttle and evalsha: how many tokens a bucket holds [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    burst: Option<u64>,
    /// Of cl-throttle and evalsha: how many come back in a period [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Of cl-throttle and evalsha: the period, in whole seconds [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_length)]
    period: Option<Nanos>,
    #[arg(long, value_name = "NAME")]
    #[arg(help = "Of throttle: the limit to spend from [default: LoginsPerUser]")]
    limit: Option<String>,
    /// Of throttle, cl-throttle and evalsha: the tokens of a request [default: 1]
    #[arg(long, value_name = "N")]
    cost: Option<u64>,
    /// Of other words: the number that says no, as the answer or the first in it
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    denied: Option<i64>,
}

impl TryFrom<RawCommand> for Command {
    type Error = String;

    /// Refuses what means nothing to the command.
    fn try_from(raw: RawCommand) -> Result<Self, String> {
        match &*raw.command {
            "cl-throttle" => raw.allow(&["key", "burst", "count", "period", "cost"])?.cl_throttle(),
            "evalsha" => raw.allow(&["key", "burst", "count", "period", "cost"])?.evalsha(),
            "throttle" => Ok(raw.allow(&["key", "limit", "cost"])?.throttle()),
            "get" => Ok(raw.allow(&["key"])?.get()),
            // Names are in small letters; what is not is sent as it is.
            words if words.contains(|c: char| c.is_ascii_uppercase() || " {".contains(c)) => {
                raw.allow(&["denied"])?.any(words)
            }
            _ => Err(format!(
                "--command is cl-throttle, throttle, get, evalsha, or a command in its own words, \
                 such as 'INCR {HOLE}'"
            )),
        }
    }
}

impl RawCommand {
    /// Refuses every option but these.
    fn allow(&self, names: &[&str]) -> Result<&Self, String> {
        let given = [
            ("key", self.key.is_some()),
            ("burst", self.burst.is_some()),
            ("count", self.count.is_some()),
            ("period", self.period.is_some()),
            ("limit", self.limit.is_some()),
            ("cost", self.cost.is_some()),
            ("denied", self.denied.is_some()),
        ];
        match given.iter().find(|(name, is_given)| *is_given && !names.contains(name)) {
            Some((name, _)) => Err(format!("--{name} means nothing to `{}`", self.command)),
            None => Ok(self),
        }
    }

    fn cl_throttle(&self) -> Result<Command, String> {
        let rule @ [burst, count, period] = self.rule()?;
        let numbers = [burst - 1, count, period, self.cost()].map(|number| number.to_string());
        let first = ["CL.THROTTLE".to_owned(), self.key()];
        let words = Words::Plain(first.into_iter().chain(numbers).collect());
        Ok(self.deciding(words, Decides::Rule { rule, key: self.key() }))
    }

    fn evalsha(&self) -> Result<Command, String> {
        let rule @ [burst, count, period] = self.rule()?;
        let numbers = [burst, count, period, self.cost()].map(|number| number.to_string());
        let first = ["1".to_owned(), self.key()];
        let words = Words::Script(first.into_iter().chain(numbers).collect());
        Ok(self.deciding(words, Decides::Rule { rule, key: self.key() }))
    }

    fn throttle(&self) -> Command {
        let limit = self.limit.clone().unwrap_or_else(|| "LoginsPerUser".into());
        let (id, cost) = (self.key(), self.cost().to_string());
        let words = ["THROTTLE".to_owned(), limit.clone(), id.clone(), cost];
        self.deciding(Words::Plain(words.into()), Decides::Limit { limit, id })
    }

    fn get(&self) -> Command {
        let words = Words::Plain(vec!["GET".into(), self.key()]);
        Command { words, denied: None, cost: 1, decides: Decides::Unknown }
    }

    fn any(&self, words: &str) -> Result<Command, String> {
        let words = Words::Plain(split(words)?);
        Ok(Command { words, denied: self.denied, cost: 1, decides: Decides::Unknown })
    }

    fn deciding(&self, words: Words, decides: Decides) -> Command {
        Command { words, denied: Some(LIMITED), cost: self.cost(), decides }
    }

    fn key(&self) -> String {
        self.key.clone().unwrap_or_else(|| format!("user{HOLE}"))
    }

    fn cost(&self) -> u64 {
        self.cost.unwrap_or(1)
    }

    /// Burst, count, and the period in seconds.
    fn rule(&self) -> Result<[u64; 3], String> {
        let period = self.period.unwrap_or(PERIOD).get();
        let whole = (period > 0 && period.is_multiple_of(1_000_000_000)).then_some(period);
        let seconds = whole.and_then(|period| u64::try_from(period / 1_000_000_000).ok());
        let seconds = seconds.ok_or("--period is a whole number of seconds, such as 60s")?;
        Ok([self.burst.unwrap_or(BURST), self.count.unwrap_or(COUNT), seconds])
    }
}
