//! What a person sees while a run goes on.

use std::cell::Cell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use ratekeeper::{Moment, Nanos};
use ratekeeper_console::say;

use super::report::{per_second, share, time};
use super::stage::Stage;
use super::tally::{Counts, Recent};

/// How often the line is drawn anew.
const DRAW_EVERY: Nanos = Nanos::new(500_000_000);

/// A line on standard error; nothing where that is no terminal.
pub(crate) struct Live {
    /// What is about to happen.
    words: String,
    bar: ProgressBar,
    drawn_at: Cell<Option<Moment>>,
}

impl Live {
    /// For a run of this length, warm-up included, that is announced by these words.
    pub(crate) fn new(words: String, length: Nanos) -> Self {
        // Narrow enough for a terminal of 80 columns.
        let template = "{bar:10} {msg}";
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let millis = u64::try_from(Duration::from(length).as_millis()).unwrap_or(u64::MAX);
        let bar = ProgressBar::new(millis).with_style(style);
        Self { words, bar, drawn_at: Cell::new(None) }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_seen(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Says what is about to happen. Not earlier than the server was reached: one that is not
    /// there is told before anything is promised.
    pub(crate) fn announce(&self) {
        say(&self.words);
    }

    /// Draws what happened since the last time, if that is long enough ago.
    pub(crate) fn show(&self, stage: &Stage, now: Moment) {
        let since = now.since(self.drawn_at.get().unwrap_or(stage.start));
        if since < DRAW_EVERY {
            return;
        }
        self.drawn_at.set(Some(now));
        let passed = Duration::from(now.since(stage.start)).as_millis();
        self.bar.set_position(u64::try_from(passed).unwrap_or(u64::MAX));
        if let Some(recent) = &mut stage.tally.borrow_mut().recent {
            self.bar.set_message(words(recent, since));
            recent.counts = Counts::default();
            recent.latencies.reset();
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn words(recent: &Recent, length: Nanos) -> String {
    let Recent { counts, latencies } = recent;
    let at = |quantile| time(latencies.value_at_quantile(quantile));
    let errors = match counts.errors {
        0 => String::new(),
        errors => format!("  {errors} errors"),
    };
    format!(
        "{:.0}/s  p50 {}  p99 {}  p99.9 {}  {} denied{errors}",
        per_second(counts.answered(), length),
        at(0.5),
        at(0.99),
        at(0.999),
        share(counts.denied, counts.answered()),
    )
}
