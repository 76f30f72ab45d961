//! `cargo xtask tidy`: the house rules that compiler and lints do not know.
//!
//! Every rule is a function from text, or from what cargo says about the workspace, to a list of
//! [`Violation`]s. Reading the disk happens here and in [`tree`], nowhere else.

mod code;
mod directions;
mod figures;
mod guide;
mod markdown;
mod metadata;
mod policy;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod words;

use std::fmt;

use clap::CommandFactory as _;

use crate::error::Error;
use metadata::Metadata;
use policy::Policy;
use tree::Tree;

/// A place where a house rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    /// Relative to the root.
    path: String,
    /// Counted from 1.
    line: usize,
    /// What is wrong, and what to do.
    what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Prints every violation in the working tree; refuses if there is one.
pub(crate) fn run() -> Result<(), Error> {
    let tree = Tree::read()?;
    let policy = Policy::parse(tree.text("deny.toml"))?;
    let metadata = Metadata::read(policy.graph.all_features)?;
    let mut violations = check(&tree, &policy, &metadata, &subcommands());
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        count => Err(Error::Untidy { count }),
    }
}

/// Prints figures of the code.
pub(crate) fn print_figures() -> Result<(), Error> {
    print!("{}", figures::table(&Tree::read()?));
    Ok(())
}

/// What has examples that people copy.
const EXAMPLES: [&str; 4] = ["md", "yaml", "html", "js"];

fn check(
    tree: &Tree,
    policy: &Policy,
    metadata: &Metadata,
    subcommands: &[String],
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files() {
        violations.extend(text::check(path, text));
        violations.extend(words::check(path, text));
        if has_extension(path, "rs") {
            violations.extend(code::check(path, text));
        }
        if has_extension(path, "md") {
            violations.extend(markdown::links(path, text, tree));
            violations.extend(markdown::commands(path, text, subcommands));
        }
        if EXAMPLES.iter().any(|extension| has_extension(path, extension)) {
            violations.extend(markdown::untils(path, text));
        }
    }
    violations.extend(markdown::crates_are_mentioned(tree));
    violations.extend(directions::check(metadata, tree));
    violations.extend(guide::check(tree));
    violations.extend(policy.check(metadata, tree));
    violations
}

/// What may follow `cargo xtask`.
fn subcommands() -> Vec<String> {
    let cli = crate::Cli::command();
    let names = cli.get_subcommands().map(|command| command.get_name().to_owned());
    names.chain(["help".to_owned()]).collect()
}

fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}
