//! The task that calls whoever's turn has come.

use std::sync::Arc;

use super::Core;

/// Keeps a gate until it is dropped.
pub(super) async fn drive(core: Arc<Core>) {
    let _closing = Closing(&core);
    loop {
        let round = core.round();
        for told in round.told {
            told.end.tell(told.answer);
        }
        if round.is_unfinished {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            () = core.changed() => {}
            () = core.until(round.wake) => {}
        }
    }
}

/// Tells all who wait that nobody will call them, however the task ends.
struct Closing<'c>(&'c Arc<Core>);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
