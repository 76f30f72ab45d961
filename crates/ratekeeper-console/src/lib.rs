//! What the commands of `ratekeeper` have in common where people and programs meet them: arguments that
//! several of them take, standard output and standard error, tables.
//!
//! Nothing here knows a command, and nothing ends the process.

mod args;
mod output;
pub mod secret;
mod table;

pub use args::{Format, parse_length};
pub use output::{Output, OutputError, say};
pub use table::{shown, shown_lines, table};
