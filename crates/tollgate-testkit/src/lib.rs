//! What the tests share: the exact oracle and seeded traffic.

pub mod audit;
pub mod oracle;
pub mod random;
pub mod sample;
pub mod terms;
pub mod transaction;
