use serde::Deserialize;

#[derive(Deserialize)]
struct Asked {
    #[serde(deserialize_with = "super::whole")]
    cost: u64,
}

fn cost(text: &str) -> Option<u64> {
    serde_json::from_str::<Asked>(&format!("{{\"cost\":{text}}}")).ok().map(|asked| asked.cost)
}

#[test]
fn a_number_is_whole_however_it_is_written() {
    let written =
        [("5", 5), ("5.0", 5), ("5e0", 5), ("0.05e2", 5), ("0", 0), ("0.0", 0), ("-0.0", 0)];
    for (text, number) in written {
        assert_eq!(cost(text), Some(number), "{text}");
    }
    assert_eq!(cost("18446744073709551615"), Some(u64::MAX));
    assert_eq!(cost("9007199254740992.0"), Some(1 << 53));
}

#[test]
fn what_is_not_whole_or_would_be_rounded_is_refused() {
    let wrong = [
        "5.5",
        "-1",
        "-1.0",
        "1e300",
        "9007199254740994.0",
        "18446744073709551616",
        "null",
        "\"5\"",
    ];
    for text in wrong {
        assert_eq!(cost(text), None, "{text}");
    }
}
