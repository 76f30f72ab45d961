use super::*;

const HEAD: &str = r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms""#;

#[test]
fn the_row_is_read_by_the_names_in_the_head() {
    let text = format!(
        "{HEAD}\n\"GET a\",\"75187.97\",\"0.34\",\"0.1\",\"0.33\",\"0.5\",\"0.6\",\"1.0\"\n"
    );
    assert_eq!(read(&text).unwrap(), Row { rate: 75_187.97, p50: 0.33 });
}

#[test]
fn a_command_may_have_commas_and_quotes_in_it() {
    assert_eq!(fields(r#""a,b","c""d",e"#), ["a,b", "c\"d", "e"]);
    assert_eq!(fields(""), [""]);
}

#[test]
fn what_is_no_table_is_refused() {
    assert!(read("").is_err());
    assert!(read("Error from server: ERR unknown command").is_err());
    assert!(read(HEAD).is_err());
    assert!(read("\"test\",\"rps\"\n\"GET\",\"5\"").is_err());
    assert!(read(&format!("{HEAD}\n\"GET\",\"x\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"")).is_err());
}
