//! Which key is asked for next.

use std::fmt;
use std::str::FromStr;

use super::random::Random;
use super::zipf::{EXPONENT_MAX, Zipf};

/// How many connections a run can open.
pub(crate) const CONNECTIONS_MAX: u64 = 10_000;
/// How many keys a run can ask for.
pub(crate) const KEYS_MAX: u64 = 10_000_000;

/// How requests are spread over the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Spread {
    /// All on one.
    One,
    /// Each as often as any other.
    Uniform,
    /// The k-th with a chance of 1 / k^s.
    Zipf(f64),
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("one", "") => Ok(Self::One),
            ("uniform", "") => Ok(Self::Uniform),
            ("zipf", "") if text == "zipf" => Ok(Self::Zipf(1.0)),
            ("zipf", exponent) => {
                let exponent = exponent.parse().ok();
                let good = exponent.filter(|s: &f64| *s > 0.0 && *s <= EXPONENT_MAX);
                let wrong = format!("its exponent is a number above 0, up to {EXPONENT_MAX}");
                good.map(Self::Zipf).ok_or(wrong)
            }
            _ => Err("write one, uniform, zipf or zipf:0.9".into()),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
        }
    }
}

/// Draws keys, each a number from 0.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    draw: Draw,
    random: Random,
}

#[derive(Clone, Debug)]
enum Draw {
    One,
    Uniform(u64),
    Zipf(Zipf),
}

impl Keys {
    /// Two that are seeded alike draw the same keys.
    pub(crate) fn new(count: u64, spread: Spread, seed: u64) -> Self {
        let draw = match spread {
            Spread::One => Draw::One,
            Spread::Uniform => Draw::Uniform(count),
            Spread::Zipf(exponent) => Draw::Zipf(Zipf::new(count, exponent)),
        };
        Self { draw, random: Random::new(seed) }
    }

    /// The next key.
    pub(crate) fn draw(&mut self) -> u64 {
        match &self.draw {
            Draw::One => 0,
            Draw::Uniform(count) => self.random.below(*count),
            Draw::Zipf(zipf) => zipf.draw(&mut self.random) - 1,
        }
    }
}

/// What a connection's keys are seeded with: no two connections of a run, nor of two runs whose own
/// seeds differ, draw alike.
pub(crate) fn seed_of(run: u64, connection: u64) -> u64 {
    run.wrapping_mul(CONNECTIONS_MAX).wrapping_add(connection)
}

#[cfg(test)]
mod tests;
