//! The counts on record, and what has become of them.

use std::fmt::{self, Display, Formatter};

use crate::bench::Failure;

/// By how much a count may differ from the record, in hundredths of it.
const PERCENT_MAX: u64 = 5;

/// What the record begins with.
const HEAD: &str = "\
# Instructions of what is done most often, by callgrind. `cargo xtask gate` compares,
# `cargo xtask gate --update` writes this file. The counts are true for one compiler:
";

/// Counts, and the compiler that they are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) compiler: String,
    pub(super) rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: String,
    /// Instructions.
    pub(super) count: u64,
}

impl Record {
    /// Reads what [`Display`] wrote. Refuses anything else, and a name that is there twice.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let compiler = lines.next().ok_or("the record does not say its compiler")?.to_owned();
        let mut rows = Vec::<Row>::new();
        for line in lines {
            let row = Row::parse(line).ok_or_else(|| format!("no count on record: `{line}`"))?;
            if rows.iter().any(|other| other.name == row.name) {
                return Err(format!("`{}` is on record twice", row.name).into());
            }
            rows.push(row);
        }
        Ok(Self { compiler, rows })
    }

    /// Compares what is on record with what was counted. Refuses if they are not about the same.
    pub(super) fn compare(&self, counted: &Self) -> Result<Comparison, Failure> {
        if let Some(gone) = self.rows.iter().find(|row| counted.count(&row.name).is_none()) {
            return Err(format!("`{}` is on record but not counted: {UPDATE}", gone.name).into());
        }
        let line = |Row { name, count }: &Row| {
            let recorded = self.count(name).ok_or_else(|| format!("`{name}` is not on record"));
            Ok(Line { name: name.clone(), recorded: recorded?, counted: *count })
        };
        let lines: Result<_, String> = counted.rows.iter().map(line).collect();
        let lines = lines.map_err(|missing| format!("{missing}: {UPDATE}"))?;
        let is_same = self.compiler == counted.compiler;
        let compilers = (!is_same).then(|| [self.compiler.clone(), counted.compiler.clone()]);
        Ok(Comparison { lines, compilers })
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.rows.iter().find(|row| row.name == name).map(|row| row.count)
    }

    /// A page with these counts in place of those that it shows under the same names.
    pub(super) fn shown_in(&self, page: &str) -> String {
        let shown = |line: &str| {
            let name = Row::parse(line).map(|row| row.name);
            let row = name.and_then(|name| self.rows.iter().find(|row| row.name == name));
            row.map_or_else(|| format!("{line}\n"), |row| format!("{row}\n"))
        };
        page.lines().map(shown).collect()
    }
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}{}", self.compiler)?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let (count, name) = line.trim_start().split_once("  ")?;
        let count = count.parse().ok().filter(|count| *count > 0)?;
        Some(Self { name: name.to_owned(), count })
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6}  {}", self.count, self.name)
    }
}

const UPDATE: &str = "`cargo xtask gate --update` puts the counts of now on record";

/// What is on record beside what was counted.
#[derive(Debug)]
pub(super) struct Comparison {
    lines: Vec<Line>,
    /// That of the record and that of now, where they differ.
    compilers: Option<[String; 2]>,
}

#[derive(Debug)]
struct Line {
    name: String,
    recorded: u64,
    counted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Grown,
    Fallen,
    Small,
}

impl Comparison {
    /// Refuses if a count has grown by too much.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        let grown = self.lines.iter().filter(|line| line.change() == Change::Grown);
        let names: Vec<_> = grown.map(|line| format!("`{}`", line.name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(format!(
            "more than {PERCENT_MAX} % more instructions for {}; if that is what it takes, {UPDATE}",
            names.join(", ")
        )
        .into())
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8} {:>8} {:>9}", "recorded", "counted", "")?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if let Some([recorded, now]) = &self.compilers {
            writeln!(f, "\nthe record is of {recorded}, this is {now}: that alone changes counts")?;
        }
        if self.lines.iter().any(|line| line.change() == Change::Fallen) {
            writeln!(f, "\nsome have fallen by more than {PERCENT_MAX} %: {UPDATE}")?;
        }
        Ok(())
    }
}

impl Line {
    fn change(&self) -> Change {
        let [recorded, counted] = [self.recorded, self.counted].map(u128::from);
        let hundred = |percent: u64| recorded * u128::from(percent);
        if counted * 100 > hundred(100 + PERCENT_MAX) {
            Change::Grown
        } else if counted * 100 < hundred(100 - PERCENT_MAX) {
            Change::Fallen
        } else {
            Change::Small
        }
    }
}

impl Display for Line {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, recorded, counted } = self;
        let percent = (*counted as f64 / *recorded as f64 - 1.0) * 100.0;
        let remark = match self.change() {
            Change::Grown => "  <- grown",
            Change::Fallen => "  <- fallen",
            Change::Small => "",
        };
        write!(f, "{recorded:>8} {counted:>8} {percent:>+7.1} %  {name}{remark}")
    }
}
