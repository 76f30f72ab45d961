//! The UDP door, from datagrams to answers.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod batches;
mod busted;
mod flood;
mod musicbrainz;
mod named;
mod reload;
mod transcripts;
mod udp_fixture;
mod vectors;
mod wire;
