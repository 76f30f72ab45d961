//! The engine from outside: one program, because linking takes longer than most tests.

mod concurrency;
mod inline_rules;
mod limits_buckets;
mod limits_busted;
mod limits_files;
mod limits_ids;
mod limits_lower;
mod limits_mutations;
mod lowered;
mod pressure;
mod saved;
mod saved_damaged;
mod shadow;
mod shares;
mod vectors;
mod witness;
