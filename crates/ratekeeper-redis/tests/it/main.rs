//! Ratekeeper on real servers: started here, on free ports, and killed at the end.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod clusters;
mod conformance;
mod differential;
mod differential_others;
mod failures;
mod inline_rules;
mod moving;
mod secure;
mod servers;
mod startup;
mod values;
mod vectors;
