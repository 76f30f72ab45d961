//! The pictures, as far as a machine can look at them.

use super::*;
use crate::load::report::report_for_tests;
use crate::load::tally::latencies;

fn report(depth: usize, rate: f64) -> Report {
    Report { depth, ..report_for_tests(rate) }
}

/// Every number of these attributes, in the order of the text.
fn numbers(svg: &str, name: &str) -> Vec<f64> {
    let before = format!(" {name}=\"");
    let parts = svg.split(&before).skip(1);
    parts.map(|part| part.split('"').next().unwrap().parse().unwrap()).collect()
}

fn assert_drawn(svg: &str) {
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.contains("GET &lt;&amp;{key}&gt;"), "what was asked is text: {svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
    for name in ["x", "x1", "x2", "cx"] {
        assert!(numbers(svg, name).iter().all(|x| (0.0..=760.0).contains(x)), "{name}: {svg}");
    }
    for name in ["y", "y1", "y2", "cy", "height"] {
        assert!(numbers(svg, name).iter().all(|y| (0.0..=420.0).contains(y)), "{name}: {svg}");
    }
}

#[test]
fn a_histogram_stands_on_its_axes_and_counts_every_answer() {
    let mut taken = latencies();
    for nanos in [0, 900, 50_000, 50_100, 60_000, 900_000_000, u64::MAX] {
        taken.saturating_record(nanos);
    }
    let svg = histogram(&report(1, 5_000.0), &taken);
    assert_drawn(&svg);
    for words in [">latency<", ">requests<", ">p50 50.0 us<", ">p99.9 450 us<", ">100 us<"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    let across = Scale::log(0.1, 6e8, 0.0, 1.0);
    let counted: u64 = bars(&across, &taken).iter().map(|(_, _, count)| count).sum();
    assert_eq!(counted, taken.len());
}

#[test]
fn a_run_of_equal_latencies_is_drawn_too() {
    let mut taken = latencies();
    taken.saturating_record(1_000);
    assert_drawn(&histogram(&report(1, 5_000.0), &taken));
}

#[test]
fn a_sweep_has_a_point_for_each_step() {
    let reports = [report(1, 10_000.0), report(16, 150_000.0), report(64, 300_000.0)];
    let svg = curve(&reports);
    assert_drawn(&svg);
    assert_eq!(svg.matches("<circle").count(), 6);
    for words in [">1<", ">16<", ">64<", ">requests per second<", ">200 k<", ">p50<", ">p99<"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
}

#[test]
fn numbers_at_an_axis_are_short() {
    let written = [0.0, 0.3, 200.0, 5_000.0, 50_000.0, 1_500_000.0].map(short);
    assert_eq!(written, ["0", "0.3", "200", "5000", "50 k", "1.5 M"]);
    let written = [0.1, 200.000_000_1, 2_000.0, 1e6].map(length);
    assert_eq!(written, ["0.1 us", "200 us", "2 ms", "1 s"]);
}
