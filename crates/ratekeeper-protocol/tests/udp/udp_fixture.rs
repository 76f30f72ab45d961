//! A door with everything behind it, and a clock to turn by hand.

use std::sync::Arc;

use ratekeeper::algorithm::average::Average;
use ratekeeper::limits::Source;
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Keyed, Limiter, Limits, Moment, Nanos};
use ratekeeper_protocol::udp::{Door, Rules};
use ratekeeper_protocol::{Counts, DatagramDoor as _, Replies};

pub(crate) const MUSICBRAINZ: &str = include_str!("../../../../examples/musicbrainz.yaml");

pub(crate) struct UdpFixture {
    pub(crate) door: Door,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) averages: Arc<Keyed<Average>>,
    pub(crate) now: Moment,
    pub(crate) counts: Counts,
}

pub(crate) fn limits(text: &str) -> Limits {
    match text {
        "" => Limits::new(),
        text => Limits::parse(&Source { name: "limits.yaml", text }, None).unwrap(),
    }
}

pub(crate) fn rules(text: &str, limits: &Limits) -> Rules {
    Rules::parse(&Source { name: "rules.yaml", text }, limits).unwrap_or_else(|e| panic!("{e}"))
}

impl UdpFixture {
    pub(crate) fn new(rules_text: &str) -> Self {
        Self::with_limits(rules_text, "")
    }

    pub(crate) fn with_limits(rules_text: &str, limits_text: &str) -> Self {
        let limits = limits(limits_text);
        let rules = rules(rules_text, &limits);
        let secret = Secret::new(1, 2);
        let limiter = Arc::new(Limiter::with_secret(limits, MEMORY_MIN, secret).unwrap());
        let averages = Arc::new(Keyed::with_secret(MEMORY_MIN, secret).unwrap());
        let door = Door::new(Arc::clone(&limiter), Arc::clone(&averages), rules);
        let now = Moment::from_nanos(1_700_000_100_000_000_000);
        Self { door, limiter, averages, now, counts: Counts::default() }
    }

    /// The answer to one datagram; empty for none.
    pub(crate) fn send(&mut self, datagram: impl AsRef<[u8]>) -> Vec<u8> {
        self.send_all(&[datagram.as_ref()]).remove(0)
    }

    /// The answers to datagrams that come together.
    pub(crate) fn send_all(&mut self, datagrams: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut replies = Replies::default();
        self.door.answer(datagrams, self.now, &mut replies, &mut self.counts);
        let replies: Vec<_> = replies.iter().map(<[u8]>::to_vec).collect();
        assert_eq!(replies.len(), datagrams.len());
        replies
    }

    /// The answer as text.
    #[track_caller]
    pub(crate) fn says(&mut self, datagram: &str, answer: &str) {
        let said = self.send(datagram);
        assert_eq!(String::from_utf8_lossy(&said), answer, "to {datagram}");
    }

    pub(crate) fn wait_secs(&mut self, secs: u64) {
        self.now = self.now.after(Nanos::from_secs(secs));
    }
}
