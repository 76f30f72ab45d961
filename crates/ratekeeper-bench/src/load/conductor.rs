//! Says when: requests that come due, answers that come too late, the end.

use std::rc::Rc;
use std::time::Duration;

use ratekeeper::{Moment, Nanos};

use super::cpu::Cpu;
use super::live::Live;
use super::stage::{Line, Stage};

/// How often connections are looked after.
const LOOK_EVERY: Nanos = Nanos::new(10_000_000);
/// The timers of the runtime are as coarse as this. What is nearer is waited for awake, or the
/// sleep would count as the server's latency.
const COARSE: Duration = Duration::from_millis(2);

/// Conducts one run.
pub(crate) struct Conductor<'a> {
    pub(crate) stage: Rc<Stage>,
    pub(crate) lines: &'a [Rc<Line>],
    pub(crate) live: Option<&'a Live>,
    pub(crate) cpu: Option<&'a Cpu>,
    /// How many requests have come due.
    arrived: u64,
    look_at: Moment,
}

impl<'a> Conductor<'a> {
    pub(crate) fn new(
        stage: &Rc<Stage>,
        lines: &'a [Rc<Line>],
        live: Option<&'a Live>,
        cpu: Option<&'a Cpu>,
    ) -> Self {
        let look_at = stage.start;
        Self { stage: Rc::clone(stage), lines, live, cpu, arrived: 0, look_at }
    }

    /// Goes on until it is dropped.
    pub(crate) async fn conduct(mut self) {
        loop {
            let now = self.stage.clock.now();
            let due = self.arrive(now);
            if now >= self.look_at {
                self.look(now);
            }
            let next = due.map_or(self.look_at, |due| due.min(self.look_at));
            wait(next.since(now).into(), due.is_some()).await;
        }
    }

    /// Gives every request that is due to the next connection in turn, and says when another is.
    fn arrive(&mut self, now: Moment) -> Option<Moment> {
        let rate = self.stage.step.rate?;
        let count = u64::try_from(self.lines.len()).unwrap_or(1);
        loop {
            let due = self.stage.due(self.arrived, rate);
            if self.stage.is_over(due) {
                return None;
            }
            if due > now {
                return Some(due);
            }
            let index = usize::try_from(self.arrived % count).unwrap_or(0);
            let line = &self.lines[index];
            line.arrived.set(line.arrived.get() + 1);
            line.wake.notify_one();
            self.arrived += 1;
        }
    }

    fn look(&mut self, now: Moment) {
        let (stage, patience) = (&self.stage, self.stage.target.timeout);
        for line in self.lines {
            let is_late = line.oldest.get().is_some_and(|sent| sent.after(patience) <= now);
            if is_late || stage.is_over(now) {
                line.wake.notify_one();
            }
        }
        if let Some(live) = self.live {
            live.show(stage, now);
        }
        if let Some(cpu) = self.cpu {
            cpu.look(&stage.window, now);
        }
        let window = stage.window;
        let edges = [window.begin, window.end].into_iter().filter(|edge| *edge > now);
        self.look_at = edges.fold(now.after(LOOK_EVERY), Moment::min);
    }
}

/// Sleeps, or if it is not worth it lets the others work.
async fn wait(length: Duration, is_exact: bool) {
    match length.checked_sub(COARSE) {
        _ if !is_exact => tokio::time::sleep(length).await,
        Some(length) if !length.is_zero() => tokio::time::sleep(length).await,
        _ => tokio::task::yield_now().await,
    }
}
