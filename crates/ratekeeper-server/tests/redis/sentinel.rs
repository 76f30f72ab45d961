//! Servers whose store is watched by Sentinels.

use crate::load::{LIMITS, TIMEOUT, judge_failover};
use crate::servers::{GENEROUS, Sentinel, until};
use crate::shared::judge_rounds;
use crate::support::{Folder, Web};
use crate::{sharing_at, start_ahead};

const ROUNDS: usize = 10;

#[test]
fn servers_follow_the_sentinels_to_a_new_primary_and_are_exact_before_and_after() {
    let (mut redis, folder) = (Sentinel::start(), Folder::new());
    let mut settings = sharing_at(&redis.url(), &folder, LIMITS);
    assert_eq!(settings.store.timeout, GENEROUS);
    let servers = [0; 4].map(|ahead| start_ahead(&settings, ahead));
    judge_rounds(&servers, 0..ROUNDS);
    settings.store.timeout = TIMEOUT;
    let hasty = [0; 2].map(|ahead| start_ahead(&settings, ahead));
    let mut primary = redis.servers.pop().unwrap();
    let old = primary.port;
    let is_promoted = || redis.primary().is_some_and(|port| port != old);
    judge_failover("Sentinel", &hasty, ["ada"; 2], || primary.kill(), is_promoted);
    // Nobody asked these meanwhile; until they have found the new primary, they decide alone.
    for server in &servers {
        let (mut client, decided) =
            (Web::connect(server), || server.stats().shared.unwrap().decided);
        until("it has found the new primary", || {
            let before = decided();
            client.post("/v1/check", r#"{"limit":"Shared","id":"somebody"}"#);
            decided() > before
        });
    }
    judge_rounds(&servers, ROUNDS..2 * ROUNDS);
    for server in servers {
        assert!(server.stats().shared.unwrap().up);
        assert!(server.drain(settings.drain).unwrap());
    }
    for server in hasty {
        assert!(server.drain(settings.drain).unwrap());
    }
}
