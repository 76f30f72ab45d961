//! From numbers to places on paper.

/// An axis: where numbers stand, and which of them are written there.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    /// Where the ends are, in pixels.
    from: f64,
    to: f64,
    is_log: bool,
}

/// On a logarithmic axis these of every power of ten are written; all of them, if few powers are.
const MANTISSAS: [f64; 3] = [1.0, 2.0, 5.0];
/// With more powers of ten than this, only the powers are written.
const POWERS_MAX: f64 = 3.5;
/// On a linear axis there are about so many steps.
const STEPS: f64 = 6.0;

impl Scale {
    /// An axis on which every factor is as long as any other. It covers `low` and `high`, which
    /// are above 0.
    pub(super) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let mantissa = |number: f64| number / 10_f64.powf(number.log10().floor());
        let power = |number: f64| number / mantissa(number);
        let below = MANTISSAS.into_iter().rev().find(|it| *it <= mantissa(low) * 1.000_001);
        let low = power(low) * below.unwrap_or(1.0);
        let above =
            MANTISSAS.into_iter().chain([10.0]).find(|it| *it >= mantissa(high) * 0.999_999);
        let high = (power(high) * above.unwrap_or(10.0)).max(2.0 * low);
        Self { low, high, from, to, is_log: true }
    }

    /// An axis from 0 that covers `high`, which is above 0.
    pub(super) fn linear(high: f64, from: f64, to: f64) -> Self {
        let step = step(high);
        Self { low: 0.0, high: (high / step).ceil() * step, from, to, is_log: false }
    }

    /// Where a number stands.
    pub(super) fn place(&self, number: f64) -> f64 {
        let part = if self.is_log {
            (number.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (number - self.low) / (self.high - self.low)
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The number at a place between the ends, from 0 to 1.
    pub(super) fn number(&self, part: f64) -> f64 {
        self.low * (self.high / self.low).powf(part)
    }

    /// The numbers that are written.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_log { self.log_ticks() } else { self.linear_ticks() }
    }

    fn log_ticks(&self) -> Vec<f64> {
        let mantissas =
            if (self.high / self.low).log10() > POWERS_MAX { &MANTISSAS[..1] } else { &MANTISSAS };
        let mut ticks = Vec::new();
        let mut power = 10_f64.powf(self.low.log10().floor());
        while power <= self.high * 1.000_001 {
            let all = mantissas.iter().map(|mantissa| mantissa * power);
            let near = |it: &f64| (self.low * 0.999_999..=self.high * 1.000_001).contains(it);
            ticks.extend(all.filter(near));
            power *= 10.0;
        }
        ticks
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = step(self.high);
        let mut ticks = vec![0.0];
        while let Some(last) = ticks.last()
            && *last + step <= self.high * 1.000_001
        {
            ticks.push(last + step);
        }
        ticks
    }
}

/// A round number of which about [`STEPS`] make `high`.
fn step(high: f64) -> f64 {
    let rough = high / STEPS;
    let power = 10_f64.powf(rough.log10().floor());
    let mantissa = MANTISSAS.into_iter().find(|mantissa| mantissa * power >= rough);
    mantissa.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests;
