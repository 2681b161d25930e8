//! Faults that a responder simulates.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Seeded;

/// Faults that a responder simulates; none by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Delay of answers.
    pub delay: Delay,
    /// Periodic stalls.
    pub stall: Option<Stall>,
    /// Interval, in requests, at which a search is answered with a wrong entry.
    pub wrong_every: Option<u64>,
    /// Interval, in requests, at which the responder closes a connection instead of sending an answer.
    pub close_every: Option<u64>,
    /// Seed of random delays.
    pub seed: u64,
}

/// Periodic stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Length of each stall.
    pub length: Duration,
    /// Time from the beginning of one stall to the beginning of the next.
    pub every: Duration,
    /// Number of stalls; unlimited if absent.
    pub times: Option<usize>,
}

/// Distribution of the delay of answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Delay {
    /// No delay.
    #[default]
    None,
    /// The same delay for all answers.
    Constant(Duration),
    /// A delay that is uniformly distributed between two values.
    Uniform(Duration, Duration),
    /// One of two delays: a share of the answers is slow, and the others are fast.
    Bimodal {
        /// Delay of fast answers.
        fast: Duration,
        /// Delay of slow answers.
        slow: Duration,
        /// Share of slow answers, 0 to 1.
        slow_share: f64,
    },
    /// A delay that is exponentially distributed with this mean.
    Exponential(Duration),
}

impl Delay {
    /// Returns true if answers are not delayed.
    pub fn is_none(&self) -> bool {
        *self == Delay::None
    }

    /// Draws one delay.
    pub(super) fn draw(&self, random: &mut Seeded) -> Duration {
        let mut share = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        match self {
            Delay::None => Duration::ZERO,
            Delay::Constant(delay) => *delay,
            Delay::Uniform(from, to) => *from + to.saturating_sub(*from).mul_f64(share()),
            Delay::Bimodal { fast, slow, slow_share } => {
                if share() < *slow_share {
                    *slow
                } else {
                    *fast
                }
            }
            Delay::Exponential(mean) => mean.mul_f64(-(1.0 - share()).ln()),
        }
    }
}

/// Writes the delay in the form that can be parsed.
impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::None => f.write_str("none"),
            Delay::Constant(delay) => write!(f, "constant:{}us", delay.as_micros()),
            Delay::Uniform(from, to) => write!(f, "uniform:{}us,{}us", from.as_micros(), to.as_micros()),
            Delay::Bimodal { fast, slow, slow_share } => {
                write!(f, "bimodal:{}us,{}us,{}%", fast.as_micros(), slow.as_micros(), slow_share * 100.0)
            }
            Delay::Exponential(mean) => write!(f, "exponential:{}us", mean.as_micros()),
        }
    }
}

/// Writes the stalls in the form that can be parsed.
impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us/{}us", self.length.as_micros(), self.every.as_micros())
    }
}

/// Error: the text is not a delay or a stall.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not understood: {1}")]
pub struct FaultError(String, &'static str);

/// Parses `500us`, `2ms`, `1.5s`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.')?;
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

impl FromStr for Delay {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Delay, FaultError> {
        let parse = || {
            let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
            let parts: Vec<&str> = rest.split(',').collect();
            Some(match (kind, parts.as_slice()) {
                ("none", [""]) => Delay::None,
                ("constant", [delay]) => Delay::Constant(duration(delay)?),
                ("uniform", [from, to]) => Delay::Uniform(duration(from)?, duration(to)?),
                ("exponential", [mean]) => Delay::Exponential(duration(mean)?),
                ("bimodal", [fast, slow, percent]) => {
                    let percent: f64 = percent.strip_suffix('%')?.parse().ok()?;
                    let slow_share = (0.0..=100.0).contains(&percent).then_some(percent / 100.0)?;
                    Delay::Bimodal { fast: duration(fast)?, slow: duration(slow)?, slow_share }
                }
                _ => return None,
            })
        };
        const FORMS: &str =
            "write none, constant:2ms, uniform:1ms,5ms, exponential:2ms or bimodal:1ms,50ms,5%";
        parse().ok_or_else(|| FaultError(text.to_owned(), FORMS))
    }
}

impl FromStr for Stall {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Stall, FaultError> {
        let parse = || {
            let (length, every) = text.split_once('/')?;
            Some(Stall { length: duration(length)?, every: duration(every)?, times: None })
        };
        parse().ok_or_else(|| FaultError(text.to_owned(), "write LENGTH/EVERY, as 1s/10s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_parsed() {
        let millis = Duration::from_millis;
        for (text, expected) in [
            ("none", Some(Delay::None)),
            ("constant:500us", Some(Delay::Constant(Duration::from_micros(500)))),
            ("uniform:1ms,1.5s", Some(Delay::Uniform(millis(1), millis(1500)))),
            ("exponential:2ms", Some(Delay::Exponential(millis(2)))),
            (
                "bimodal:1ms,50ms,5%",
                Some(Delay::Bimodal { fast: millis(1), slow: millis(50), slow_share: 0.05 }),
            ),
            ("constant:5", None),
            ("constant:-5ms", None),
            ("bimodal:1ms,2ms,500%", None),
            ("often", None),
        ] {
            assert_eq!(text.parse::<Delay>().ok(), expected, "{text}");
            if let Some(delay) = expected {
                assert_eq!(delay.to_string().parse(), Ok(delay), "{text}");
            }
        }
        assert_eq!("1000000us/10000000us", "1s/10s".parse::<Stall>().unwrap().to_string());
        assert_eq!("1s/10s".parse(), Ok(Stall { length: millis(1000), every: millis(10_000), times: None }));
        assert!("1s".parse::<Stall>().is_err());
    }

    #[test]
    fn delays_follow_the_named_distribution() {
        let millis = Duration::from_millis;
        let mean = |delay: Delay| {
            let mut random = Seeded::new(1);
            (0..100_000).map(|_| delay.draw(&mut random).as_secs_f64() * 1e3).sum::<f64>() / 1e5
        };
        let bimodal = Delay::Bimodal { fast: millis(1), slow: millis(101), slow_share: 0.1 };
        for (delay, expected) in [
            (Delay::Constant(millis(3)), 3.0),
            (Delay::Uniform(millis(2), millis(6)), 4.0),
            (Delay::Exponential(millis(5)), 5.0),
            (bimodal, 11.0),
        ] {
            let found = mean(delay.clone());
            assert!((found / expected - 1.0).abs() < 0.02, "{delay:?}: {found} ms");
        }
    }
}
