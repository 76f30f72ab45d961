use super::*;

#[test]
fn what_is_not_an_answer_is_nonsense() {
    let rate = |text: &str| Value::BulkString(text.into());
    let fine = Value::Array(vec![Value::Int(1), Value::Int(0), rate("2.5")]);
    assert!(read(&fine).is_ok());
    for reply in [
        Value::Nil,
        Value::Array(vec![]),
        Value::Array(vec![Value::Int(1), Value::Int(0)]),
        Value::Array(vec![Value::Int(-1), Value::Int(0), rate("2.5")]),
        Value::Array(vec![Value::Int(1), Value::Int(0), rate("nan")]),
        Value::Array(vec![Value::Int(1), Value::Int(0), rate("much")]),
    ] {
        assert!(matches!(read(&reply), Err(Failure::Nonsense(_))), "{reply:?}");
    }
}
