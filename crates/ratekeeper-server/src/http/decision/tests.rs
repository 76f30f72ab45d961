//! What is written is what the types say.

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Limiter, Moment};

use super::*;

const LIMITS: &str = r"
Plain: {burst: 3, count: 7, period: 10s}
Slow: {burst: 4294967296, count: 1, period: 365d}
Shadow: {burst: 1, count: 1, period: 1ms, shadow: true}
";

/// The same by way of the types.
fn body(decided: &[Decided<'_>], merged: &Merged, has_modes: bool) -> DecisionBody {
    let answer = |each: &Decided<'_>, decision: &Decision| AnswerBody {
        state: StateBody::new(decision),
        limit: LimitBody::new(each.ask.limit, each.of.terms, each.of.shadow),
        id: each.of.id.to_owned(),
        bucket: format!("{}:{}", each.of.prefix, each.of.id),
    };
    let asks = decided.iter().map(|each| AskOutcome {
        answer: answer(each, &each.decision),
        mode: has_modes.then_some(mode_name(each.ask.mode)),
        cost: each.ask.cost,
    });
    DecisionBody {
        answer: answer(&decided[merged.decided_by], &merged.decision),
        decided_by: merged.decided_by,
        asks: asks.collect(),
    }
}

#[test]
fn what_is_written_is_what_the_types_say() {
    let source = Source { name: "limits.yaml", text: LIMITS };
    let limiter = Limiter::new(Limits::parse(&source, None).unwrap()).unwrap();
    let id = "with \"quotes\", \\ and \u{1}\u{e9}";
    let asks = [
        Request::new("Plain", id, 2),
        Request::new("Slow", id, 4_294_967_296).with_mode(Mode::SpendOnly),
        Request::new("Shadow", "x", 1).with_mode(Mode::CheckOnly),
    ];
    let mut seen = 0;
    for (count, nanos) in [(1, 0), (2, 1), (3, 1), (3, 1_500_000_000), (2, 7_000_000_000)] {
        let asks = &asks[..count];
        let merged = limiter.transaction(asks, Moment::from_nanos(nanos)).unwrap();
        let accounts: Vec<_> =
            asks.iter().map(|ask| limiter.account(ask.limit, ask.id).unwrap()).collect();
        let decided: Vec<_> = asks
            .iter()
            .zip(&accounts)
            .zip(&*merged.each)
            .map(|((ask, of), decision)| Decided {
                ask: *ask,
                of: of.entitled(),
                decision: *decision,
            })
            .collect();
        for has_modes in [true, false] {
            let mut written = Vec::new();
            write(&mut written, &decided, &merged, has_modes);
            let expected = serde_json::to_string(&body(&decided, &merged, has_modes)).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), expected);
            seen += usize::from(!merged.decision.allowed);
        }
    }
    assert!(seen > 0, "a denial is among them");
}
