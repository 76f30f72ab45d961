//! The table of the token-bucket document: what was granted, and what should have been.

/// Its columns, each as wide as there.
pub(crate) const COLUMNS: [&str; 6] = ["name", "time", "granted", "rate", "goal", "dev %"];

/// How wide those are.
pub(crate) const WIDTH: usize = 10;

/// What one bucket granted.
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    /// In how many seconds.
    pub(crate) time: f64,
    pub(crate) granted: u64,
    /// How many per second it should have been.
    pub(crate) goal: f64,
}

impl Row<'_> {
    pub(crate) fn rate(&self) -> f64 {
        as_f64(self.granted) / self.time
    }

    /// How far the rate is from the goal, in percent.
    pub(crate) fn deviation(&self) -> f64 {
        (self.rate() - self.goal) / self.goal * 100.0
    }

    /// The row, with its name in so wide a column.
    pub(crate) fn line(&self, width: usize) -> String {
        let cells = [
            self.name.to_owned(),
            format!("{:.2}", self.time),
            self.granted.to_string(),
            format!("{:.2}", self.rate()),
            rounded(self.goal),
            format!("{:.2}", self.deviation()),
        ];
        line(&cells, width)
    }
}

/// Six digits of a number above zero, or eight behind the point, without zeros at the end.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to 8"
)]
fn rounded(number: f64) -> String {
    let decimals = (5.0 - number.log10().floor()).clamp(0.0, 8.0) as usize;
    let text = format!("{number:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').into() }
}

/// The names of columns, and the line below them.
pub(crate) fn head(columns: &[&str; 6], width: usize) -> [String; 2] {
    [line(&columns.map(Into::into), width), line(&columns.map(|_| "---".into()), width)]
}

/// Cells, the first in a column that is so wide.
pub(crate) fn line(cells: &[String; 6], width: usize) -> String {
    let [name, numbers @ ..] = cells;
    let numbers = numbers.iter().map(|cell| format!(" {cell:>WIDTH$} |"));
    std::iter::once(format!("| {name:>width$} |")).chain(numbers).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts and latencies of a run are far below 2^53")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
