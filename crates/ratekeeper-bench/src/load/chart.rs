//! A run as a picture: how long answers took; or of several runs, throughput against latency.

mod canvas;
mod scale;
#[cfg(test)]
mod tests;

use super::report::{Percentiles, Report, time_of};
use super::tally::Latencies;
use crate::deviation::as_f64;
use canvas::{Anchor, BOTTOM, Canvas, LEFT, RIGHT, TOP};
use scale::Scale;

/// How many bars a histogram has.
const BARS: u32 = 66;
/// The least latency that is drawn apart, in microseconds.
const MICROS_MIN: f64 = 0.1;

/// How wide the name of a percentile is, in pixels.
const NAME_WIDTH: f64 = 100.0;

/// How often answers took how long. Both axes are logarithmic: the few that took long matter.
pub(crate) fn histogram(report: &Report, latencies: &Latencies) -> String {
    let title =
        format!("{} {}: {:.0} requests per second", report.target, report.server, report.rate);
    let mut canvas = Canvas::new(&title, &format!("{}; {}", report.request, report.pace()));
    let micros = |nanos: u64| (as_f64(nanos) / 1e3).max(MICROS_MIN);
    let across = Scale::log(micros(latencies.min()), micros(latencies.max()), LEFT, RIGHT);
    let bars = bars(&across, latencies);
    let most = bars.iter().map(|(_, _, count)| *count).max().unwrap_or(1);
    let up = Scale::log(1.0, as_f64(most.max(2)), BOTTOM, TOP);
    canvas.axis_below(&across, "latency", length);
    canvas.axis_left(&up, "requests", short);
    for (low, high, count) in bars.into_iter().filter(|(_, _, count)| *count > 0) {
        // A single one is still to be seen.
        let top = up.place(as_f64(count)).min(BOTTOM - 2.0);
        canvas.bar(across.place(low) + 0.5, across.place(high) - 0.5, top);
    }
    mark(&mut canvas, &across, &report.latency_us);
    canvas.finish()
}

/// Lines at the percentiles. The rightmost has its name on top and to its left, so that no line
/// crosses the name of another.
fn mark(canvas: &mut Canvas, across: &Scale, latency: &Percentiles) {
    let marks = [("p99.9", latency.p99_9), ("p99", latency.p99), ("p50", latency.p50)];
    for (index, (name, micros)) in (0_u8..).zip(marks) {
        let (x, y) = (across.place(micros), TOP + 14.0 * f64::from(index));
        canvas.line("mark", (x, y - 8.0), (x, BOTTOM));
        let is_near = x < LEFT + NAME_WIDTH;
        let (x, anchor) = if is_near { (x + 5.0, Anchor::Start) } else { (x - 5.0, Anchor::End) };
        canvas.words("warm", (x, y), anchor, &format!("{name} {}", time_of(micros)));
    }
}

/// Bars of equal width on the axis, in microseconds, and how many answers each stands for.
fn bars(across: &Scale, latencies: &Latencies) -> Vec<(f64, f64, u64)> {
    let edge = |index: u32| across.number(f64::from(index) / f64::from(BARS));
    let mut bars: Vec<_> = (0..BARS).map(|index| (edge(index), edge(index + 1), 0)).collect();
    let last = bars.len() - 1;
    for value in latencies.iter_recorded() {
        let micros = as_f64(value.value_iterated_to()) / 1e3;
        let index = bars.partition_point(|(_, high, _)| *high < micros).min(last);
        bars[index].2 += value.count_at_value();
    }
    bars
}

/// What each step of a sweep came to: how many per second, and how long they took.
pub(crate) fn curve(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let title = format!("{} {}: throughput against latency", first.target, first.server);
    let mut canvas = Canvas::new(&title, &format!("{}; {}", first.request, swept(first)));
    let fastest = reports.iter().map(|report| report.rate).fold(1.0, f64::max);
    let latency = |pick: fn(&Report) -> f64| reports.iter().map(pick).map(|it| it.max(MICROS_MIN));
    let low = latency(|report| report.latency_us.p50).fold(f64::INFINITY, f64::min);
    let high = latency(|report| report.latency_us.p99).fold(0.0, f64::max);
    // A little more than the fastest, so that its label has room.
    let across = Scale::linear(fastest * 1.04, LEFT, RIGHT);
    let up = Scale::log(low, high, BOTTOM, TOP);
    canvas.axis_below(&across, "requests per second", short);
    canvas.axis_left(&up, "latency", length);
    let points = |pick: fn(&Report) -> f64| -> Vec<(f64, f64)> {
        let place = |report: &Report| (across.place(report.rate), up.place(pick(report)));
        reports.iter().map(place).collect()
    };
    let (half, most) = (points(|it| it.latency_us.p50), points(|it| it.latency_us.p99));
    canvas.curve("one", &half);
    canvas.curve("two", &most);
    for ((x, y), report) in half.iter().zip(reports) {
        let label = report.rate_wanted.map_or(report.depth.to_string(), |rate| short(as_f64(rate)));
        canvas.words("", (*x, y + 18.0), Anchor::Middle, &label);
    }
    for (class, points, name) in [("", &half, "p50"), ("warm", &most, "p99")] {
        if let Some((x, y)) = points.first() {
            canvas.words(class, (x + 8.0, y - 8.0), Anchor::Start, name);
        }
    }
    canvas.finish()
}

fn swept(report: &Report) -> String {
    let connections = report.connections;
    match report.rate_wanted {
        None => format!("{connections} connections, each point a depth"),
        Some(_) => format!("{connections} connections, each point a rate that was asked for"),
    }
}

/// A number as it stands at an axis: 200, 50 k, 2 M.
fn short(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{} M", round(number / 1e6)),
        number if number >= 1e4 => format!("{} k", round(number / 1e3)),
        number => round(number).to_string(),
    }
}

/// A number of microseconds as it stands at an axis: 200 us, 5 ms, 1 s.
fn length(micros: f64) -> String {
    match micros {
        micros if micros < 999.5 => format!("{} us", round(micros)),
        micros if micros < 999_500.0 => format!("{} ms", round(micros / 1e3)),
        micros => format!("{} s", round(micros / 1e6)),
    }
}

/// Without what is left of a sum of fractions.
fn round(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
