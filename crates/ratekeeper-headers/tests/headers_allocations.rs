//! Reading a response with one budget or two allocates nothing.

use std::hint::black_box;

use ratekeeper_headers as headers;
use ratekeeper_headers::Moment;
use ratekeeper_testkit::allocations::{Counting, assert_counted, during};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_count_sees_an_allocation() {
    assert_counted();
}

#[test]
fn a_response_with_one_budget_or_two_allocates_nothing() {
    let date = ("date", "Mon, 16 Nov 2026 10:00:00 GMT");
    let responses: [&[(&str, &str)]; 4] = [
        &[
            date,
            ("x-ratelimit-bucket", "80c17d2f203122d936070c88c8d10f33"),
            ("x-ratelimit-limit", "5"),
            ("x-ratelimit-remaining", "4"),
            ("x-ratelimit-reset", "1794823201.321"),
            ("x-ratelimit-reset-after", "1.321"),
            ("x-ratelimit-scope", "user"),
        ],
        &[
            date,
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "4987"),
            ("x-ratelimit-reset", "1794826800"),
            ("x-ratelimit-used", "13"),
            ("x-ratelimit-resource", "core"),
        ],
        &[
            date,
            ("ratelimit-policy", "\"burst\";q=100;w=60, \"daily\";q=1000;w=86400"),
            ("ratelimit", "\"burst\";r=50;t=30, \"daily\";r=900;t=36000"),
        ],
        &[
            date,
            ("retry-after", "Mon, 16 Nov 2026 10:02:00 GMT"),
            ("x-ratelimit-reset-requests", "6m0s"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-16T10:00:30Z"),
        ],
    ];
    for response in responses {
        let fields = response.iter().map(|(name, value)| (*name, value.as_bytes()));
        let count = during(|| {
            black_box(headers::read(fields, Moment::EPOCH));
        });
        assert_eq!(count, 0, "{response:?}");
    }
}
