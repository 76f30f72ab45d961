//! The engine beside the oracle: one program, because linking takes longer than most tests.

mod audit;
mod batch;
mod compare;
mod facts;
mod second_opinion;
mod traffic;
mod vectors;
