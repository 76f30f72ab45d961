//! What is said of many numbers.

/// The middle of some numbers, and between what half of them lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl Spread {
    /// Nothing of none.
    pub(super) fn of(mut numbers: Vec<f64>) -> Option<Self> {
        numbers.retain(|number| number.is_finite());
        numbers.sort_by(f64::total_cmp);
        let last = numbers.len().checked_sub(1)?;
        let at = |quarters: usize| {
            // Between two neighbours, as far as it is from either.
            let (place, part) = (last * quarters / 4, last * quarters % 4);
            let (low, high) = (numbers[place], numbers[(place + 1).min(last)]);
            low + (high - low) * [0.0, 0.25, 0.5, 0.75][part]
        };
        Some(Self { median: at(2), lower: at(1), upper: at(3) })
    }
}

#[cfg(test)]
mod tests;
