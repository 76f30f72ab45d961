//! What a caller can get wrong.

use crate::limits::{IdError, Limits, Shown, known_format};

/// An ask that cannot be decided, because something about it is wrong. Nothing was spent.
///
/// Its `Display` is one line: names and ids that the caller chose are escaped and shortened. The
/// fields hold them as they came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// There is no such limit.
    #[error("no limit is called `{}`{}", Shown(name), suggestion(nearest.as_deref()))]
    UnknownLimit {
        /// What was asked for.
        name: String,
        /// What was perhaps meant.
        nearest: Option<String>,
    },
    /// The limit has no default, and no override for this id.
    #[error(
        "`{limit}` has no default, and no override for `{}`: add one to the limits files",
        Shown(id)
    )]
    NoDefault {
        /// The limit.
        limit: String,
        /// The id.
        id: String,
    },
    /// The id is not of the limit's format.
    #[error("`{}` is not an id of `{limit}`: {source}{}", Shown(id), format_of(limit))]
    Id {
        /// The limit.
        limit: String,
        /// The id.
        id: String,
        /// What is wrong with it.
        source: IdError,
    },
    /// It costs more than the bucket ever holds, so waiting would not help.
    #[error("a cost of {cost} is more than `{limit}` ever holds: its burst is {burst}")]
    CostAboveBurst {
        /// The limit.
        limit: String,
        /// What was asked for.
        cost: u64,
        /// The most that can be asked for.
        burst: u64,
    },
    /// Two asks of one transaction are for the same bucket.
    #[error("bucket {} occurs twice in one transaction: add the costs up", Shown(bucket))]
    SameBucketTwice {
        /// The bucket's key.
        bucket: String,
    },
    /// There is nothing in the transaction.
    #[error("the transaction is empty: ask for at least one limit")]
    NoAsks,
    /// There is too much in the transaction.
    #[error("the transaction has {asks} asks: at most {} are allowed", super::TRANSACTION_ASKS_MAX)]
    TooManyAsks {
        /// How many there are.
        asks: usize,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(": did you mean `{name}`?"))
}

/// Where the ids of a limit look as they do because of its name, the sentence says so.
fn format_of(limit: &str) -> String {
    known_format(limit).map_or_else(String::new, |format| {
        format!(
            " (`{limit}` is a known name, whose ids are {format}: for others, use another name)"
        )
    })
}

pub(super) fn unknown_limit(limits: &Limits, name: &str) -> Mistake {
    let known = limits.iter().map(crate::limits::NamedLimit::name);
    let nearest = crate::limits::nearest(name, known).map(str::to_owned);
    Mistake::UnknownLimit { name: name.to_owned(), nearest }
}
