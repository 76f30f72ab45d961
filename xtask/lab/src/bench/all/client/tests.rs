use super::*;

fn report(errors: u32, denied: u32) -> String {
    format!(
        r#"{{"rate":5.0,"errors":{errors},"first_error":"no","latency_us":{{"p50":2.0}},
            "requests":200,"denied":{denied},"cpu_us_per_request":0.5}}"#
    )
}

#[test]
fn a_report_is_no_measurement_if_more_than_one_in_a_hundred_was_denied() {
    assert!(sample(&report(0, 2)).is_ok());
    let error = sample(&report(0, 3)).unwrap_err().to_string();
    assert_eq!(error, "3 of 200 were denied: the limit is too small");
}

#[test]
fn a_report_is_read_and_errors_are_no_measurement() {
    let good = sample(&report(0, 0)).unwrap();
    assert_eq!((good.rate, good.p50, good.cpu), (5.0, 2.0, 0.5));
    assert!(sample(&report(1, 0)).unwrap_err().to_string().contains("\"no\""));
    assert!(sample("{}").is_err() && sample("").is_err());
}
