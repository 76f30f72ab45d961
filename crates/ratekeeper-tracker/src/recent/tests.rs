//! What is forgotten, and what is not.

use super::Recent;

#[test]
fn what_was_used_is_kept_and_what_was_not_is_forgotten() {
    let mut recent = Recent::new(3);
    for key in 1..=3 {
        recent.insert(key, key, |_| true).expect("room");
    }
    let oldest = recent.find(1).expect("it is there");
    recent.touch(oldest);
    recent.insert(4, 4, |_| true).expect("one may go");
    assert_eq!(recent.len(), 3);
    assert!(recent.find(1).is_some() && recent.find(2).is_none());
}

#[test]
fn where_nothing_may_go_nothing_is_added() {
    let mut recent = Recent::new(2);
    for key in 1..=2 {
        recent.insert(key, key, |_| true).expect("room");
    }
    assert!(recent.insert(3, 3, |_| false).is_none());
    assert_eq!(recent.iter().count(), 2);
}

#[test]
fn a_renamed_value_is_found_by_its_new_key_only() {
    let mut recent = Recent::new(2);
    let slot = recent.insert(1, "value", |_| true).expect("room");
    recent.rename(slot, 2);
    assert_eq!((recent.find(1), recent.find(2)), (None, Some(slot)));
}
