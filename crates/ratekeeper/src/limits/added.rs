//! Overrides that are added to limits many at a time, from elsewhere than the files.

use std::collections::BTreeSet;

use super::{COMMENT_BYTES_MAX, DefineError, Limits, OVERRIDES_MAX, Override};

impl Limits {
    /// With overrides, each for the limit of a name; they replace those for the same ids, and of
    /// several for one id the last stays. Those that do not fit are left out, and told by their
    /// place and the reason.
    ///
    /// ```
    /// use ratekeeper::Nanos;
    /// use ratekeeper::limits::{DefineError, Limit, Limits, Origin, Override};
    ///
    /// let limit = Limit::new(20, 20, Nanos::from_secs(1))?;
    /// let over = Override { id: "ada".into(), limit, origin: Origin::named("me"), comment: None };
    /// let limits = Limits::new().with("SearchesPerUser", limit)?;
    /// let (limits, left_out) =
    ///     limits.with_overrides([("SearchesPerUser", over.clone()), ("Nothing", over)]);
    /// assert!(limits.named("SearchesPerUser").is_some_and(|it| it.override_for("ada").is_some()));
    /// assert!(matches!(left_out[..], [(1, DefineError::Undefined { .. })]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_overrides<'a>(
        mut self,
        overrides: impl IntoIterator<Item = (&'a str, Override)>,
    ) -> (Self, Vec<(usize, DefineError)>) {
        let (mut left_out, mut changed) = (Vec::new(), BTreeSet::new());
        for (at, (name, over)) in overrides.into_iter().enumerate() {
            match self.append(name, over) {
                Ok(place) => drop(changed.insert(place)),
                Err(error) => left_out.push((at, error)),
            }
        }
        for place in changed {
            let Some(named) = self.names.get_mut(place) else { continue };
            // The sort is stable, so of two for one id the one that was added later stands second.
            named.overrides.sort_by(|a, b| a.id.cmp(&b.id));
            named.overrides.dedup_by(|later, kept| {
                let is_same = later.id == kept.id;
                if is_same {
                    std::mem::swap(later, kept);
                }
                is_same
            });
        }
        (self, left_out)
    }

    /// Adds an override behind those of its limit, and returns the place of that.
    fn append(&mut self, name: &str, over: Override) -> Result<usize, DefineError> {
        let named = self.limit_mut(name)?;
        let id = named.canonical_id(&over.id).map_err(|source| DefineError::Id {
            name: name.into(),
            id: over.id.clone(),
            source,
        })?;
        if over.comment.as_ref().is_some_and(|comment| comment.len() > COMMENT_BYTES_MAX) {
            return Err(DefineError::Comment { name: name.into(), id: id.into() });
        }
        if named.overrides.len() >= OVERRIDES_MAX {
            return Err(DefineError::TooMany);
        }
        named.overrides.push(Override { id: id.into(), ..over });
        let place = self.places.get(name).copied();
        place.ok_or_else(|| DefineError::Undefined { name: name.into() })
    }
}

#[cfg(test)]
mod tests;
