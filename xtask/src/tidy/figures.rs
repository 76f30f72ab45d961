//! Figures that show whether the code grows simpler: a thermometer, not a goal.
//!
//! Tests, the oracle, the lab and xtask itself do not count. Lines are those with code on them.

use std::collections::BTreeMap;

use super::{Tree, has_extension};

/// Crates that are not shipped.
const NOT_SHIPPED: [&str; 2] = ["crates/ratekeeper-oracle/", "crates/ratekeeper-testkit/"];
/// What a declaration begins with whose name is a type's.
const TYPES: [&str; 4] = ["struct ", "enum ", "trait ", "union "];

/// What is counted of one crate or of all.
#[derive(Clone, Copy, Default)]
struct Figures {
    files: usize,
    lines: usize,
    inline: usize,
    unsafe_blocks: usize,
    public: usize,
}

/// A table of all crates, and what is said of the names of types.
pub(super) fn table(tree: &Tree) -> String {
    let mut crates: BTreeMap<&str, Figures> = BTreeMap::new();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = Figures::default();
    for (path, text) in tree.files().filter(|(path, _)| counts(path)) {
        let Some(name) = path.split('/').nth(1) else { continue };
        let of_file = Figures::of(text);
        crates.entry(name).or_default().add(of_file);
        all.add(of_file);
        for name in text.lines().filter_map(type_name) {
            *names.entry(name).or_default() += 1;
        }
    }
    let types: usize = names.values().sum();
    let sum_where = |wanted: fn(&str, usize) -> bool| -> usize {
        names.iter().filter(|(name, count)| wanted(name, **count)).map(|(_, count)| count).sum()
    };
    let (shared, short) = (sum_where(|_, count| count > 1), sum_where(|name, _| is_one_word(name)));
    let part = |count: usize| (count * 100).checked_div(types).unwrap_or_default();
    let row = |(name, figures): (&&str, &Figures)| format!("{name:<24}{}", figures.row());
    let mut rows = vec![format!("{:<24}{}", "crate", Figures::HEAD)];
    rows.extend(crates.iter().map(row));
    rows.push(row((&"all", &all)));
    rows.push(format!(
        "{types} types, of which {shared} ({} %) share their name with another and {short} ({} %) have a name of \
         one word\n",
        part(shared),
        part(short),
    ));
    rows.join("\n")
}

/// Whether a file is shipped code.
fn counts(path: &str) -> bool {
    let is_code =
        path.starts_with("crates/") && path.contains("/src/") && has_extension(path, "rs");
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    is_code && !is_test && !NOT_SHIPPED.iter().any(|not| path.starts_with(not))
}

impl Figures {
    const HEAD: &str = "  files    lines  #[inline]  unsafe  public items";

    fn of(text: &str) -> Self {
        let lines = || text.lines().map(str::trim).filter(|line| is_code(line));
        Self {
            files: 1,
            lines: lines().count(),
            inline: lines().filter(|line| line.starts_with("#[inline")).count(),
            unsafe_blocks: lines().filter(|line| line.contains("unsafe {")).count(),
            public: lines().filter(|line| line.starts_with("pub ") && line.contains(' ')).count(),
        }
    }

    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.lines += other.lines;
        self.inline += other.inline;
        self.unsafe_blocks += other.unsafe_blocks;
        self.public += other.public;
    }

    fn row(&self) -> String {
        let Self { files, lines, inline, unsafe_blocks, public } = self;
        format!("{files:>7} {lines:>8} {inline:>10} {unsafe_blocks:>7} {public:>13}")
    }
}

fn is_code(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("//")
}

/// The name of the type that a line declares.
fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest
            .strip_prefix('(')
            .map_or(rest, |rest| rest.split_once(')').map_or(rest, |(_, rest)| rest)),
        None => line,
    };
    let line = line.trim_start();
    let rest = TYPES.iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = rest.get(..end)?;
    name.starts_with(|c: char| c.is_ascii_uppercase()).then_some(name)
}

/// Whether no capital follows a small letter or a digit.
fn is_one_word(name: &str) -> bool {
    let pairs = name.as_bytes().windows(2);
    !pairs.into_iter().any(|pair| {
        matches!(pair, [a, b] if (a.is_ascii_lowercase() || a.is_ascii_digit()) && b.is_ascii_uppercase())
    })
}
