//! What the tests share: the exact oracle, seeded traffic, and a simulated API.
//!
//! The oracle is a crate of its own, `ratekeeper-oracle`. It is written from the definition of the arithmetic alone, with big integers, and knows
//! nothing of the limiter it judges. [`compare`](compare::compare) runs the same nasty traffic
//! through both and stops at the first difference.

pub mod allocations;
pub mod audit;
pub mod compare;
pub mod discord;
pub mod mismatch;
pub mod random;
pub mod sample;
pub mod traffic;
pub mod transaction;

pub use ratekeeper_oracle::bucket as oracle;
pub use ratekeeper_oracle::terms;
