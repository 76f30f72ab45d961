//! All contenders of a group, in turns.

use std::collections::BTreeSet;

use super::cases::{Contender, Group};
use super::client::{self, Seeds, Timing};
use super::goal::Sample;
use super::servers::{Kind, Servers};

/// What a contender did in every round, or why it is not known.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) samples: Result<Vec<Sample>, String>,
}

/// What was done before, in other groups.
#[derive(Default)]
pub(super) struct Past {
    /// What servers were filled with.
    known: BTreeSet<String>,
    /// Who was measured at least once.
    measured: Vec<Kind>,
    seeds: Seeds,
}

impl Past {
    pub(super) fn was_measured(&self, kind: Kind) -> bool {
        self.measured.contains(&kind)
    }
}

/// Fills in the keys, and then measures one after the other: forth in one round, back in the next, so
/// that whatever else the machine does falls on all. In a round all ask for the same keys. Who cannot be measured is left out.
pub(super) fn group(
    servers: &mut Servers,
    group: &Group,
    timing: Timing,
    past: &mut Past,
) -> Vec<Measured> {
    let mut field: Vec<_> =
        group.contenders.iter().map(|it| Runner::new(servers, it, past)).collect();
    for round in 0..timing.rounds {
        let seed = past.seeds.draw();
        let mut order: Vec<_> = field.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for runner in order {
            runner.run(servers, timing, seed);
        }
    }
    let good = field.iter().filter(|runner| runner.samples.is_ok());
    past.measured.extend(good.map(|runner| runner.contender.kind));
    let done = field.into_iter();
    done.map(|runner| Measured { name: runner.contender.name, samples: runner.samples }).collect()
}

struct Runner<'a> {
    contender: &'a Contender,
    /// How fast it will be, about.
    rate: f64,
    samples: Result<Vec<Sample>, String>,
}

impl<'a> Runner<'a> {
    /// Has the server know the keys, unless it does already.
    fn new(servers: &mut Servers, contender: &'a Contender, past: &mut Past) -> Self {
        let filler = contender.filler();
        let is_new = past.known.insert(filler.to_string());
        let ready = if is_new { client::fill(servers, &filler, &mut past.seeds) } else { Ok(()) };
        let tried = ready.and_then(|()| client::try_out(servers, contender));
        let rate = tried.as_ref().copied().unwrap_or_default();
        let samples = tried.map(|_| Vec::new()).map_err(|error| error.to_string());
        Self { contender, rate, samples }
    }

    fn run(&mut self, servers: &mut Servers, timing: Timing, seed: u64) {
        let Ok(samples) = &mut self.samples else { return };
        match client::run(servers, self.contender, timing, seed, self.rate) {
            Ok(sample) => samples.push(sample),
            Err(error) => self.samples = Err(error.to_string()),
        }
    }
}
