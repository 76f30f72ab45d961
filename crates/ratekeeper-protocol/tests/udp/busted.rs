//! Broken rules files: every fault is found, stands where it should, and says what would be right.

use ratekeeper::limits::{Fault, Source};
use ratekeeper_protocol::udp::{RULES_MAX, Rules};

use crate::udp_fixture::limits;

const BUSTED: &str = include_str!("busted.txt");
const LIMITS: &str = "
Logins: {burst: 2, count: 1, period: 30s}
PerAddress: {burst: 3, count: 1, period: 1s, id: ipAddress}
";

fn faults(text: &str) -> Vec<String> {
    let told = |fault: &Fault| {
        let Fault { line, column, message, help, .. } = fault;
        format!("{line}:{column} {message}; {help}")
    };
    match Rules::parse(&Source { name: "rules.yaml", text }, &limits(LIMITS)) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(told).collect(),
    }
}

#[test]
fn every_broken_file_has_its_faults_and_no_other() {
    let cases: Vec<_> = BUSTED.split("\n=== ").skip(1).collect();
    let mut wrong = Vec::new();
    for case in &cases {
        let (head, expected) = case.split_once("--- faults\n").unwrap();
        let (name, text) = head.split_once('\n').unwrap();
        let expected: Vec<_> = expected.lines().filter(|line| !line.is_empty()).collect();
        let found = faults(text);
        if found != expected {
            wrong.push(format!("=== {name}\n{}\n", found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 25, "only {} cases", cases.len());
}

#[test]
fn a_list_can_be_long_but_not_longer() {
    for list in ["count", "rewrite", "rules"] {
        let rule = match list {
            "count" => "  - { match: '^x$' }\n",
            "rewrite" => "  - { match: '^x$', to: y }\n",
            _ => "  - { match: '^x$', limit: 1, period: 1 }\n",
        };
        let most = format!("{list}:\n{}", rule.repeat(RULES_MAX));
        assert_eq!(faults(&most), [""; 0]);
        let expected = format!(
            "{}:5 {list} has more than {RULES_MAX} rules; let an expression fit more keys",
            RULES_MAX + 2
        );
        assert_eq!(faults(&format!("{most}{}", rule.repeat(3))), [expected]);
    }
}

#[test]
fn expressions_can_be_too_large_together() {
    let rules = "  - { match: 'a{9000}', limit: 1, period: 1 }\n".repeat(200);
    let expected = "1:1 the expressions together take more than 16777216 bytes when compiled; use \
                    fewer or simpler ones";
    assert_eq!(faults(&format!("rules:\n{rules}")), [expected]);
}

#[test]
fn no_damage_to_a_good_file_makes_the_reader_panic() {
    let good = crate::udp_fixture::MUSICBRAINZ;
    let mut random = ratekeeper_testkit::random::Random::new(11);
    for _ in 0..400 {
        let mut chars: Vec<char> = good.chars().collect();
        for _ in 0..random.between(1, 4) {
            let at = random.index(chars.len());
            match random.below(3) {
                0 => drop(chars.remove(at)),
                1 => chars[at] = random.pick(&['{', '}', '\'', ':', '-', '\n', '(', '[', '$', 'é']),
                _ => chars.truncate(at + 1),
            }
        }
        faults(&chars.into_iter().collect::<String>());
    }
}
