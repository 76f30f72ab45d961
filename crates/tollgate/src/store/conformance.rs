//! The behaviour that every store must show.
