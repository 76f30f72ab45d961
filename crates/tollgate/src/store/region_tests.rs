//! The table against a sorted map that does the same.
