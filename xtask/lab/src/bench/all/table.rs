//! The table: for people at a terminal, and for a page.

use ratekeeper_bench::{Spread, digits};

use super::cases::{Comparison, Group};
use super::goal::{Metric, Sample, Verdict, ratio, verdict};
use super::measure::Measured;

/// What each column is about.
const HEAD: [&str; 13] = [
    "door",
    "load",
    "who",
    "per second",
    "CPU",
    "p50",
    "beside",
    "per second",
    "CPU",
    "p50",
    "ratio of",
    "goal",
    "",
];

/// One comparison, told.
pub(super) struct Row {
    cells: [String; 13],
    pub(super) verdict: Verdict,
    /// Why something was not measured.
    pub(super) notes: Vec<String>,
}

impl Row {
    /// The ratio, and what it has to be.
    pub(super) fn brief(&self) -> String {
        let [_, _, ours, _, _, _, theirs, _, _, _, ratio, goal, verdict] = &self.cells;
        let text = format!("{ours} beside {theirs}: {ratio} {goal} {verdict}");
        text.trim_end().to_owned()
    }
}

/// A row for each comparison.
pub(super) fn rows(group: &Group, measured: &[Measured]) -> Vec<Row> {
    group.comparisons.iter().map(|comparison| row(group, comparison, measured)).collect()
}

fn row(group: &Group, comparison: &Comparison, measured: &[Measured]) -> Row {
    let Comparison { ours, theirs, metric, bound } = *comparison;
    let find = |name| measured.iter().find(|it| it.name == name);
    let samples = |name| find(name).and_then(|it| it.samples.as_deref().ok()).unwrap_or_default();
    let (mine, other) = (samples(ours), samples(theirs));
    let ratio = ratio(metric, mine, other);
    let verdict = verdict(bound, ratio);
    let failed = [ours, theirs].into_iter().filter_map(|name| {
        let error = find(name)?.samples.as_ref().err()?;
        Some(format!("{}, {}, {name}: {error}", group.door, group.load))
    });
    let shown = ratio.map_or("-".into(), |ratio| ratio_text(metric, ratio));
    let [rate, cpu, p50] = numbers(mine);
    let [other_rate, other_cpu, other_p50] = numbers(other);
    let (door, load) = (group.door.to_owned(), group.load.clone());
    let (ours, theirs) = (ours.to_owned(), theirs.to_owned());
    let (bound, last) = (bound.to_string(), verdict.to_string());
    let cells = [
        door, load, ours, rate, cpu, p50, theirs, other_rate, other_cpu, other_p50, shown, bound,
        last,
    ];
    Row { cells, verdict, notes: failed.collect() }
}

fn ratio_text(metric: Metric, ratio: Spread) -> String {
    let Spread { median, lower, upper, .. } = ratio;
    format!("{metric}: {} ({} to {})", digits(median), digits(lower), digits(upper))
}

/// The middle rate, processor time and latency.
fn numbers(samples: &[Sample]) -> [String; 3] {
    let middle = |metric: Metric| {
        Spread::of(samples.iter().map(|sample| metric.of(sample))).map(|it| it.median)
    };
    let shown = |number: Option<f64>, show: fn(f64) -> String| number.map_or("-".into(), show);
    [
        shown(middle(Metric::Rate), thousands),
        shown(middle(Metric::Cpu), |micros| format!("{} ns", thousands(micros * 1e3))),
        shown(middle(Metric::P50), |micros| format!("{} us", digits(micros))),
    ]
}

/// A whole number with commas.
fn thousands(number: f64) -> String {
    let text = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// For a terminal: columns that are as wide as they have to be.
pub(super) fn text(rows: &[Row]) -> String {
    let heads = HEAD.map(str::to_owned);
    let lines: Vec<&[String; 13]> =
        std::iter::once(&heads).chain(rows.iter().map(|row| &row.cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: [usize; 13] = std::array::from_fn(width);
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// For a page.
pub(super) fn markdown(rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head = line(&HEAD.map(str::to_owned));
    let rule = format!("|{}\n", "---|".repeat(HEAD.len()));
    [head, rule].into_iter().chain(rows.iter().map(|row| line(&row.cells))).collect()
}

#[cfg(test)]
mod tests;
