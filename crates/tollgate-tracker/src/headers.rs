//! Header fields that speak of limits: read as clients find them, formatted as servers send them.

mod said;

pub use said::{BUDGETS_MAX, Said, Scope, Told, Unit, WAIT_MAX, Wait};
