//! One run.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ratekeeper::{Clock, Nanos};
use ratekeeper_client::Failure;
use ratekeeper_console::shown;
use ratekeeper_server::{Lookout, polling};
use tokio::task::{JoinSet, LocalSet};

use super::conductor::Conductor;
use super::cpu::Cpu;
use super::datagram::{Batches, Poster};
use super::live::Live;
use super::opening::Opened;
use super::record::{DECISIONS_MAX, Record};
use super::stage::{Asker, Line, Stage};
use super::stream::Caller;
use super::tally::{Tally, Window};
use super::target::{Step, Target};
use crate::error::BenchError;

/// What is measured, and for how long.
pub(crate) struct Run<'a> {
    pub(crate) target: &'a Target,
    pub(crate) step: Step,
    /// How long requests are sent that do not count.
    pub(crate) warm_up: Nanos,
    pub(crate) length: Nanos,
    /// Whether every decision is recorded.
    pub(crate) is_recorded: bool,
}

/// What came of it.
pub(crate) struct Measured {
    pub(crate) target: Target,
    pub(crate) step: Step,
    pub(crate) warm_up: Nanos,
    pub(crate) tally: Tally,
    pub(crate) reconnects: u64,
    /// Connections that were lost for good.
    pub(crate) broken: usize,
    /// Why the first connection was lost, if one was.
    pub(crate) failure: Option<Failure>,
    /// What the server's process used.
    pub(crate) cpu: Option<Duration>,
}

impl Run<'_> {
    /// Connects, asks and counts. Refuses if nobody answers, or nobody decides.
    pub(crate) fn measure(&self, live: Option<&Live>) -> Result<Measured, BenchError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(BenchError::Runtime)?;
        // Names are looked up once, and before anything is measured.
        let addresses: Rc<[SocketAddr]> = self.target.server.addresses()?.into();
        let tasks = LocalSet::new();
        let going = tasks.run_until(self.go(&addresses, live));
        if self.target.spin {
            let clock = Clock::start();
            // Longer than any run.
            let lookout = Lookout::new(Nanos::from_secs(u64::MAX));
            return runtime.block_on(polling(going, &lookout, || clock.now()));
        }
        runtime.block_on(going)
    }

    async fn go(
        &self,
        addresses: &Rc<[SocketAddr]>,
        live: Option<&Live>,
    ) -> Result<Measured, BenchError> {
        let cpu = self.target.pid.map(Cpu::of).transpose().map_err(|error| self.pid(error))?;
        let opened = self.target.open(addresses).await?;
        if let Some(live) = live {
            live.announce();
        }
        let stage = Rc::new(self.stage(live));
        let lines: Vec<Rc<Line>> = (0..self.target.connections).map(|_| Rc::default()).collect();
        let tasks = start(opened, &stage, &lines, addresses);
        let conductor = Conductor::new(&stage, &lines, live, cpu.as_ref());
        let failures = tokio::select! {
            failures = finish(tasks) => failures,
            () = conductor.conduct() => Vec::new(),
        };
        let now = stage.clock.now();
        let is_early = !stage.is_over(now);
        stage.count_unsent(&lines, now);
        let window = stage.tally.borrow_mut().end(now);
        let used = cpu.map(|cpu| {
            // The last connection may have been done before anybody looked.
            cpu.look(&window, now);
            cpu.used()
        });
        let cpu = match used {
            // A server that is gone is told of in another way.
            Some(Err(_)) if is_early => None,
            used => used.transpose().map_err(|error| self.pid(error))?,
        };
        self.conclude(&stage, failures, cpu)
    }

    fn stage(&self, live: Option<&Live>) -> Stage {
        let clock = Clock::start();
        let start = clock.now();
        let begin = start.after(self.warm_up);
        let window = Window { begin, end: begin.after(self.length) };
        let tally = Tally::new(window, live.is_some_and(Live::is_seen));
        let record = self.is_recorded.then(|| Record::new(start, DECISIONS_MAX));
        Stage {
            clock,
            target: self.target.clone(),
            step: self.step,
            start,
            window,
            tally: RefCell::new(tally.recording(record)),
            reconnects: Cell::default(),
            looked: Cell::default(),
            first_failure: RefCell::default(),
        }
    }

    fn conclude(
        &self,
        stage: &Stage,
        failures: Vec<Failure>,
        cpu: Option<Duration>,
    ) -> Result<Measured, BenchError> {
        let broken = failures.len();
        for failure in failures {
            stage.note(failure);
        }
        let failure = stage.first_failure.take();
        let tally = stage.tally.replace(Tally::new(stage.window, false));
        let server = || self.target.server.clone();
        match (failure, tally.counts) {
            (Some(failure), counts) if counts.answered() == 0 => Err(failure.into()),
            (None, counts)
                if counts.sent == 0 && counts.unsent == 0 && self.step.rate.is_some() =>
            {
                Err(BenchError::NothingDue { length: self.length })
            }
            (None, counts) if counts.answered() == 0 => {
                Err(BenchError::NoAnswer { server: server(), count: counts.sent })
            }
            (_, counts) if counts.errors == counts.answered() => {
                let first = shown(&tally.first_error.unwrap_or_default());
                Err(BenchError::AllErrors { server: server(), count: counts.errors, first })
            }
            (failure, _) => Ok(Measured {
                target: self.target.clone(),
                step: self.step,
                warm_up: self.warm_up,
                tally,
                reconnects: stage.reconnects.get(),
                broken,
                failure,
                cpu,
            }),
        }
    }

    fn pid(&self, source: std::io::Error) -> BenchError {
        BenchError::Pid { pid: self.target.pid.unwrap_or_default(), source }
    }
}

/// Lets every connection go.
fn start(
    opened: Opened,
    stage: &Rc<Stage>,
    lines: &[Rc<Line>],
    addresses: &Rc<[SocketAddr]>,
) -> JoinSet<Result<(), Failure>> {
    let mut tasks = JoinSet::new();
    let askers = (0..).zip(lines).map(|(index, line)| Asker::new(stage, line, index));
    match opened {
        Opened::Streams(streams, wire) => {
            for (asker, stream) in askers.zip(streams) {
                tasks.spawn_local(Caller::new(asker, &wire, addresses).run(stream));
            }
        }
        Opened::Datagrams(sockets, wire) => {
            let segments = stage.target.door.segments();
            let batches = Rc::new(RefCell::new(Batches::new(segments)));
            for (asker, socket) in askers.zip(sockets) {
                tasks.spawn_local(Poster::new(asker, &wire, &batches).run(socket));
            }
        }
    }
    tasks
}

/// Waits until every connection is done, and tells which were lost.
async fn finish(mut tasks: JoinSet<Result<(), Failure>>) -> Vec<Failure> {
    let mut failures = Vec::new();
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => failures.push(failure),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
    failures
}
