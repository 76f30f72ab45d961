use super::*;

#[test]
fn an_argument_says_before_the_environment_how_the_log_is_written() {
    let asked = is_json_log_asked_by;
    assert_eq!(asked(&["serve", "--log-format", "json", "--nonsense"], None), Some(true));
    assert_eq!(asked(&["serve", "--nonsense", "--log-format=json"], Some("text")), Some(true));
    assert_eq!(asked(&["serve", "--log-format", "text"], Some("json")), Some(false));
    assert_eq!(asked(&["serve", "--nonsense"], Some("json")), Some(true));
    assert_eq!(asked(&["serve"], None), None);
    assert_eq!(asked(&["check", "--log-format", "json"], Some("json")), None);
}
