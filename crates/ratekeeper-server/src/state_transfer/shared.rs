//! The state of a store that is shared.

use std::time::Duration;

use ratekeeper_redis::{Link, Page};
use tokio::runtime::{Builder, Runtime};

use super::{Entry, Put, TransferError};
use crate::reading::Place;
use crate::settings::StoreSettings;
use crate::store_files::read_tls;

/// How long the store may take for one page or batch. Nobody waits for a decision here.
const WITHIN: Duration = Duration::from_secs(10);
/// How many entries are written in one go.
const BATCH: usize = 500;

/// A store that is shared, for reading all of it, or writing much.
pub struct SharedState {
    /// Before the runtime that its connections belong to.
    link: Link,
    runtime: Runtime,
}

impl SharedState {
    /// The store that the settings name. Nothing is connected yet.
    pub fn open(settings: &StoreSettings) -> Result<Option<Self>, TransferError> {
        let Some(address) = &settings.address else { return Ok(None) };
        let tls = read_tls(settings, &Place::default())?;
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(TransferError::Runtime)?;
        let entered = runtime.enter();
        let link = Link::open(address, &tls)?;
        drop(entered);
        Ok(Some(Self { link, runtime }))
    }

    /// Hands on everything that is kept, page by page; a key may come twice. Ends early if `take`
    /// says that it has enough.
    pub fn read<E: From<TransferError>>(
        &self,
        mut take: impl FnMut(Page) -> Result<bool, E>,
    ) -> Result<(), E> {
        let failed = |failure| E::from(TransferError::Store(failure));
        let mut scan = self.runtime.block_on(self.link.scan(WITHIN)).map_err(failed)?;
        while let Some(page) = self.runtime.block_on(scan.next(WITHIN)).map_err(failed)? {
            if !take(page)? {
                break;
            }
        }
        Ok(())
    }

    /// Writes entries where less is owed, in order, and tells `done` of each. Ends with the first
    /// that fails; all before it are written, and it can be done again.
    pub fn put(&self, entries: &[Entry], mut done: impl FnMut(Put)) -> Result<(), TransferError> {
        for batch in entries.chunks(BATCH) {
            for put in self.runtime.block_on(self.link.put(batch, WITHIN)) {
                done(put?);
            }
        }
        Ok(())
    }
}
