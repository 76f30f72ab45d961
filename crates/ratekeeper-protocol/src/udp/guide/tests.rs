use ratekeeper::Limits;
use ratekeeper::algorithm::Owner;
use ratekeeper::limits::Source;

use super::*;

const RULES: &str = r"
rewrite: [{ match: ' ip=127\.\S+$', to: ' internal' }]
rules:
  - { match: '^ws ip=', limit: 22, period: 20, strict: true }
  - { match: '^\S+ internal$', limit: 5, period: 2, key: all }
  - { match: '^login user=(\S+)$', use: Logins }
default: { over_limit: true, rate: 1, limit: 1, period: 1 }
";

#[test]
fn a_key_is_governed_by_what_the_door_would_apply() {
    let text = "Logins: {burst: 1, count: 1, period: 1s}";
    let limits = Limits::parse(&Source { name: "limits", text }, None).unwrap();
    let rules = Rules::parse(&Source { name: "rules", text: RULES }, &limits).unwrap();
    let mut guide = rules.guide();
    let mut governed = |key: &str| guide.governed(key.as_bytes(), |_, id| id != "nobody");
    let owner = |place: u32| {
        let is_owner = |owner: &Owner| {
            let name = rules.owner_name(*owner);
            name.is_some_and(|name| name.starts_with(&format!("rule {place},")))
        };
        (1..1 << 16).map(Owner::new).find(is_owner).unwrap()
    };
    let average = |place, rule: Result<average::Rule, _>, key: &[u8]| Governed::Average {
        rule: rule.unwrap().owned_by(owner(place)),
        key: key.to_vec(),
    };
    let (strict, leaky) =
        (average::Rule::new(22.0, 20.0, true), average::Rule::new(5.0, 2.0, false));
    assert_eq!(governed("ws ip=10.0.0.1"), average(1, strict, b"ws ip=10.0.0.1"));
    assert_eq!(governed("ws ip=127.0.0.1"), average(2, leaky, b"all"));
    let named = Governed::Named { limit: "Logins".into(), id: "a".into() };
    assert_eq!(governed("login user=a"), named);
    assert_eq!(governed("login user=nobody"), Governed::Fixed { over: true });
    assert_eq!(governed("else"), Governed::Fixed { over: true });
}
