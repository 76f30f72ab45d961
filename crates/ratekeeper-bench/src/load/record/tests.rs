use super::*;

fn asked(sent: u64, key: u64) -> Asked {
    let sent = Moment::from_nanos(1_000 + sent);
    Asked { due: sent, sent, key, cost: 1 }
}

#[test]
fn decisions_are_kept_by_key_and_errors_are_none() {
    let mut record = Record::new(Moment::from_nanos(1_000), 10);
    record.answer(&asked(1, 7), Moment::from_nanos(1_005), &Answer::Allowed);
    record.answer(&asked(2, 3), Moment::from_nanos(1_006), &Answer::Denied);
    record.answer(&asked(2, 3), Moment::from_nanos(1_006), &Answer::Error(b"no"));
    record.lose(&asked(4, 7));
    assert_eq!((record.errors, record.answered, record.lost), (1, 2, 1));
    let decisions = record.by_key();
    let seen: Vec<Seen> = decisions.iter().map(Seen::from).collect();
    assert_eq!(decisions.iter().map(|it| it.key).collect::<Vec<_>>(), [3, 7, 7]);
    assert_eq!(seen[0], Seen { sent: 2, received: 6, said: Said::Denied });
    assert!(seen.contains(&Seen { sent: 1, received: 5, said: Said::Allowed }));
    assert!(seen.contains(&Seen { sent: 4, received: NEVER, said: Said::Nothing }));
}

#[test]
fn a_full_record_holds_nothing_against_denials_that_what_it_lacks_may_explain() {
    let mut record = Record::new(Moment::from_nanos(1_000), 2);
    record.answer(&asked(1, 0), Moment::from_nanos(1_003), &Answer::Denied);
    record.answer(&asked(2, 0), Moment::from_nanos(1_009), &Answer::Denied);
    record.answer(&asked(4, 0), Moment::from_nanos(1_010), &Answer::Allowed);
    record.lose(&asked(5, 0));
    assert_eq!((record.answered, record.lost), (3, 1));
    let said: Vec<Said> = record.by_key().iter().map(|it| Seen::from(it).said).collect();
    assert_eq!(said, [Said::Denied, Said::Nothing]);
}
