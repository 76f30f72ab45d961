//! Lists that a server gives page by page.

use ratekeeper_client::http::{HttpClient, segment};
use serde::de::DeserializeOwned;

use super::query;
use crate::error::Error;

/// How many pages are read. A server has about a thousand entries on one, and at most a million.
const PAGES_MAX: usize = 1 << 14;

/// A page as a server writes it.
pub(super) trait Page: DeserializeOwned {
    type Entry;

    /// What is on it, and after what the next one begins, if there is one.
    fn into_parts(self) -> (Vec<Self::Entry>, Option<String>);
}

/// Does something with every entry of the list at `path`, of which `parts` say what is wanted.
pub(super) fn each<P: Page>(
    client: &HttpClient,
    path: &str,
    parts: &[String],
    mut visit: impl FnMut(P::Entry) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut after: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let after_part = after.as_deref().map(|after| format!("after={}", segment(after)));
        let parts: Vec<String> = parts.iter().cloned().chain(after_part).collect();
        let page: P = client.get(&format!("{path}{}", query(&parts, false)))?;
        let (entries, next) = page.into_parts();
        entries.into_iter().try_for_each(&mut visit)?;
        match next {
            // A cursor that stays where it is would never end.
            Some(next) if Some(&next) != after.as_ref() => after = Some(next),
            _ => break,
        }
    }
    Ok(())
}
