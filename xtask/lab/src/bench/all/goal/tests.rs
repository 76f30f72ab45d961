use super::*;

fn samples(cpus: &[f64]) -> Vec<Sample> {
    cpus.iter().map(|cpu| Sample { rate: 1e6 / cpu, p50: 3.0 * cpu, cpu: *cpu }).collect()
}

#[test]
fn a_ratio_is_made_of_the_runs_of_one_round() {
    let (ours, theirs) = (samples(&[2.0, 20.0, 2.0]), samples(&[1.0, 10.0, 4.0]));
    let middle = |metric| ratio(metric, &ours, &theirs).unwrap().median.to_string();
    assert_eq!([Metric::Cpu, Metric::P50].map(middle), ["2", "2"]);
    assert_eq!([Metric::Rate, Metric::PerCpu].map(middle), ["0.5", "0.5"]);
    assert!(ratio(Metric::Cpu, &ours, &[]).is_none());
}

#[test]
fn the_middle_ratio_decides_and_a_bound_may_be_met_exactly() {
    let spread = |median| Some(Spread { median, lower: 0.0, upper: 9.0, min: 0.0, max: 9.0 });
    assert_eq!(verdict(Bound::AtLeast(0.9), spread(0.9)), Verdict::Ok);
    assert_eq!(verdict(Bound::AtLeast(0.9), spread(0.89)), Verdict::Missed);
    assert_eq!(verdict(Bound::AtMost(2.0), spread(2.0)), Verdict::Ok);
    assert_eq!(verdict(Bound::AtMost(2.0), spread(2.1)), Verdict::Missed);
    assert_eq!(verdict(Bound::AtMost(2.0), None), Verdict::NotMeasured);
    assert_eq!(verdict(Bound::Any, None), Verdict::None);
}
