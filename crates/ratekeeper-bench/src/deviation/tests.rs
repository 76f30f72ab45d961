use super::*;

#[test]
fn goals_have_no_more_digits_than_are_told_apart() {
    let goals = [
        (1.0, "1"),
        (500.0, "500"),
        (919.999_999_999_993_1, "920"),
        (109.999_999_999_999_8, "110"),
        (1.0 / 0.6, "1.66667"),
        (1.0 / 3_600.0, "0.00027778"),
        (123_456_789.0, "123456789"),
    ];
    for (goal, words) in goals {
        assert_eq!(rounded(goal), words);
        assert!(words.len() <= WIDTH);
    }
}
