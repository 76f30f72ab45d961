use super::*;

fn reply(left: &str, unit: &str, expires: i64, fraction: i64) -> Value {
    let text = |text: &str| Value::BulkString(text.into());
    let head = [Value::Int(5), Value::Int(7), Value::Int(1)];
    let tail = [text(left), text(unit), Value::Int(expires), Value::Int(fraction)];
    Value::Array(head.into_iter().chain(tail).collect())
}

#[test]
fn what_is_left_is_told_in_its_unit_to_the_last_of_64_bits() {
    let answer = read(&reply("18446744073709551615", "ms", 6, 7_000)).unwrap();
    let (can, unit) = (true, Unit::Milliseconds);
    assert_eq!(answer.outcome, Outcome { can, remaining: u64::MAX, unit, ttl: 999 });
}

#[test]
fn what_is_not_an_answer_is_nonsense() {
    for reply in [
        Value::Nil,
        Value::Array(vec![Value::Int(1)]),
        reply("18446744073709551616", "ms", 6, 0),
        reply("-1", "ms", 6, 0),
        reply("1", "days", 6, 0),
        reply("1", "s", -6, 0),
        reply("1", "s", i64::MAX, 0),
    ] {
        assert!(matches!(read(&reply), Err(Failure::Nonsense(_))), "{reply:?}");
    }
}
