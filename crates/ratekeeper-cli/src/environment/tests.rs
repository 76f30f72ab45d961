use super::*;

fn refused(name: &str, text: &str) -> Option<String> {
    let given = [("PATH".into(), "/bin".into()), (name.into(), text.into())].into();
    let refused = refuse_unknown(&given, &crate::args::variables());
    refused.err().map(|error| error.to_string())
}

#[test]
fn a_variable_that_nobody_reads_is_refused_with_the_nearest_that_somebody_does() {
    let told = refused("RATEKEEPER_LIMIT", "limits.yaml").unwrap();
    assert!(told.contains("`RATEKEEPER_LIMIT`"), "{told}");
    assert!(told.contains("did you mean `RATEKEEPER_LIMITS`?"), "{told}");
    assert!(refused("RATEKEEPER_PORT", "8080").is_some(), "somebody wanted a port");
    assert!(refused("RATEKEEPER_", "").is_some());
    for known in ["RATEKEEPER_LIMITS", "RATEKEEPER_TOKEN", "RATEKEEPER_CONFIG", "RATEKEEPER_URL"] {
        assert_eq!(refused(known, "x"), None);
    }
}

#[test]
fn the_threads_of_throttrs_container_are_workers() {
    let mut settings = Settings::default();
    set_threads(&mut settings, "4").unwrap();
    assert_eq!(settings.workers.map(usize::from), Some(4));
    set_threads(&mut settings, "").unwrap();
    assert_eq!(settings.workers.map(usize::from), Some(4));
    let refused = set_threads(&mut settings, "many").unwrap_err().with_causes();
    assert!(refused.contains("THREADS is `many`: expected a whole number"), "{refused}");
}

#[test]
fn what_kubernetes_says_of_a_service_is_no_setting() {
    for (name, text) in [
        ("RATEKEEPER_SERVICE_HOST", "10.0.0.1"),
        ("RATEKEEPER_SERVICE_PORT", "8080"),
        ("RATEKEEPER_SERVICE_PORT_HTTP_API", "8080"),
        ("RATEKEEPER_PORT", "tcp://10.0.0.1:8080"),
        ("RATEKEEPER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("RATEKEEPER_PORT_2000_UDP_PROTO", "udp"),
        ("RATEKEEPER_REDIS_PORT_6379_TCP_ADDR", "10.0.0.2"),
    ] {
        assert_eq!(refused(name, text), None, "{name}");
    }
}
