//! Latencies: an HdrHistogram, saved in the text form that all HdrHistogram tools read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;

/// Maximum latency that the histogram distinguishes: 600 s.
pub const HISTOGRAM_MAX_MICROS: u64 = 600_000_000;
/// Number of significant decimal digits of a latency.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// Maximum size of a histogram in octets before compression. A histogram with these bounds has about 20,000 counts of
/// up to 9 octets.
const PLAIN_BYTES_MAX: u64 = 1 << 18;
/// Maximum number of nines that a plot of the distribution shows: 99.9999%.
pub(crate) const NINES_MAX: f64 = 6.0;
/// Number of points of a percentile plot for each nine.
const POINTS_A_NINE: f64 = 20.0;
/// Percentiles in the tables and figures of reports.
const TABLE_PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 100.0];

/// Size in octets of the header of a histogram: cookie, length, offset, digits, lowest, highest, ratio.
const HEAD_BYTES: usize = 40;

/// Latencies of any number of operations, in microseconds from 1 to [`HISTOGRAM_MAX_MICROS`] with [`HISTOGRAM_DIGITS`]
/// digits. All histograms have these bounds, so their counts can be added without loss. The JSON form contains the
/// histogram (V2, compressed, base64), and the usual percentiles for human readers. Only the histogram is read back.
#[derive(Clone, PartialEq)]
pub struct Latency(Histogram<u64>);

impl std::fmt::Debug for Latency {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Latency({} counted, at most {} us)", self.0.len(), self.0.max())
    }
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl Latency {
    /// Returns an empty histogram.
    pub fn new() -> Latency {
        Latency(
            Histogram::new_with_bounds(1, HISTOGRAM_MAX_MICROS, HISTOGRAM_DIGITS).expect("constant bounds"),
        )
    }

    /// Records one latency. Latencies below a microsecond count as one microsecond. Latencies above
    /// [`HISTOGRAM_MAX_MICROS`] count as this maximum.
    pub fn record(&mut self, latency: Duration) {
        self.record_micros(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// Records one latency in microseconds, with the same limits as [`record`](Latency::record).
    pub fn record_micros(&mut self, micros: u64) {
        self.0.saturating_record(micros.clamp(1, HISTOGRAM_MAX_MICROS));
    }

    /// Adds the counts of another histogram, without loss.
    pub fn add(&mut self, other: &Latency) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
        } else if !other.0.is_empty() {
            self.0.add(&other.0).expect("the same bounds");
        }
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the latency in microseconds that `percentile` (0 to 100) of all operations did not exceed; `None` if
    /// there are no operations.
    pub fn percentile_micros(&self, percentile: f64) -> Option<u64> {
        let quantile = (percentile / 100.0).clamp(0.0, 1.0);
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile).min(self.0.max()))
    }

    /// Returns the mean latency in microseconds.
    pub fn mean_micros(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean())
    }

    /// Returns the longest latency in microseconds.
    pub fn max_micros(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.max())
    }

    /// Returns the points of the distribution that reports plot. Each point is a share of the operations, as its number
    /// of nines, and the latency in microseconds that this share did not exceed. The points end at the number of nines
    /// beyond which only the longest latency remains, but at the latest at [`NINES_MAX`].
    pub fn distribution(&self) -> Vec<(f64, u64)> {
        let most = (self.count().max(1) as f64).log10().min(NINES_MAX);
        let steps = (most * POINTS_A_NINE).ceil() as u32;
        let nines = (0..=steps).map(|step| (f64::from(step) / POINTS_A_NINE).min(most));
        nines
            .filter_map(|nines| {
                let percentile = 100.0 * (1.0 - 10_f64.powf(-nines));
                Some((nines, self.percentile_micros(percentile)?))
            })
            .collect()
    }

    /// Returns the latencies that reports show, as percentiles in tables or as points in plots.
    fn reported_micros(&self) -> impl Iterator<Item = u64> {
        let table = TABLE_PERCENTILES.into_iter().filter_map(|percentile| self.percentile_micros(percentile));
        table.chain(self.distribution().into_iter().map(|(_, micros)| micros))
    }

    /// Reduces the size of the histograms of one result. The percentiles that reports show stay the same, both in each
    /// histogram and in the sum of all. The latencies at these percentiles keep their counts. All counts between two
    /// such latencies are combined at the mean of their latencies, so the mean of all latencies stays the same too,
    /// except for negligible rounding.
    pub(super) fn thin(latencies: &mut [&mut Latency]) {
        let mut together = Latency::new();
        latencies.iter().for_each(|latency| together.add(latency));
        let shown =
            latencies.iter().flat_map(|latency| latency.reported_micros()).chain(together.reported_micros());
        let shown_bounds: BTreeSet<u64> = shown.map(|micros| together.0.lowest_equivalent(micros)).collect();
        latencies.iter_mut().for_each(|latency| **latency = latency.thinned(&shown_bounds));
    }

    /// Reduces one histogram. `shown_bounds` has the lowest values of the buckets that remain.
    fn thinned(&self, shown_bounds: &BTreeSet<u64>) -> Latency {
        let bucket = |recorded: IterationValue<u64>| {
            (self.0.lowest_equivalent(recorded.value_iterated_to()), recorded.count_at_value())
        };
        let mut buckets: Vec<(u64, u64)> = self.0.iter_recorded().map(bucket).collect();
        // Process the buckets from the longest latency to the shortest. The rounding error is carried to the next
        // bucket, and buckets of shorter latencies are finer.
        buckets.reverse();
        let same_run = |(longer, _): &(u64, u64), (shorter, _): &(u64, u64)| {
            shown_bounds.range(shorter..=longer).next().is_none()
        };
        let runs: Vec<&[(u64, u64)]> = buckets.chunk_by(same_run).collect();
        let last = runs.iter().rposition(|run| run.len() > 1);
        let weight = |micros: u64| i128::from(self.0.median_equivalent(micros));
        let mut thinned = Latency::new();
        let mut owed = 0;
        for (number, run) in runs.into_iter().enumerate() {
            let ([(longest, _), ..], [.., (shortest, _)]) = (run, run) else { continue };
            let count: u64 = run.iter().map(|(_, count)| count).sum();
            owed += run.iter().map(|(micros, count)| weight(*micros) * i128::from(*count)).sum::<i128>();
            let mean = u64::try_from(owed / i128::from(count)).unwrap_or_default();
            let mean = self.0.lowest_equivalent(mean.clamp(*shortest, *longest));
            owed -= weight(mean) * i128::from(count);
            // The last count is split between two adjacent buckets, so that no rounding error remains.
            let beside = if owed < 0 { mean.saturating_sub(1) } else { self.0.next_non_equivalent(mean) };
            let mut moved = 0;
            if Some(number) == last && (*shortest..=*longest).contains(&beside) {
                let step = weight(beside) - weight(mean);
                moved = u64::try_from(owed / step).unwrap_or_default().min(count);
                owed -= step * i128::from(moved);
            }
            let counts = [(mean, count - moved), (beside, moved)].into_iter().filter(|(_, count)| *count > 0);
            counts.for_each(|(micros, count)| thinned.0.saturating_record_n(micros, count));
        }
        thinned
    }

    /// Returns the histogram.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    /// Returns the text form (V2, compressed, base64).
    pub fn to_text(&self) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        written.expect("a histogram fits into memory");
        STANDARD.encode(bytes)
    }

    /// Reads the text form. Refuses a histogram with other bounds, because its counts could not be added without loss.
    ///
    /// # Errors
    /// A description of the error.
    pub fn from_text(text: &str) -> Result<Latency, String> {
        let bytes = STANDARD.decode(text).map_err(|error| format!("histogram: {error}"))?;
        let plain = inflate(&bytes).ok_or("histogram: not of version 2, compressed")?;
        let read = Deserializer::new().deserialize::<u64, _>(&mut plain.as_slice());
        let read = read.map_err(|error| format!("histogram: {error}"))?;
        if (read.low(), read.high(), read.sigfig()) != (1, HISTOGRAM_MAX_MICROS, HISTOGRAM_DIGITS) {
            return Err(format!(
                "a histogram from {} to {} with {} digits, not 1 to {HISTOGRAM_MAX_MICROS} with {HISTOGRAM_DIGITS}",
                read.low(),
                read.high(),
                read.sigfig()
            ));
        }
        Ok(Latency(read))
    }
}

/// Decompresses with bounded memory. Also checks the length in the header, because the code that reads the uncompressed
/// form allocates that length.
fn inflate(bytes: &[u8]) -> Option<Vec<u8>> {
    let (_cookie_and_length, compressed) = bytes.split_at_checked(8)?;
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(compressed).take(PLAIN_BYTES_MAX).read_to_end(&mut plain).ok()?;
    let announced = u32::from_be_bytes(plain.get(4..8)?.try_into().ok()?);
    (plain.len().checked_sub(HEAD_BYTES)? == announced as usize).then_some(plain)
}

impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Latency", 9)?;
        let micros = |percentile| self.percentile_micros(percentile);
        let mean = self.mean_micros().map(|mean| (mean * 10.0).round() / 10.0);
        if mean.is_some_and(|mean| !mean.is_finite()) {
            return Err(S::Error::custom("a mean that is no number"));
        }
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("mean_micros", &mean)?;
        fields.serialize_field("p50_micros", &micros(50.0))?;
        fields.serialize_field("p90_micros", &micros(90.0))?;
        fields.serialize_field("p99_micros", &micros(99.0))?;
        fields.serialize_field("p99_9_micros", &micros(99.9))?;
        fields.serialize_field("p99_99_micros", &micros(99.99))?;
        fields.serialize_field("max_micros", &self.max_micros())?;
        fields.serialize_field("histogram", &self.to_text())?;
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Latency, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            histogram: String,
        }
        let Fields { histogram } = Fields::deserialize(deserializer)?;
        Latency::from_text(&histogram).map_err(D::Error::custom)
    }
}
