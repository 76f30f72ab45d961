//! One line of input: first as it is written, then as it can be carried out.

use std::borrow::Cow;
use std::path::PathBuf;

use ratekeeper::{Mode, Moment};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::lines::LINE_BYTES_MAX;
use crate::files::Files;

const OPS: &str = "spend, check, refund, reset, transaction or reload";
const MODES: &str = "check-and-spend, check-only or spend-only";

/// What a line asks for, and when.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) at: Moment,
    pub(crate) op: Op<'a>,
}

#[derive(Debug)]
pub(crate) enum Op<'a> {
    Spend(Ask<'a>),
    Check(Ask<'a>),
    Refund(Ask<'a>),
    Reset(Ask<'a>),
    Transaction(Vec<Ask<'a>>),
    Reload(Files),
}

/// One ask of one limit.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) limit: Cow<'a, str>,
    pub(crate) id: Cow<'a, str>,
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
}

/// Why a line cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadLine {
    #[error("the line is longer than {LINE_BYTES_MAX} bytes: send less in one line")]
    TooLong,
    #[error("byte {at} of the line is not UTF-8: send JSON as UTF-8")]
    NotText { at: usize },
    #[error("the line is blank: expected a JSON object")]
    Blank,
    #[error("expected a JSON object such as {{\"at\":0,\"op\":\"spend\",..}}")]
    NotAnObject,
    #[error("expected a JSON object such as {{\"limit\":\"..\",\"id\":\"..\"}}")]
    AskNotAnObject,
    #[error("{message} (column {column})")]
    Json { message: String, column: usize },
    #[error("`{field}` is missing: `{op}` needs it")]
    Missing { field: &'static str, op: &'static str },
    #[error("`{field}` does not belong to `{op}`: leave it out")]
    Foreign { field: &'static str, op: &'static str },
    #[error("`{field}` is missing")]
    NoField { field: &'static str },
    #[error("no op is called `{0}`: expected {OPS}")]
    Op(String),
    #[error("no mode is called `{0}`: expected {MODES}")]
    Mode(String),
    #[error("`{field}` is {found}: expected a whole number from 0 to {max}")]
    Number { field: &'static str, found: String, max: u64 },
    #[error("`{field}` is {found}: expected {expected}")]
    Type { field: &'static str, found: String, expected: &'static str },
    #[error("ask {number}: {bad}")]
    Ask { number: usize, bad: Box<BadLine> },
}

impl<'a> Request<'a> {
    /// What the line says. Refuses whatever it does not fully understand.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, BadLine> {
        let line = std::str::from_utf8(line)
            .map_err(|error| BadLine::NotText { at: error.valid_up_to() })?;
        let text = line.trim_matches([' ', '\t', '\r']);
        match text.bytes().next() {
            None => Err(BadLine::Blank),
            Some(b'{') => from_json::<Raw<'a>>(line)?.try_into(),
            // Serde would also take the fields as an array, in the order of our source code.
            Some(_) => Err(from_json::<&RawValue>(line).err().unwrap_or(BadLine::NotAnObject)),
        }
    }
}

fn from_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, BadLine> {
    serde_json::from_str(text).map_err(|error| {
        let (column, whole) = (error.column(), error.to_string());
        // Every input is one line; which one, the caller knows.
        let message = whole.split(" at line ").next().unwrap_or_default();
        let kind = if error.is_data() { "" } else { "not JSON: " };
        BadLine::Json { message: format!("{kind}{message}"), column }
    })
}

/// A line with every field that any op has. The values are read later, by those who can say what
/// they expect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    at: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    op: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    limit: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    cost: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    asks: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    limits: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    overrides: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAsk<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    limit: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    cost: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    mode: Option<&'a RawValue>,
}

/// A string that is only copied if it is written with escapes.
#[derive(Debug, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A field that may be absent, but not null.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

impl<'a> TryFrom<Raw<'a>> for Request<'a> {
    type Error = BadLine;

    fn try_from(raw: Raw<'a>) -> Result<Self, BadLine> {
        let op = text("op", raw.op.ok_or(BadLine::NoField { field: "op" })?)?;
        let at = raw.at.ok_or(BadLine::NoField { field: "at" })?;
        let at = Moment::from_nanos(whole_number("at", at, Moment::MAX.as_nanos())?);
        let op = match &*op {
            "spend" => Op::Spend(raw.ask("spend")?),
            "check" => Op::Check(raw.ask("check")?),
            "refund" => Op::Refund(raw.ask("refund")?),
            "reset" => Op::Reset(raw.ask("reset")?),
            "transaction" => Op::Transaction(raw.asks()?),
            "reload" => Op::Reload(raw.files()?),
            other => return Err(BadLine::Op(other.to_owned())),
        };
        Ok(Self { at, op })
    }
}

impl<'a> Raw<'a> {
    fn ask(self, op: &'static str) -> Result<Ask<'a>, BadLine> {
        let foreign = [
            ("asks", self.asks.is_some()),
            ("limits", self.limits.is_some()),
            ("overrides", self.overrides.is_some()),
        ];
        refuse(foreign, op)?;
        RawAsk { limit: self.limit, id: self.id, cost: self.cost, mode: None }.resolve(op)
    }

    fn asks(self) -> Result<Vec<Ask<'a>>, BadLine> {
        let op = "transaction";
        let foreign = [
            ("limit", self.limit.is_some()),
            ("id", self.id.is_some()),
            ("cost", self.cost.is_some()),
            ("limits", self.limits.is_some()),
            ("overrides", self.overrides.is_some()),
        ];
        refuse(foreign, op)?;
        let asks = array("asks", self.asks.ok_or(BadLine::Missing { field: "asks", op })?)?;
        let parse = |ask| RawAsk::parse(ask)?.resolve(op);
        let numbered = (1..).zip(asks);
        let within = |number| move |bad| BadLine::Ask { number, bad: Box::new(bad) };
        numbered.map(|(number, ask)| parse(ask).map_err(within(number))).collect()
    }

    fn files(self) -> Result<Files, BadLine> {
        let op = "reload";
        let foreign = [
            ("limit", self.limit.is_some()),
            ("id", self.id.is_some()),
            ("cost", self.cost.is_some()),
            ("asks", self.asks.is_some()),
        ];
        refuse(foreign, op)?;
        let limits = text("limits", self.limits.ok_or(BadLine::Missing { field: "limits", op })?)?;
        // Programs that write every field say null where there is no file.
        let overrides = self.overrides.filter(|path| path.get() != "null");
        let overrides = overrides.map(|path| text("overrides", path)).transpose()?;
        let path = |path: Cow<'_, str>| PathBuf::from(path.into_owned());
        Ok(Files { limits: path(limits), overrides: overrides.map(path) })
    }
}

fn refuse<const N: usize>(
    foreign: [(&'static str, bool); N],
    op: &'static str,
) -> Result<(), BadLine> {
    match foreign.into_iter().find(|(_, is_there)| *is_there) {
        Some((field, _)) => Err(BadLine::Foreign { field, op }),
        None => Ok(()),
    }
}

impl<'a> RawAsk<'a> {
    fn parse(ask: &'a RawValue) -> Result<Self, BadLine> {
        if ask.get().starts_with('{') { from_json(ask.get()) } else { Err(BadLine::AskNotAnObject) }
    }

    fn resolve(self, op: &'static str) -> Result<Ask<'a>, BadLine> {
        let limit = text("limit", self.limit.ok_or(BadLine::Missing { field: "limit", op })?)?;
        let id = id(self.id.ok_or(BadLine::Missing { field: "id", op })?)?;
        let cost = self.cost.map_or(Ok(1), |cost| whole_number("cost", cost, u64::MAX))?;
        let mode = self.mode.map_or(Ok(Mode::default()), mode)?;
        Ok(Ask { limit, id, cost, mode })
    }
}

fn mode(value: &RawValue) -> Result<Mode, BadLine> {
    match &*text("mode", value)? {
        "check-and-spend" => Ok(Mode::CheckAndSpend),
        "check-only" => Ok(Mode::CheckOnly),
        "spend-only" => Ok(Mode::SpendOnly),
        other => Err(BadLine::Mode(other.to_owned())),
    }
}

fn text<'a>(field: &'static str, value: &'a RawValue) -> Result<Cow<'a, str>, BadLine> {
    if value.get().starts_with('"') {
        return from_json::<Text<'_>>(value.get()).map(|Text(text)| text);
    }
    Err(BadLine::Type { field, found: describe(value), expected: "a string" })
}

fn array<'a>(field: &'static str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, BadLine> {
    if value.get().starts_with('[') {
        return from_json(value.get());
    }
    Err(BadLine::Type { field, found: describe(value), expected: "an array" })
}

/// The digits are read as they were written: 1e3 or 1.0 are not how one counts tokens.
fn whole_number(field: &'static str, value: &RawValue, max: u64) -> Result<u64, BadLine> {
    let digits = value.get();
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok());
    let refused = || BadLine::Number { field, found: describe(value), max };
    number.flatten().filter(|number| *number <= max).ok_or_else(refused)
}

/// A whole number of any length stands for its digits.
fn id(value: &RawValue) -> Result<Cow<'_, str>, BadLine> {
    let digits = value.get().strip_prefix('-').unwrap_or(value.get());
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(value.get().into());
    }
    if value.get().starts_with('"') {
        return text("id", value);
    }
    let expected = "a string or a whole number";
    Err(BadLine::Type { field: "id", found: describe(value), expected })
}

/// What was found where something else was expected, without repeating all of a long text.
fn describe(value: &RawValue) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'"') => "a string".to_owned(),
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "an array".to_owned(),
        _ if text.len() <= SHOWN_BYTES_MAX => text.to_owned(),
        _ => format!("a number of {} characters", text.len()),
    }
}
