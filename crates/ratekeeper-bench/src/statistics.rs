//! What many runs have in common.

use serde::Serialize;

/// Where numbers lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them is not above it.
    pub median: f64,
    /// A quarter of them is not above it ..
    pub lower: f64,
    /// .. and a quarter not below this.
    pub upper: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of those that are finite; nothing if there is none.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().filter(|it| it.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |quarters| quartile(&sorted, quarters);
        Some(Self { median: at(2)?, lower: at(1)?, upper: at(3)?, min: at(0)?, max: at(4)? })
    }
}

/// What so many quarters of the numbers are not above; between two of them if need be.
fn quartile(sorted: &[f64], quarters: usize) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let (index, rest) = (last * quarters / 4, last * quarters % 4);
    let (low, high) = (sorted.get(index)?, sorted.get((index + 1).min(last))?);
    Some(low + (high - low) * [0.0, 0.25, 0.5, 0.75][rest])
}

#[cfg(test)]
mod tests;
