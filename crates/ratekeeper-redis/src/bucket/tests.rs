use ratekeeper::algorithm::gcra;
use ratekeeper_testkit::random::Random;

use super::*;

fn rule(burst: u64) -> Rule {
    Rule::new(&gcra::Rule::new(burst, 1, Nanos::from_secs(1)).unwrap()).unwrap()
}

#[test]
fn calls_keep_what_is_asked_of_a_bucket_in_order_whatever_goes_together() {
    let rules = [rule(1), rule(2), rule(3), rule(4), rule(5), rule(6)];
    let names: Vec<_> = (0..12).map(|name: u32| name.to_string().into_bytes()).collect();
    let (mut random, mut together) = (Random::new(3), 0);
    for round in 0..2_000 {
        let mut ask = || Ask {
            bucket: &names[random.index(if round % 2 == 0 { 12 } else { 2 })],
            rule: &rules[random.index(rules.len())],
            since: Moment::from_nanos(1_000 * random.below(2)),
            action: Action::CheckAndSpend,
            is_shadow: random.chance(1, 40),
            cost: 1,
            joined: random.chance(1, 40),
        };
        let asks: Vec<_> = (0..200).map(|_| ask()).collect();
        for has_slots in [false, true] {
            let (deals, spread) = deal(&asks, None, has_slots);
            let placed = deals.iter().flat_map(|deal| &deal.places).copied();
            for name in &names {
                let of = |place: &usize| asks[*place].bucket == name;
                let told: Vec<_> = placed.clone().filter(of).collect();
                assert!(told.is_sorted(), "round {round}: {told:?}");
            }
            let apart: usize = spread.iter().map(ExactSizeIterator::len).sum();
            assert_eq!(placed.count() + apart, asks.len());
            for deal in deals.iter().filter(|deal| deal.are_spends && deal.places.len() > 1) {
                together += 1;
                let first = &asks[deal.places[0]];
                assert!(deal.places.len() <= SPENDS_MAX);
                assert!(deal.asked().all(|ask| ask.what() == SPEND && !ask.is_shadow));
                assert!(deal.asked().all(|ask| {
                    std::ptr::eq(ask.rule, first.rule)
                        && ask.since == first.since
                        && (!has_slots || ask.bucket == first.bucket)
                }));
            }
        }
    }
    assert!(together > 10_000, "{together}");
}
