//! The arithmetic: pure functions of a rule, a cell, a cost and a moment.
//!
//! They cannot fail, overflow or panic, whatever they are given.
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

pub mod gcra;
