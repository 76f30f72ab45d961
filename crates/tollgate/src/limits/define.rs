//! Limits that a program defines itself, without a file.

use super::name::{NameError, check_name, known_name};
use super::{
    DefaultLimit, IdBuffer, IdError, IdFormat, Limit, Limits, NAMES_MAX, NamedLimit, OVERRIDES_MAX,
    Origin, Override,
};

/// Why a limit cannot be defined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum DefineError {
    #[error("`{name}` cannot name a limit: {source}")]
    Name { name: Box<str>, source: NameError },
    #[error("the ids of `{name}` are of the format `{known}`: leave the format out, or use that")]
    Format { name: Box<str>, known: IdFormat },
    #[error("there is no limit `{name}` to make an exception from: define it first")]
    Undefined { name: Box<str> },
    #[error("`{id}` is not an id of `{name}`: {source}")]
    Id { name: Box<str>, id: Box<str>, source: IdError },
    #[error("there are {NAMES_MAX} limits or {OVERRIDES_MAX} overrides already, and no more fit")]
    TooMany,
}

impl Limits {
    /// No limits, to add some to.
    ///
    /// ```
    /// use tollgate::limits::{Limit, Limits};
    /// use tollgate::{Limiter, Moment, Nanos};
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
    pub fn with(self, name: &str, limit: Limit) -> Result<Self, DefineError> {
        let format = known_name(name).map_or(IdFormat::Any, |known| known.id_format);
        self.with_ids(name, format, limit)
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
        let default = Some(DefaultLimit { limit, origin: Origin::program() });
        let number = known.map(|known| known.number);
        let (name, overrides) = (name.into(), Vec::new());
        let named = NamedLimit { name, number, is_bucket: false, id_format, default, overrides };
        let place = self.places.get(&named.name).and_then(|place| self.names.get_mut(*place));
        if let Some(place) = place {
            *place = named;
        } else {
            self.places.insert(named.name.clone(), self.names.len());
            self.names.push(named);
        }
        Ok(self)
    }

    /// With an override for one id of a limit; one for the same id is replaced. Refuses a limit
    /// that is not defined, and what is not an id of it.
    pub fn with_override(
        mut self,
        name: &str,
        id: &str,
        limit: Limit,
    ) -> Result<Self, DefineError> {
        let place = self.places.get(name).and_then(|place| self.names.get_mut(*place));
        let named = place.ok_or_else(|| DefineError::Undefined { name: name.into() })?;
        let mut buffer = IdBuffer::new();
        let id = named
            .id_format
            .canonical_in_file(id, &mut buffer)
            .map_err(|source| DefineError::Id { name: name.into(), id: id.into(), source })?;
        let over = Override { id: id.into(), limit, origin: Origin::program(), comment: None };
        match named.overrides.binary_search_by(|other| (*other.id).cmp(id)) {
            Ok(at) => named.overrides[at] = over,
            Err(_) if named.overrides.len() >= OVERRIDES_MAX => return Err(DefineError::TooMany),
            Err(at) => named.overrides.insert(at, over),
        }
        Ok(self)
    }
}
