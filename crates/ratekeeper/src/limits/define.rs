//! Limits that a program defines itself, without a file.

use super::name::{NameError, check_name, known_name};
use super::{
    COMMENT_BYTES_MAX, DefaultLimit, Hint, IdError, IdFormat, Limit, Limits, NAMES_MAX, NamedLimit,
    OVERRIDES_MAX, Origin, Override, Shown,
};
use crate::algorithm::Share;
use crate::store::shared::Sharing;

/// Why a limit cannot be defined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum DefineError {
    #[error("`{}` cannot name a limit: {source}", Shown(name))]
    Name { name: Box<str>, source: NameError },
    #[error("the ids of `{name}` are of the format `{known}`: leave the format out, or use that")]
    Format { name: Box<str>, known: IdFormat },
    #[error("there is no limit `{}`: define it first", Shown(name))]
    Undefined { name: Box<str> },
    #[error("`{name}` is a bucket that all share: only a limit has overrides or is in shadow")]
    Bucket { name: Box<str> },
    #[error("`{}` is not an id of `{name}`: {source}", Shown(id))]
    Id { name: Box<str>, id: Box<str>, source: IdError },
    #[error(
        "the comment on `{name}:{}` is longer than {COMMENT_BYTES_MAX} bytes: shorten it",
        Shown(id)
    )]
    Comment { name: Box<str>, id: Box<str> },
    #[error("there are {NAMES_MAX} limits or {OVERRIDES_MAX} overrides already, and no more fit")]
    TooMany,
}

impl Limits {
    /// No limits, to add some to.
    ///
    /// ```
    /// use ratekeeper::limits::{Limit, Limits};
    /// use ratekeeper::{Limiter, Moment, Nanos};
    ///
    /// let limits = Limits::new()
    ///     .with("SearchesPerUser", Limit::new(20, 20, Nanos::from_secs(1))?)?
    ///     .with_override("SearchesPerUser", "ada", Limit::new(99, 99, Nanos::from_secs(1))?)?;
    /// let limiter = Limiter::new(limits)?;
    /// assert_eq!(limiter.spend("SearchesPerUser", "ada", 1, Moment::EPOCH)?.remaining, 98);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// With a limit for every id, whatever it looks like; one of the same name is replaced.
    /// Refuses what cannot name a limit.
    ///
    /// A known name brings the format of its ids along, which [`hints`](Self::hints) then says:
    ///
    /// ```
    /// # use ratekeeper::limits::{Limit, Limits};
    /// # use ratekeeper::Nanos;
    /// let limits = Limits::new().with("NewOrdersPerAccount", Limit::new(300, 300, Nanos::from_secs(10_800))?)?;
    /// assert!(limits.hints()[0].to_string().contains("`NewOrdersPerAccount` (regId)"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with(self, name: &str, limit: Limit) -> Result<Self, DefineError> {
        let Some(known) = known_name(name) else {
            return self.with_ids(name, IdFormat::Any, limit);
        };
        let mut limits = self.with_ids(name, known.id_format, limit)?;
        let hint = Hint::known_names(Origin::program(), &[known]);
        // The same name may be defined again and again.
        if !limits.hints.contains(&hint) {
            limits.hints.push(hint);
        }
        Ok(limits)
    }

    /// With a limit for ids of a format; one of the same name is replaced. Refuses what cannot
    /// name a limit, and a name that is known for another format.
    pub fn with_ids(
        mut self,
        name: &str,
        id_format: IdFormat,
        limit: Limit,
    ) -> Result<Self, DefineError> {
        check_name(name).map_err(|source| DefineError::Name { name: name.into(), source })?;
        let known = known_name(name);
        if let Some(known) = known.filter(|known| known.id_format != id_format) {
            return Err(DefineError::Format { name: name.into(), known: known.id_format });
        }
        if self.names.len() >= NAMES_MAX {
            return Err(DefineError::TooMany);
        }
        let named = NamedLimit {
            name: name.into(),
            number: known.map(|known| known.number),
            is_bucket: false,
            is_shadow: false,
            sharing: Sharing::default(),
            share: Share::default(),
            id_format,
            default: Some(DefaultLimit { limit, origin: Origin::program() }),
            overrides: Vec::new(),
        };
        let place = self.places.get(&named.name).and_then(|place| self.names.get_mut(*place));
        if let Some(place) = place {
            *place = named;
        } else {
            self.places.insert(named.name.clone(), self.names.len());
            self.names.push(named);
        }
        Ok(self)
    }

    /// With a limit in shadow, or out of it again: in shadow it decides and counts, but denies
    /// nobody. Refuses a limit that is not defined, and a bucket.
    pub fn with_shadow(mut self, name: &str, is_shadow: bool) -> Result<Self, DefineError> {
        self.limit_mut(name)?.is_shadow = is_shadow;
        Ok(self)
    }

    /// With a limit whose buckets are shared as `sharing` says, where they are shared. Refuses a
    /// limit that is not defined, and a bucket.
    pub fn with_sharing(mut self, name: &str, sharing: Sharing) -> Result<Self, DefineError> {
        self.limit_mut(name)?.sharing = sharing;
        Ok(self)
    }

    /// With a limit whose buckets have this share of memory, once memory is full. Refuses a limit that
    /// is not defined, and a bucket.
    pub fn with_share(mut self, name: &str, share: Share) -> Result<Self, DefineError> {
        self.limit_mut(name)?.share = share;
        Ok(self)
    }

    /// With an override for one id of a limit; one for the same id is replaced. Refuses a limit
    /// that is not defined, a bucket, and what is not an id of the limit.
    pub fn with_override(self, name: &str, id: &str, limit: Limit) -> Result<Self, DefineError> {
        self.with_override_from(name, id, limit, Origin::program(), None)
    }

    /// Does what [`with_override`](Self::with_override) does, and says where the override comes from
    /// and why it is there. Refuses also a comment of more than [`COMMENT_BYTES_MAX`] bytes.
    ///
    /// ```
    /// use ratekeeper::limits::{Limit, Limits, Origin};
    /// use ratekeeper::{Limiter, Moment, Nanos};
    ///
    /// let limits = Limits::new().with("SearchesPerUser", Limit::new(20, 20, Nanos::from_secs(1))?)?;
    /// let (more, desk) = (Limit::new(99, 99, Nanos::from_secs(1))?, Origin::named("the desk"));
    /// let limits =
    ///     limits.with_override_from("SearchesPerUser", "ada", more, desk, Some("until May"))?;
    /// let explained = Limiter::new(limits)?.explain("SearchesPerUser", "ada", 1, Moment::EPOCH)?;
    /// assert!(explained.to_string().contains("an override (the desk), \"until May\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_override_from(
        mut self,
        name: &str,
        id: &str,
        limit: Limit,
        origin: Origin,
        comment: Option<&str>,
    ) -> Result<Self, DefineError> {
        let named = self.limit_mut(name)?;
        let canonical = named.canonical_id(id).map_err(|source| DefineError::Id {
            name: name.into(),
            id: id.into(),
            source,
        })?;
        if comment.is_some_and(|comment| comment.len() > COMMENT_BYTES_MAX) {
            return Err(DefineError::Comment { name: name.into(), id: canonical.into() });
        }
        let (id, comment) = (canonical.into_boxed_str(), comment.map(Into::into));
        let place = named.overrides.binary_search_by(|other| other.id.cmp(&id));
        let over = Override { id, limit, origin, comment };
        match place {
            Ok(at) => named.overrides[at] = over,
            Err(_) if named.overrides.len() >= OVERRIDES_MAX => return Err(DefineError::TooMany),
            Err(at) => named.overrides.insert(at, over),
        }
        Ok(self)
    }

    /// What is limited under `name`, unless it is a bucket.
    pub(super) fn limit_mut(&mut self, name: &str) -> Result<&mut NamedLimit, DefineError> {
        let place = self.places.get(name).and_then(|place| self.names.get_mut(*place));
        let named = place.ok_or_else(|| DefineError::Undefined { name: name.into() })?;
        if named.is_bucket { Err(DefineError::Bucket { name: name.into() }) } else { Ok(named) }
    }
}
