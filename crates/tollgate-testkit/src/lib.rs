//! What the tests share: the exact oracle and seeded traffic.

pub mod oracle;
pub mod terms;
pub mod transaction;
