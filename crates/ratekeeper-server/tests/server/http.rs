//! The HTTP door from outside: every route, as it should be asked and as it should not.

mod client;
mod conformance;
mod decide;
mod guide;
mod limits;
mod overrides;
mod page;
mod vectors;
