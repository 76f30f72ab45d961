use super::*;

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= expected.abs() / 1e6, "{found} for {expected}");
    }
}

#[test]
fn a_logarithmic_axis_begins_and_ends_at_round_numbers() {
    let scale = Scale::log(13.0, 410.0, 0.0, 100.0);
    near(&scale.ticks(), &[10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
    near(&[scale.place(10.0), scale.place(500.0)], &[0.0, 100.0]);
    near(&[scale.number(0.0), scale.number(1.0)], &[10.0, 500.0]);
    near(&Scale::log(1.0, 1e6, 0.0, 1.0).ticks(), &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
    near(&Scale::log(20.0, 20.0, 0.0, 1.0).ticks(), &[20.0]);
}

#[test]
fn a_linear_axis_begins_at_nothing_and_has_round_steps() {
    near(&Scale::linear(237.0, 0.0, 1.0).ticks(), &[0.0, 50.0, 100.0, 150.0, 200.0, 250.0]);
    let upwards = Scale::linear(100.0, 300.0, 0.0);
    near(&[upwards.place(0.0), upwards.place(50.0), upwards.place(100.0)], &[300.0, 150.0, 0.0]);
}
