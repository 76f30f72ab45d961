//! `ratekeeper ask LIMIT ID`: asking a server over HTTP.

use std::collections::BTreeMap;

use ratekeeper::{Decision, Nanos};
use ratekeeper_client::http::{HttpClient, HttpError, Method, RawPlace, segment};
use ratekeeper_console::{Format, Output, say, shown_lines};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::page::{Page, Words};
use crate::error::{Error, Exit};

/// What is to be asked, and whom.
#[derive(Debug)]
pub(crate) struct ServerAsk {
    pub(super) place: RawPlace,
    pub(super) op: Op,
    pub(super) limit: String,
    pub(super) id: String,
    pub(super) cost: u64,
    pub(super) times: u64,
    pub(super) explain: bool,
    pub(super) format: Format,
}

/// What is done with the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Spend,
    Check,
    Refund,
    Reset,
}

#[derive(Serialize)]
struct Request<'a> {
    limit: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
}

/// What of an answer is looked at.
#[derive(Deserialize)]
struct Answer {
    allowed: bool,
    shadow: bool,
    remaining: u64,
    retry_in_ns: u128,
    reset_in_ns: u128,
}

#[derive(Deserialize)]
struct Explanation {
    text: String,
    answer: Answer,
}

/// What of an explanation a check would be answered.
#[derive(Deserialize)]
struct Checked {
    answer: BTreeMap<String, Box<RawValue>>,
    limit: Box<RawValue>,
    id: Box<RawValue>,
    bucket: Box<RawValue>,
}

#[derive(Serialize)]
struct Explained {
    explanation: Box<RawValue>,
}

/// Asks, and says what was answered.
pub(crate) fn run(ask: &ServerAsk) -> Result<Exit, Error> {
    let last = ask.run().inspect_err(|error| {
        if matches!(error, Error::Http(HttpError::Unreachable { .. })) {
            say("note: `ratekeeper ask offline` tries limits without a server");
        }
    })?;
    Ok(if last.allowed { Exit::Allowed } else { Exit::Denied })
}

impl ServerAsk {
    fn run(&self) -> Result<Decision, Error> {
        let client = HttpClient::new(&self.place.place()?)?;
        let mut output = Output::stdout();
        let last = match self.format {
            // An explanation says what a check would be answered, and takes only the role `read`.
            format if self.op == Op::Check && self.explain => {
                self.print_explained(&client, format, &mut output)?
            }
            Format::Text => self.print(&client, &mut output)?,
            Format::Json => self.print_json(&client, &mut output)?,
        };
        output.finish()?;
        Ok(last)
    }

    fn print(&self, client: &HttpClient, output: &mut Output) -> Result<Decision, Error> {
        let mut page = Page::new(self.times, self.op.words(), output);
        let mut last = Decision::default();
        for number in 1..=self.times {
            let (answer, _) = self.ask(client)?;
            last = answer;
            page.add(number, None, &last)?;
            if !page.show()? {
                break;
            }
        }
        page.finish()?;
        if self.explain {
            let Explanation { text, .. } = client.get(&self.explain_path())?;
            output.line(format_args!("\n{}", shown_lines(text.trim_end())))?;
        }
        Ok(last)
    }

    fn print_json(&self, client: &HttpClient, output: &mut Output) -> Result<Decision, Error> {
        let mut last = Decision::default();
        for _ in 1..=self.times {
            let (answer, text) = self.ask(client)?;
            last = answer;
            output.json(&text)?;
            output.finish()?;
            if output.is_closed() {
                break;
            }
        }
        if self.explain {
            let explanation: Box<RawValue> = client.get(&self.explain_path())?;
            output.json(&Explained { explanation })?;
        }
        Ok(last)
    }

    /// Checks by explanations only: the last is shown in full.
    fn print_explained(
        &self,
        client: &HttpClient,
        format: Format,
        output: &mut Output,
    ) -> Result<Decision, Error> {
        let path = self.explain_path();
        let (mut last, mut told) = Self::explained(client, &path)?;
        if format == Format::Json {
            for number in 1..=self.times {
                if number > 1 {
                    (last, told) = Self::explained(client, &path)?;
                }
                output.json(&parse::<Checked>(client, &path, &told)?.as_answered())?;
            }
            output.json(&Explained { explanation: told })?;
            return Ok(last);
        }
        let mut page = Page::new(self.times, self.op.words(), output);
        for number in 1..=self.times {
            if number > 1 {
                (last, told) = Self::explained(client, &path)?;
            }
            page.add(number, None, &last)?;
        }
        page.finish()?;
        let Explanation { text, .. } = parse(client, &path, &told)?;
        output.line(format_args!("\n{}", shown_lines(text.trim_end())))?;
        Ok(last)
    }

    /// What would be answered, and the explanation as the server wrote it.
    fn explained(client: &HttpClient, path: &str) -> Result<(Decision, Box<RawValue>), HttpError> {
        client.call_and_read(&Method::GET, path, |told: Explanation| Decision::from(told.answer))
    }

    /// The answer, and as the server wrote it.
    fn ask(&self, client: &HttpClient) -> Result<(Decision, Box<RawValue>), HttpError> {
        // A reset fills the bucket, whatever was taken from it.
        let cost = (self.op != Op::Reset).then_some(self.cost);
        let request = Request { limit: &self.limit, id: &self.id, cost };
        client
            .send_and_read(&Method::POST, self.op.path(), &request, |answer: Answer| answer.into())
    }

    fn explain_path(&self) -> String {
        let (limit, id) = (segment(&self.limit), segment(&self.id));
        format!("/v1/explain/{limit}/{id}?cost={}", self.cost)
    }
}

/// A part of what a server wrote.
fn parse<T: DeserializeOwned>(
    client: &HttpClient,
    path: &str,
    text: &RawValue,
) -> Result<T, HttpError> {
    serde_json::from_str(text.get()).map_err(|_| client.strange_part(path, text.get()))
}

impl Checked {
    /// The fields of the answer beside those that say what it is about.
    fn as_answered(&self) -> BTreeMap<&str, &RawValue> {
        let about = [("limit", &self.limit), ("id", &self.id), ("bucket", &self.bucket)];
        let answer = self.answer.iter().map(|(name, value)| (&**name, &**value));
        answer.chain(about.map(|(name, value)| (name, &**value))).collect()
    }
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        Self {
            allowed: answer.allowed,
            shadow: answer.shadow,
            remaining: answer.remaining,
            retry_in: Nanos::new(answer.retry_in_ns),
            reset_in: Nanos::new(answer.reset_in_ns),
        }
    }
}

impl Op {
    fn path(self) -> &'static str {
        match self {
            Self::Spend => "/v1/spend",
            Self::Check => "/v1/check",
            Self::Refund => "/v1/refund",
            Self::Reset => "/v1/reset",
        }
    }

    fn words(self) -> Words {
        match self {
            Self::Spend | Self::Check => Words::Verdict,
            Self::Refund => Words::Refund,
            Self::Reset => Words::Reset,
        }
    }
}
