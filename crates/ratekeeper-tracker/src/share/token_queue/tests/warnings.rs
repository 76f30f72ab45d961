//! What is told of a server that cannot be used.

use std::sync::{Arc, Mutex};

use tracing::field::Field;

use super::super::super::ShareError;
use super::super::super::token_state::TokenAsk;
use super::{grant, late, shared};

/// Writes down the errors of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::field::Visit for Warnings {
    fn record_error(&mut self, _: &Field, error: &(dyn std::error::Error + 'static)) {
        self.0.lock().unwrap().push(error.to_string());
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn each_change_of_what_is_wrong_with_the_server_is_a_warning() {
    let server = || "http://localhost".to_owned();
    let refused = || ShareError::Refused { server: server(), status: 403, said: String::new() };
    let no_limit = || {
        let [limit, said, wanted] = ["all", "", ""].map(str::to_owned);
        ShareError::NoLimit { server: server(), limit, said, wanted }
    };
    let warnings = Warnings::default();
    let _watched = tracing::subscriber::set_default(warnings.clone());
    let (_gate, core) = shared();
    let ask = TokenAsk::Look;
    // It begins alone, and the server that comes then wants another token, and has no such limit.
    for error in [late(), late(), refused(), refused(), no_limit(), no_limit(), late()] {
        core.heard(&ask, Err(error), core.now());
    }
    grant(&core, &ask, true);
    core.heard(&ask, Err(late()), core.now());
    let told = warnings.0.lock().unwrap().clone();
    let expected = [late(), refused(), no_limit(), late(), late()].map(|error| error.to_string());
    assert_eq!(told, expected);
}
