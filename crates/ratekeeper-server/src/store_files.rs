//! Files that are read once, for connections to a shared store.

use std::path::{Path, PathBuf};

use ratekeeper_redis::{PemFile, Tls};

use crate::http::PEM_BYTES_MAX;
use crate::reading::{Place, read_whole_file};
use crate::server::StartError;
use crate::settings::StoreSettings;

/// Whose certificates are believed, and what is shown. It is said at `place` which file is looked at.
pub(crate) fn read_tls(settings: &StoreSettings, place: &Place) -> Result<Tls, StartError> {
    let read = |path: &PathBuf| read_pem(path, place);
    let client = match (&settings.cert, &settings.key) {
        (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
        (None, None) => None,
        _ => return Err(StartError::StoreKey),
    };
    Ok(Tls { authority: settings.ca.as_ref().map(read).transpose()?, client })
}

fn read_pem(path: &Path, place: &Place) -> Result<PemFile, StartError> {
    place.is(path);
    let text = read_whole_file(path, PEM_BYTES_MAX)
        .map_err(|source| StartError::StoreFile { path: path.to_owned(), source })?;
    Ok(PemFile { path: path.to_owned(), text })
}

#[cfg(test)]
mod tests;
