//! Why an override is not made or not removed.

use std::io;

use ratekeeper::algorithm::book::BookFull;
use ratekeeper::algorithm::gcra::RuleError;
use ratekeeper::limits::{IdError, Limit, Origin};

use super::{RUN_TIME_OVERRIDES_MAX, Utc};

/// Why a change of overrides was refused. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum OverrideError {
    #[error("the change has no reason: say why, for whoever reads it later")]
    NoWhy,
    #[error("`{field}` has {bytes} bytes: at most {max} are allowed")]
    TooLong { field: &'static str, bytes: usize, max: usize },
    #[error("`until` is {until}, which is over: leave it out, or say a time to come")]
    UntilPast { until: Utc },
    #[error("no limit is called `{limit}`{}", suggestion(nearest.as_deref()))]
    UnknownLimit { limit: String, nearest: Option<String> },
    #[error("`{limit}` is a bucket that everybody shares: change its rate in the buckets file")]
    Bucket { limit: String },
    #[error("`{id}` is not an id of `{limit}`: {source}")]
    Id { limit: String, id: String, source: IdError },
    #[error("these terms cannot be: {source}")]
    Terms { source: RuleError },
    #[error("these terms cannot be kept in the store: {source}")]
    TooSlow { source: ratekeeper_redis::TooSlow },
    #[error(
        "`{limit}:{id}` is allowed {} now, and {} is lower: say that it may be lowered, if it is \
         meant",
        terms.before,
        terms.after
    )]
    WouldLower { limit: String, id: String, terms: Box<Lowered> },
    #[error("`{limit}:{id}` is there twice: which of the two is meant?")]
    Twice { limit: String, id: String },
    #[error("`{limit}:{id}` has no override")]
    NotFound { limit: String, id: String },
    #[error("the override of `{limit}:{id}` is written in {origin}: remove it there")]
    OnlyInFile { limit: String, id: String, origin: Origin },
    #[error(
        "there would be {overrides} overrides beside the files: at most {RUN_TIME_OVERRIDES_MAX} \
         are allowed, so remove some, or write them into the overrides file"
    )]
    TooMany { overrides: usize },
    #[error("the limit cannot have this override: {reason}")]
    DoesNotFit { reason: String },
    #[error(transparent)]
    BookFull(#[from] BookFull),
    #[error("keeping the change in the state directory failed, so it was not made")]
    Storage(#[source] io::Error),
}

/// Terms, and lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// What an id is allowed.
    pub before: Limit,
    /// What it would be allowed.
    pub after: Limit,
}

impl OverrideError {
    /// Which part of what was asked is wrong, if one is.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::NoWhy => Some("why"),
            Self::TooLong { field, .. } => Some(field),
            Self::UntilPast { .. } => Some("until"),
            Self::UnknownLimit { .. } | Self::Bucket { .. } | Self::DoesNotFit { .. } => {
                Some("limit")
            }
            Self::Id { .. }
            | Self::Twice { .. }
            | Self::NotFound { .. }
            | Self::OnlyInFile { .. } => Some("id"),
            Self::Terms { source: RuleError::Burst } => Some("burst"),
            Self::Terms { source: RuleError::Count | RuleError::TooFine } => Some("count"),
            Self::Terms { source: RuleError::Period } | Self::TooSlow { .. } => Some("period"),
            Self::WouldLower { .. } => Some("lower"),
            Self::TooMany { .. } | Self::BookFull(_) | Self::Storage(_) => None,
        }
    }

    /// What the part has to be.
    pub fn rule(&self) -> Option<&'static str> {
        match self {
            Self::NoWhy => Some("a text that says why"),
            Self::TooLong { .. } => Some("a shorter text"),
            Self::UntilPast { .. } => Some("a time to come, such as 2040-12-01T00:00:00Z"),
            Self::UnknownLimit { .. } | Self::Bucket { .. } | Self::DoesNotFit { .. } => {
                Some("the name of a limit that can have overrides")
            }
            Self::Id { .. } => Some("an id of the limit's format"),
            Self::Twice { .. } => Some("each id once"),
            Self::NotFound { .. } | Self::OnlyInFile { .. } => {
                Some("an id with an override that was made at run time")
            }
            Self::TooSlow { .. } => Some("a shorter period, or a smaller burst"),
            Self::Terms { .. } => Some("whole numbers and a period within the bounds of limits"),
            Self::WouldLower { .. } => Some("true, if the id is to be allowed less than now"),
            Self::TooMany { .. } | Self::BookFull(_) | Self::Storage(_) => None,
        }
    }
}

/// Which of many changes was refused, and why.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// The place of the change in the list, from 0; none if it is not about one of them.
    pub at: Option<usize>,
    /// What is wrong with it.
    pub error: OverrideError,
}

impl From<OverrideError> for Refused {
    fn from(error: OverrideError) -> Self {
        Self { at: None, error }
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(": did you mean `{name}`?"))
}
