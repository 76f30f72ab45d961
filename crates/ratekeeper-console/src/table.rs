//! Tables as people read them.

use crate::output::{Output, OutputError};

/// A text of somebody else's, so that it is one line and moves no cursor.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\'' | '"' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// A text of several lines of somebody else's: each is shown as one.
pub fn shown_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(shown).collect();
    lines.join("\n")
}

/// Columns as wide as they need to be: words to the left, numbers to the right.
pub fn table(
    head: &[&str],
    rows: Vec<Vec<String>>,
    output: &mut Output,
) -> Result<(), OutputError> {
    let head: Vec<String> = head.iter().map(|&word| word.to_owned()).collect();
    let is_number = |column: usize| {
        rows.iter().all(|row| row.get(column).is_some_and(|it| it.parse::<u64>().is_ok()))
    };
    let is_number: Vec<bool> = (0..head.len()).map(is_number).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for row in &rows {
        let pad = |(column, word): (usize, &String)| match (width(column), is_number[column]) {
            (width, true) => format!("{word:>width$}"),
            (width, false) => format!("{word:<width$}"),
        };
        let words: Vec<String> = row.iter().enumerate().map(pad).collect();
        output.line(words.join("  ").trim_end())?;
    }
    Ok(())
}
