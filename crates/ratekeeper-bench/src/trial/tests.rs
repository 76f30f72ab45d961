use super::*;

#[test]
fn nothing_is_told_of_a_time_in_which_no_token_comes_back() {
    let rows = [
        (0.0, 0.0, "-"),
        (1.0, 0.0, "-"),
        (0.0, 4.0, "-100.00"),
        (5.0, 4.0, "25.00"),
        (99_999.0, 100_000.0, "0.00"),
    ];
    for (refill, exact, told) in rows {
        assert_eq!(deviation(refill, exact), told, "{refill} {exact}");
    }
}

#[test]
fn a_row_without_the_fill_has_what_came_back_and_what_should_have() {
    let goal = Goal { name: BucketName::parse("a").unwrap(), rate: 0.5, fill: 20 };
    let row = |time, granted| Tried { goal: &goal, time, asked: 600, granted }.without_fill();
    assert!(row(1.0, 20).ends_with("|          0 |          0 |          - |"));
    assert!(row(10.0, 26).ends_with("|          6 |          5 |      20.00 |"));
}

#[test]
fn only_what_was_asked_for_is_judged() {
    let goal = Goal { name: BucketName::parse("c").unwrap(), rate: 500.0, fill: 500 };
    let row = |asked| Tried { goal: &goal, time: 0.33, asked, granted: asked }.without_fill();
    assert!(row(600).ends_with("|        500 |        100 |        100 |       0.00 |"));
    assert!(row(200).ends_with("|        200 |          0 |          0 |          - |"));
}
