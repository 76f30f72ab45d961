//! What many runs have in common.

use serde::Serialize;

/// Where numbers lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    /// A quarter of them is not above it ..
    pub(crate) lower: f64,
    /// .. and a quarter not below this.
    pub(crate) upper: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of these numbers, of which there is at least one.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |quarters| quartile(&sorted, quarters);
        Self { median: at(2), lower: at(1), upper: at(3), min: at(0), max: at(4) }
    }
}

/// What so many quarters of the numbers are not above; between two of them if need be.
fn quartile(sorted: &[f64], quarters: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let (index, rest) = (last * quarters / 4, last * quarters % 4);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let part = [0.0, 0.25, 0.5, 0.75][rest];
    if rest == 0 { at(index) } else { at(index) + (at(index + 1) - at(index)) * part }
}

#[cfg(test)]
mod tests;
