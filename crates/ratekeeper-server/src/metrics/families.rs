//! Every family of metrics: its name, what it says, and its labels.

use std::fmt::Result;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use super::{Decisions, Holding, Scrape, VERDICTS};
use crate::counters::DoorStats;
use crate::latency::BOUNDS;

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let mut families = Families(encoder);
        self.process(&mut families)?;
        self.decisions(&mut families)?;
        self.requests(&mut families)?;
        self.connections(&mut families)?;
        self.durations(&mut families)?;
        self.stores(&mut families)?;
        self.holdings(&mut families)?;
        self.shared(&mut families)
    }
}

impl Scrape {
    fn process(&self, families: &mut Families<'_>) -> Result {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        families.info("build", "The program that runs", &version)?;
        families.gauge("start_time_seconds", "When it started, since 1970", &self.started_secs)?;
        families.gauge("uptime_seconds", "How long it has been running", &self.uptime_secs)?;
        let is_ready = u32::from(self.is_ready);
        families.gauge(
            "ready",
            "1 while requests are answered, 0 from when the end begins",
            &is_ready,
        )?;
        let since = self.configured_secs;
        families.gauge("configured_time_seconds", "Since when it does what it does now", &since)?;
        families.gauge("configured_limits", "Limits and buckets in force", &self.limits)?;
        let overrides = self.overrides.iter().map(|(it, count)| ([("source", *it)], *count));
        families.gauges("configured_overrides", "Overrides there are", overrides)?;
        let reloads = [self.reloads.done, self.reloads.failed];
        families.results(
            "reloads",
            "Files that were read again, and took effect or not",
            reloads,
        )?;
        let saves = [self.saves.done, self.saves.failed];
        families.results("saves", "Times that what was spent was to be saved", saves)
    }

    fn decisions(&self, families: &mut Families<'_>) -> Result {
        let help = "Spends and checks that were decided by limits; those of limits that are too \
                    many to be named are together, with the label others";
        let series = self.decisions.iter().flat_map(|it| {
            let Decisions { limit, door, rulings } = it;
            let counts = [rulings.allowed, rulings.denied, rulings.shadow];
            VERDICTS.into_iter().zip(counts).map(move |(verdict, count)| {
                let mut labels = vec![("limit", limit.as_deref().unwrap_or_default())];
                if limit.is_none() {
                    labels.push(("others", "true"));
                }
                labels.extend([("door", *door), ("verdict", verdict)]);
                (labels, count)
            })
        });
        families.counters("decisions", help, series)
    }

    fn requests(&self, families: &mut Families<'_>) -> Result {
        families.counters(
            "requests",
            "Requests that were understood",
            self.by_door(|counts| counts.requests),
        )?;
        let answers = self.doors.iter().flat_map(|(door, counts, _)| {
            let verdicts = [("allowed", counts.allowed), ("denied", counts.denied)];
            verdicts.map(|(verdict, count)| ([("door", *door), ("verdict", verdict)], count))
        });
        families.counters(
            "requests_answered",
            "Requests that were allowed or denied, by whatever decides at the door",
            answers,
        )?;
        families.counters(
            "requests_malformed",
            "Requests that were not understood",
            self.by_door(|counts| counts.malformed),
        )?;
        families.counters(
            "requests_ignored",
            "Requests that were not answered: too long, or from who may not ask",
            self.by_door(|counts| counts.ignored),
        )
    }

    fn connections(&self, families: &mut Families<'_>) -> Result {
        families.gauges(
            "connections",
            "Connections that are open",
            self.by_door(|counts| counts.connections),
        )?;
        families.counters(
            "connections_accepted",
            "Connections there have been",
            self.by_door(|counts| counts.accepted),
        )?;
        families.counters(
            "connections_refused",
            "Connections that were refused: too many, or from who may not connect",
            self.by_door(|counts| counts.refused),
        )?;
        families.counters(
            "dropped",
            "Connections whose client did not read or ask in time, and answers that could not be sent",
            self.by_door(|counts| counts.dropped),
        )
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds are told as near as a double can")]
    fn durations(&self, families: &mut Families<'_>) -> Result {
        let help = "How long answers took, from the read that brought their requests until they \
                    were written; all requests of one read took as long as all; at the HTTP door, from \
                    the whole request until its answer was ready";
        let (name, kind) = ("request_duration_seconds", MetricType::Histogram);
        let mut encoder = families.0.encode_descriptor(name, help, None, kind)?;
        // The encoder writes the greatest number as infinity.
        let bounds = BOUNDS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::MAX]);
        for (door, _, took) in &self.doors {
            let buckets: Vec<(f64, u64)> = bounds.clone().zip(took.buckets).collect();
            let labels = [("door", *door)];
            let mut encoder = encoder.encode_family(&labels)?;
            let sum = took.nanos as f64 / 1e9;
            encoder.encode_histogram::<NoLabelSet>(sum, took.requests(), &buckets, None)?;
        }
        Ok(())
    }

    fn stores(&self, families: &mut Families<'_>) -> Result {
        let stores = || self.stores.iter().map(|(name, held)| ([("store", *name)], held));
        let keys = stores().map(|(store, held)| (store, held.keys));
        families.gauges("store_keys", "Keys that a store holds", keys)?;
        let bytes = stores().map(|(store, held)| (store, held.bytes));
        families.gauges("store_bytes", "Memory that they take", bytes)?;
        let bytes_max = stores().map(|(store, held)| (store, held.bytes_max));
        families.gauges("store_bytes_max", "Memory that they can take", bytes_max)?;
        let evictions = stores().map(|(store, held)| (store, held.tally.evicted));
        let help = "Keys that were forgotten for want of memory, although they owed something";
        families.counters("store_evictions", help, evictions)?;
        let forgiven = stores().map(|(store, held)| (store, held.tally.tokens_forgiven));
        families.counters("store_tokens_forgiven", "Tokens that they owed", forgiven)?;
        let turned_away = stores().map(|(store, held)| (store, held.tally.turned_away));
        let help = "Asks that were denied because nothing could be forgotten for them";
        families.counters("store_turned_away", help, turned_away)
    }

    fn holdings(&self, families: &mut Families<'_>) -> Result {
        let holdings = || self.holdings.iter().map(|it| (holder_labels(it), it));
        let keys = holdings().map(|(labels, it)| (labels, it.keys));
        let help = "Keys that a limit holds; those of limits that are too many to be named are \
                    together, with the label others";
        families.gauges("limit_keys", help, keys)?;
        let shares = holdings().map(|(labels, it)| (labels, it.share));
        let help = "Keys that it can hold at least, once memory is full";
        families.gauges("limit_share_keys", help, shares)?;
        let evictions = holdings().map(|(labels, it)| (labels, it.refused.evicted));
        let help =
            "Keys of it that were forgotten for want of memory, although they owed something";
        families.counters("limit_evictions", help, evictions)?;
        let turned_away = holdings().map(|(labels, it)| (labels, it.refused.turned_away));
        let help = "Asks of it that were denied because nothing could be forgotten for them";
        families.counters("limit_turned_away", help, turned_away)?;
        let share_full = holdings().map(|(labels, it)| (labels, it.refused.share_full));
        let help = "New keys of it that came when its share was full, and no key near them could be \
                    forgotten for free";
        families.counters("limit_share_full", help, share_full)?;
        let help = "Limits of which ids were forgotten or denied for want of memory, or whose share was \
                    full, in the last ten seconds";
        families.gauge("limits_under_pressure", help, &self.memory.shorts)
    }

    /// Nothing, where buckets are shared with nobody.
    fn shared(&self, families: &mut Families<'_>) -> Result {
        let Some(shared) = &self.shared else { return Ok(()) };
        let is_up = u32::from(shared.up);
        families.gauge("shared_store_up", "1 while the shared store answers, else 0", &is_up)?;
        let trips = [([("store", "redis")], shared.trips)].into_iter();
        families.counters("shared_store_trips", "Round trips to the shared store", trips)?;
        let asks = [
            ("store", shared.decided),
            ("denial", shared.remembered),
            ("lease", shared.leased),
            ("local", shared.local),
            ("allow", shared.let_through),
            ("deny", shared.turned_away),
        ];
        let asks = asks.into_iter().map(|(by, count)| ([("by", by)], count));
        let help = "Asks of shared buckets, by what decided them: the store, a denial that is \
                    remembered, tokens taken in advance, or while it is away what the limit says";
        families.counters("shared_store_asks", help, asks)?;
        let failures = shared.failures.iter().map(|(why, count)| ([("why", why.as_str())], *count));
        families.counters(
            "shared_store_failures",
            "Asks that the shared store did not answer",
            failures,
        )
    }

    fn by_door(&self, count: fn(&DoorStats) -> u64) -> impl Iterator<Item = (DoorLabel, u64)> {
        self.doors.iter().map(move |(door, counts, _)| ([("door", *door)], count(counts)))
    }
}

fn holder_labels(holding: &Holding) -> Vec<(&'static str, &str)> {
    let limit = ("limit", holding.limit.as_deref().unwrap_or_default());
    let others = holding.limit.is_none().then_some(("others", "true"));
    [("store", holding.store), limit].into_iter().chain(others).collect()
}

type DoorLabel = [(&'static str, &'static str); 1];

/// Writes families, each with its lines of help.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn info(&mut self, name: &str, help: &str, labels: &impl EncodeLabelSet) -> Result {
        self.0.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(labels)
    }

    fn gauge(&mut self, name: &str, help: &str, value: &impl EncodeGaugeValue) -> Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(value)
    }

    fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (L, V)>,
    ) -> Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            encoder.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (L, V)>,
    ) -> Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    /// What was done, and what failed.
    fn results(&mut self, name: &str, help: &str, [done, failed]: [u64; 2]) -> Result {
        let results = [("done", done), ("failed", failed)];
        self.counters(name, help, results.map(|(it, count)| ([("result", it)], count)).into_iter())
    }
}
