//! Points and lengths of time.
//!
//! A [`Moment`] is a point, [`Nanos`] a length; they do not mix. Nothing in this crate reads a
//! clock: whoever asks says what time it is. [`Clock`] is there for callers who have none.

#[cfg(feature = "serde")]
mod written;

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time: whole nanoseconds since an epoch of the caller's choice, usually 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The first moment there is.
    pub const EPOCH: Self = Self(0);
    /// The last moment there is: in the year 2262, counted from 1970.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// The moment `nanos` after the epoch, at most [`Moment::MAX`].
    pub const fn from_nanos(nanos: u64) -> Self {
        if nanos > Self::MAX.0 { Self::MAX } else { Self(nanos) }
    }

    /// Nanoseconds since the epoch; always below 2^63.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the epoch, as near as a double can say it.
    #[expect(clippy::cast_precision_loss, reason = "the nearest double is what is asked for")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0) as u128)
    }

    /// The moment `length` later, at most [`Moment::MAX`].
    #[must_use]
    pub fn after(self, length: Nanos) -> Self {
        let length = u64::try_from(length.0).unwrap_or(u64::MAX);
        Self::from_nanos(self.0.saturating_add(length))
    }

    /// The moment `length` earlier, at least [`Moment::EPOCH`].
    #[must_use]
    pub fn before(self, length: Nanos) -> Self {
        Self(self.0.saturating_sub(u64::try_from(length.0).unwrap_or(u64::MAX)))
    }
}

/// A length of time in whole nanoseconds.
///
/// Wider than a [`Moment`], because a bucket of 2^32 tokens that refills once a year takes longer
/// to fill than any clock runs, and the answer still says exactly how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u128);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A length of `nanos` nanoseconds.
    pub const fn new(nanos: u128) -> Self {
        Self(nanos)
    }

    /// A length of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs as u128 * 1_000_000_000)
    }

    /// The length in nanoseconds.
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(duration.as_nanos())
    }
}

/// The longest a [`Duration`] can be stands for anything longer.
impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        const SECOND: u128 = 1_000_000_000;
        match (u64::try_from(nanos.0 / SECOND), u32::try_from(nanos.0 % SECOND)) {
            (Ok(secs), Ok(rest)) => Self::new(secs, rest),
            _ => Self::MAX,
        }
    }
}

/// Written as the limits files write a duration: `1h30m`, `250ms`, `0s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 7] = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (size, unit) in UNITS {
            // A period of "180m" reads as 3h; one of a day and an hour as 1d1h.
            if rest >= size {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

/// A length of time as people read it: two units at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief(Nanos);

impl Nanos {
    /// The length with two units at most, and tenths of a second or less, for people. It is rounded
    /// up, as every wait is: who comes back then is not too early.
    ///
    /// ```
    /// use ratekeeper_time::Nanos;
    ///
    /// assert_eq!(Nanos::new(299_812_345_678).brief().to_string(), "4m59.9s");
    /// assert_eq!(Nanos::new(299_999_999_999).brief().to_string(), "5m");
    /// assert_eq!(Nanos::new(1_234_567).brief().to_string(), "1.3ms");
    /// ```
    pub const fn brief(self) -> Brief {
        Brief(self)
    }
}

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u128 = 24 * HOUR;
        const HOUR: u128 = 60 * MINUTE;
        const MINUTE: u128 = 60 * SECOND;
        const SECOND: u128 = 1_000_000_000;
        let nanos = self.0.get();
        let step = match nanos {
            DAY.. => HOUR,
            HOUR.. => MINUTE,
            SECOND.. => SECOND / 10,
            1_000_000.. => 100_000,
            1_000.. => 100,
            _ => 1,
        };
        // What is rounded up may be a larger unit, which is then written as one.
        let rounded = nanos.div_ceil(step).saturating_mul(step);
        let (size, unit) = match rounded {
            SECOND.. => (SECOND, "s"),
            1_000_000.. => (1_000_000, "ms"),
            _ => (1_000, "us"),
        };
        let tenth = rounded % size * 10 / size;
        if tenth == 0 || rounded < 1_000 {
            return Nanos::new(rounded).fmt(f);
        }
        if rounded >= MINUTE {
            write!(f, "{}m", rounded / MINUTE)?;
        }
        write!(f, "{}.{tenth}{unit}", rounded % MINUTE / size)
    }
}

/// Tells the time without ever stepping: the wall clock at the start, plus what has passed since
/// by a clock that only runs forward.
///
/// The engine never calls it; it is for the caller to say what `now` is.
///
/// ```
/// let clock = ratekeeper_time::Clock::start();
/// let now = clock.now();
/// assert!(clock.now() >= now);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall_nanos: u64,
    start: Instant,
}

impl Clock {
    /// A clock that agrees with the wall clock now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
    pub fn start() -> Self {
        Self { wall_nanos: Self::wall().as_nanos(), start: Instant::now() }
    }

    /// What the wall clock says now. Whoever sets it, such as NTP, makes this step, also back: it is
    /// for what people read and write, and not for buckets.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
    pub fn wall() -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment::from_nanos(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX))
    }

    /// What time it is; never earlier than what it said before.
    pub fn now(&self) -> Moment {
        let elapsed = self.start.elapsed();
        let nanos = elapsed.as_secs().saturating_mul(1_000_000_000);
        let nanos = nanos.saturating_add(elapsed.subsec_nanos().into());
        Moment::from_nanos(self.wall_nanos.saturating_add(nanos))
    }
}
