//! Uses of a decaying average: what is sent to the script, and what its answer means.

use ratekeeper::Moment;
use ratekeeper::algorithm::average::{Outcome, Rule};
use redis::{Pipeline, Value};

use crate::bucket::{moment, nonsense, write_moment};
use crate::failure::Failure;
use crate::key::{Kind, slot};
use crate::script::{AVERAGE, Call, Script};

/// One use of one key.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The key.
    pub key: &'a [u8],
    /// How many uses are too many.
    pub rule: Rule,
}

/// The answer to an [`Ask`].
#[must_use = "a denial is no error: whoever does not look at it lets everybody pass"]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// What a store would have answered.
    pub outcome: Outcome,
    /// When it was decided, by the clock that decided.
    pub now: Moment,
}

pub(crate) struct Use<'a> {
    pub(crate) ask: &'a Ask<'a>,
    pub(crate) now: Option<Moment>,
}

impl Call for Use<'_> {
    fn script(&self) -> &'static Script {
        &AVERAGE
    }

    fn slot(&self) -> u16 {
        slot(&Kind::Average.key(self.ask.key))
    }

    fn write(&self, to: &mut Pipeline) {
        let rule = &self.ask.rule;
        to.arg(1).arg(Kind::Average.key(self.ask.key));
        write_moment(self.now, to);
        // The shortest digits that are read as the same double.
        to.arg(rule.limit().to_string()).arg(rule.period_secs().to_string());
        to.arg(u8::from(rule.is_strict()));
    }
}

/// What a reply means.
pub(crate) fn read(reply: &Value) -> Result<Answer, Failure> {
    let Value::Array(items) = reply else { return Err(nonsense(reply)) };
    let [Value::Int(now), Value::Int(over), Value::BulkString(rate)] = items.as_slice() else {
        return Err(nonsense(reply));
    };
    let now = u64::try_from(*now).map_err(|_| nonsense(reply))?;
    let rate: f64 = match str::from_utf8(rate).map(str::parse) {
        Ok(Ok(rate)) if f64::is_finite(rate) => rate,
        _ => return Err(nonsense(reply)),
    };
    Ok(Answer { outcome: Outcome { over: *over == 1, rate }, now: moment(now) })
}

#[cfg(test)]
mod tests;
