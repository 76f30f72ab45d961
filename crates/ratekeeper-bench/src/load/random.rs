//! A small seeded generator, so that two runs ask for the same keys.

/// `SplitMix64`: one word of state.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A generator whose whole future is decided by `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds that follow each other must not begin in each other's future.
        let mut seeded = Self { state: seed };
        Self { state: seeded.bits() }
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = self.state;
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = (u128::from(self.bits()) * u128::from(bound)) >> 64;
        u64::try_from(wide).unwrap_or(0)
    }

    /// A number from 0 up to and without 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds")]
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
