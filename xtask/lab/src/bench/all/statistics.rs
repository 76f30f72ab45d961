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
mod tests {
    use super::*;

    #[test]
    fn the_quartiles_lie_between_neighbours() {
        let spread = |numbers: &[f64]| Spread::of(numbers.to_vec());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[f64::NAN, f64::INFINITY]), None);
        let one = Spread { median: 7.0, lower: 7.0, upper: 7.0 };
        assert_eq!(spread(&[7.0]), Some(one));
        let five = Spread { median: 3.0, lower: 2.0, upper: 4.0 };
        assert_eq!(spread(&[5.0, 1.0, 4.0, 2.0, 3.0]), Some(five));
        let two = Spread { median: 1.5, lower: 1.25, upper: 1.75 };
        assert_eq!(spread(&[2.0, 1.0]), Some(two));
    }
}
