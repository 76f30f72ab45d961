//! Numbers of which the first come most: the k-th with a chance of 1 / k^s.
//!
//! By rejection-inversion (Hörmann and Derflinger, 1996): a number is drawn from a smooth curve
//! that lies above the steps, by its inverse, and kept if it is also under the steps. So it is
//! exact, needs no table however many numbers there are, and seldom draws twice.

use super::random::Random;
use crate::deviation::as_f64;

/// The largest exponent: with it nearly every number is the first.
pub(crate) const EXPONENT_MAX: f64 = 10.0;

/// Draws from `1..=count`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    exponent: f64,
    count: f64,
    /// The area under the curve, counted from 1, at which the first step begins ..
    area_begin: f64,
    /// .. and at which the last one ends.
    area_end: f64,
    /// What is drawn so little below a whole number is always under its step.
    sure: f64,
}

impl Zipf {
    /// At least one number, an exponent above 0.
    pub(crate) fn new(count: u64, exponent: f64) -> Self {
        let count = as_f64(count);
        let unset = Self { exponent, count, area_begin: 0.0, area_end: 0.0, sure: 0.0 };
        Self {
            // The curve goes to infinity on the left, so the first step is given what it needs.
            area_begin: unset.area(1.5) - 1.0,
            area_end: unset.area(count + 0.5),
            sure: 2.0 - unset.at_area(unset.area(2.5) - unset.height(2.0)),
            ..unset
        }
    }

    /// The next number.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.area_end + random.fraction() * (self.area_begin - self.area_end);
            let at = self.at_area(area);
            let step = at.round().clamp(1.0, self.count);
            if step - at <= self.sure || area >= self.area(step + 0.5) - self.height(step) {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                return step as u64;
            }
        }
    }

    fn height(&self, at: f64) -> f64 {
        (-self.exponent * at.ln()).exp()
    }

    /// The area under the curve from 1 to `at`: `(at^(1-s) - 1) / (1-s)`, also where s is near 1.
    fn area(&self, at: f64) -> f64 {
        let log = at.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < TINY { log } else { power.exp_m1() / power * log }
    }

    /// Where the area from 1 is this: the inverse of `area`.
    fn at_area(&self, area: f64) -> f64 {
        // Rounding must not take the logarithm of less than nothing.
        let power = ((1.0 - self.exponent) * area).max(-1.0);
        if power.abs() < TINY { area.exp() } else { (power.ln_1p() / power * area).exp() }
    }
}

/// Below it, the limit is nearer than the quotient.
const TINY: f64 = 1e-12;

#[cfg(test)]
mod tests;
