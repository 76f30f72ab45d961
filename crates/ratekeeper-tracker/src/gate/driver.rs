//! The task that calls whoever's turn has come.

use std::sync::Arc;

use super::Core;

/// Keeps a gate until it is dropped, or closed.
pub(super) fn drive(core: Arc<Core>) -> impl Future<Output = ()> + Send {
    // Made here: a task that is ended before it ever ran has to tell those who wait as well.
    let closing = Closing(core);
    async move {
        let core = &closing.0;
        loop {
            let round = core.round();
            for told in round.told {
                told.end.tell(told.answer);
            }
            if round.is_unfinished {
                tokio::task::yield_now().await;
                continue;
            }
            if round.is_last {
                return;
            }
            tokio::select! {
                () = core.changed() => {}
                () = core.until(round.wake) => {}
            }
        }
    }
}

/// Tells all who wait that nobody will call them, however the task ends.
struct Closing(Arc<Core>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}
