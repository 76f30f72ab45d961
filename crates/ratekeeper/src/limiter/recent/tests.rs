use std::cell::RefCell;
use std::sync::Arc;
use std::thread;

use super::{NAME_BYTES_MAX, question, remember};
use crate::algorithm::book::{Action, RuleId};
use crate::limits::resolver::{Excerpt, Overrides};
use crate::limits::{IdFormat, Limits, Source};
use crate::store::Secret;
use crate::{Limiter, Moment, Request};

const EDITION: u64 = u64::MAX - 1;
const NOW: Moment = Moment::from_nanos(1_000_000_000);

fn excerpt(number: u32) -> Excerpt {
    Excerpt {
        start: number.into(),
        id_format: IdFormat::Any,
        is_shadow: false,
        default: Some(RuleId::new(number)),
        overrides: Arc::default(),
    }
}

/// The number of the rule that is remembered of a limit.
fn recalled(edition: u64, name: &str) -> Option<u32> {
    let (seal, ask) = (Secret::new(1, 2).seal(), Request::new(name, "ada", 1));
    let asked = question(edition, &seal, &ask, Action::CheckAndSpend);
    asked.map(|question| question.ask.rule.number())
}

#[test]
fn a_limit_is_recalled_by_its_whole_name_and_edition() {
    for length in 0..=NAME_BYTES_MAX {
        let name = "LoginsPerUser".repeat(5)[..length].to_owned();
        remember(EDITION, &name, excerpt(3));
        assert_eq!(recalled(EDITION, &name), Some(3), "{name}");
        assert_eq!(recalled(EDITION + 1, &name), None, "{name}");
        for place in 0..length {
            let mut other = name.clone().into_bytes();
            other[place] ^= 1;
            assert_eq!(recalled(EDITION, str::from_utf8(&other).unwrap()), None, "{other:?}");
        }
        assert_eq!(recalled(EDITION, &format!("{name}s")), None, "{name}");
    }
}

#[test]
fn another_of_the_same_length_and_end_takes_its_place() {
    remember(EDITION, "LoginsPerUser", excerpt(1));
    remember(EDITION, "LoginsPerHost", excerpt(2));
    assert_eq!(recalled(EDITION, "LoginsPerUser"), Some(1));
    remember(EDITION, "LogoutPerUser", excerpt(3));
    assert_eq!(recalled(EDITION, "LoginsPerUser"), None);
    assert_eq!(recalled(EDITION, "LoginsPerHost"), Some(2));
    assert_eq!(recalled(EDITION, "LogoutPerUser"), Some(3));
}

#[test]
fn names_that_are_too_long_are_not_remembered() {
    let name = "n".repeat(NAME_BYTES_MAX + 1);
    remember(EDITION, &name, excerpt(1));
    assert_eq!(recalled(EDITION, &name), None);
    assert_eq!(recalled(EDITION, &name[1..]), None);
}

#[test]
fn what_may_be_a_mistake_is_left_to_who_tells_it() {
    let nobodys = || Excerpt { default: None, ..excerpt(1) };
    remember(EDITION, "NoDefault", nobodys());
    assert_eq!(recalled(EDITION, "NoDefault"), None);
    remember(EDITION, "Address", Excerpt { id_format: IdFormat::IpAddress, ..excerpt(1) });
    assert_eq!(recalled(EDITION, "Address"), None, "ada is no address");
    // Somebody else's override.
    let bucket = Secret::new(1, 2).seal().fingerprint(b"eve");
    let overrides = Overrides::from_iter([(bucket, (RuleId::new(2), 0))]);
    remember(EDITION, "NoDefault", Excerpt { overrides: Arc::new(overrides), ..nobodys() });
    assert_eq!(recalled(EDITION, "NoDefault"), None);
}

#[test]
fn a_name_that_is_too_long_takes_nobodys_overrides() {
    // Of the same place: sixteen times the same end.
    let (short, long) = ("n".repeat(16), "n".repeat(16 * 5));
    let bucket = Secret::new(1, 2).seal().fingerprint_from(1, b"ada");
    let overrides = |number| Arc::new(Overrides::from_iter([(bucket, (RuleId::new(number), 0))]));
    remember(EDITION, &short, Excerpt { overrides: overrides(2), ..excerpt(1) });
    assert_eq!(recalled(EDITION, &short), Some(2));
    remember(EDITION, &long, Excerpt { overrides: overrides(9), ..excerpt(8) });
    assert_eq!(recalled(EDITION, &long), None);
    assert_eq!(recalled(EDITION, &short), Some(2));
}

fn limits(text: &str, overrides: &str) -> Limits {
    let overrides = Source { name: "overrides.yaml", text: overrides };
    let overrides = (!overrides.text.is_empty()).then_some(&overrides);
    Limits::parse(&Source { name: "limits.yaml", text }, overrides).unwrap()
}

const FIVE: &str = "A: {burst: 5, count: 5, period: 1h}";
const ADA_HAS_NINE: &str = "A:ada: {burst: 9, count: 9, period: 1h}";

/// How many are left after one more ask.
fn left(limiter: &Limiter, id: &str) -> u64 {
    limiter.spend("A", id, 1, NOW).unwrap().remaining
}

#[test]
fn limiters_with_limits_of_the_same_name_do_not_disturb_each_other() {
    let one = Limiter::new(limits(FIVE, "")).unwrap();
    let other = Limiter::new(limits("A: {burst: 50, count: 5, period: 1h}", ADA_HAS_NINE)).unwrap();
    for taken in 1..=3 {
        assert_eq!(left(&one, "ada"), 5 - taken);
        assert_eq!(left(&other, "ada"), 9 - taken);
        assert_eq!(left(&other, "eve"), 50 - taken);
    }
    // One that is made in the place of another knows nothing of what was taken there.
    drop(one);
    assert_eq!(left(&Limiter::new(limits(FIVE, "")).unwrap(), "ada"), 4);
}

#[test]
fn a_thread_that_has_just_asked_goes_by_new_limits_at_once() {
    let limiter = Limiter::new(limits(FIVE, "")).unwrap();
    assert_eq!((left(&limiter, "ada"), left(&limiter, "ada")), (4, 3));
    limiter.reload(limits(FIVE, ADA_HAS_NINE), NOW).unwrap();
    assert_eq!((left(&limiter, "ada"), left(&limiter, "ada")), (6, 5));
    assert_eq!((left(&limiter, "eve"), left(&limiter, "eve")), (4, 3));
    limiter.reload(limits("A: {burst: 4, count: 5, period: 1h, shadow: true}", ""), NOW).unwrap();
    let shadow = limiter.spend("A", "ada", 1, NOW).unwrap();
    assert!(shadow.allowed && shadow.shadow, "{shadow:?}");
    let refunded = limiter.refund("A", "ada", 1, NOW).unwrap();
    assert!(refunded.allowed && !refunded.shadow, "{refunded:?}");
    limiter.reload(limits("B: {burst: 4, count: 5, period: 1h}", ""), NOW).unwrap();
    limiter.spend("A", "ada", 1, NOW).unwrap_err();
}

/// Asks once more when its thread ends.
struct Late(Arc<Limiter>);

impl Drop for Late {
    fn drop(&mut self) {
        assert_eq!(left(&self.0, "ada"), 6);
    }
}

thread_local! {
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_that_ends_still_knows_who_has_an_override() {
    for is_first in [true, false] {
        let limiter = Arc::new(Limiter::new(limits(FIVE, ADA_HAS_NINE)).unwrap());
        let late = Late(Arc::clone(&limiter));
        let asking = thread::spawn(move || {
            if is_first {
                LATE.set(None);
            }
            assert_eq!((left(&limiter, "ada"), left(&limiter, "ada")), (8, 7));
            LATE.set(Some(late));
        });
        asking.join().unwrap();
    }
}
