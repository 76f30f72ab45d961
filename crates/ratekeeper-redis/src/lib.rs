#![doc = include_str!("../README.md")]

mod address;
mod average;
mod bucket;
mod cluster;
mod cross_slot;
mod failure;
mod key;
mod link;
mod node;
mod quota;
mod rule;
mod script;
mod shared;
mod startup;
mod state_transfer;
mod value;

pub use address::{Address, AddressError, PemFile, Tls};
pub use average::Answer as AverageAnswer;
pub use average::Ask as AverageAsk;
pub use bucket::{Answer, Ask};
pub use cross_slot::RESERVATION_LIFETIME;
pub use failure::Failure;
pub use key::{CHANGED_CHANNEL, Kind, SLOTS, slot};
pub use link::{Link, Visit};
pub use node::Heard;
pub use quota::Answer as QuotaAnswer;
pub use quota::Ask as QuotaAsk;
pub use rule::{Rule, TICKS_MAX, TooSlow};
pub use shared::{Health, Shared, SharedError, State, WITHIN_DEFAULT, in_time, patience};
pub use startup::Warning;
pub use state_transfer::{Page, Put, Scan};
pub use value::{AverageValue, BucketValue, Entry, NotAValue, QuotaValue, Value};
