//! Histogram of the durations of operations.

use std::time::Duration;

use super::counter::Counter;

/// Binary logarithm of the upper bound of the first bucket, in microseconds. The bound of each further bucket is twice
/// the bound of the previous bucket.
const FIRST_BITS: u32 = 4;

/// Number of buckets that have an upper bound. The highest bound is 16.8 seconds.
const BOUNDED: usize = 21;

/// A histogram that only one thread writes and that every thread may read.
#[derive(Debug, Default)]
pub(super) struct LatencyCounters {
    /// The number of operations in each bucket. The last bucket has no upper bound.
    buckets: [Counter; BOUNDED + 1],
    micros: Counter,
}

impl LatencyCounters {
    /// Counts a number of operations that took `time` each. Must be called only by the thread that writes the
    /// histogram.
    pub(super) fn add(&self, operations: u64, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(micros)) {
            bucket.add(operations);
        }
        self.micros.add(micros.saturating_mul(operations));
    }
}

/// Returns the index of the first bucket whose upper bound is at least `micros`.
fn bucket_of(micros: u64) -> usize {
    let bits = u64::BITS - micros.saturating_sub(1).leading_zeros();
    (bits.saturating_sub(FIRST_BITS) as usize).min(BOUNDED)
}

/// Durations of operations, as the sum over all event loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latency {
    buckets: [u64; BOUNDED + 1],
    micros: u64,
}

impl Latency {
    /// Adds up the histograms of all event loops.
    pub(super) fn of<'c>(all: impl Iterator<Item = &'c LatencyCounters>) -> Latency {
        let mut sum = Latency::default();
        for counters in all {
            for (sum, bucket) in sum.buckets.iter_mut().zip(&counters.buckets) {
                *sum += bucket.value();
            }
            sum.micros = sum.micros.wrapping_add(counters.micros.value());
        }
        sum
    }

    /// Returns the number of operations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the total duration in microseconds.
    pub(crate) fn micros(&self) -> u64 {
        self.micros
    }

    /// Returns the total duration.
    pub(crate) fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros).as_secs_f64()
    }

    /// Returns the upper bound in seconds and the number of operations of each bucket.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bound = |bits| Duration::from_micros(1_u64 << bits).as_secs_f64();
        let bounds = (FIRST_BITS..).map(bound).take(BOUNDED).chain([f64::INFINITY]);
        bounds.zip(self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_equal_to_a_bound_is_in_its_bucket() {
        let check = |micros: u64, bucket: usize| assert_eq!(bucket_of(micros), bucket, "{micros}");
        check(0, 0);
        check(16, 0);
        check(17, 1);
        check(32, 1);
        check(33, 2);
        check(1 << 24, 20);
        check((1 << 24) + 1, BOUNDED);
        check(u64::MAX, BOUNDED);
        let counters = [LatencyCounters::default(), LatencyCounters::default()];
        counters[0].add(2, Duration::from_micros(1_024));
        counters[1].add(1, Duration::from_secs(60));
        let sum = Latency::of(counters.iter());
        assert_eq!((sum.count(), sum.seconds()), (3, 60.002_048));
        let buckets: Vec<_> = sum.buckets().filter(|(_, operations)| *operations > 0).collect();
        assert_eq!(buckets, [(0.001_024, 2), (f64::INFINITY, 1)]);
    }
}
