//! Axes with round ticks and human-readable units.

use super::text;
use std::ops::Range;

/// Quantity on an axis. It determines the ticks and their labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Number of operations, entries or connections.
    Number,
    /// Seconds since the beginning.
    Seconds,
    /// Times, in microseconds.
    Micros,
    /// Octets.
    Bytes,
    /// Percent of one processor.
    Percent,
    /// Quantile, as its number of nines: log10(1 / (1 - quantile)).
    Nines,
}

/// One axis of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    quantity: Quantity,
    is_log: bool,
    /// Range in the coordinates of the axis. On a logarithmic axis, coordinates are logarithms of values.
    range: Range<f64>,
    ticks: Vec<f64>,
}

/// Approximate number of ticks of an axis.
const TICKS_WANTED: f64 = 5.0;

impl Axis {
    /// Returns an axis from 0 to a round number that is at least `largest`.
    pub(crate) fn linear(quantity: Quantity, largest: f64) -> Axis {
        let largest = if largest > 0.0 && largest.is_finite() { largest } else { 1.0 };
        let step = step(quantity, largest / TICKS_WANTED);
        let last = (largest / step).ceil() * step;
        let ticks = (0..=(last / step).round() as u32).map(|index| f64::from(index) * step).collect();
        Axis { quantity, is_log: false, range: 0.0..last, ticks }
    }

    /// Returns an axis of time or percentiles that spans exactly `range`, with ticks inside.
    pub(crate) fn exact(quantity: Quantity, range: Range<f64>) -> Axis {
        let range = if range.end > range.start { range } else { range.start..range.start + 1.0 };
        let step = match quantity {
            Quantity::Nines => 1.0,
            _ => step(quantity, (range.end - range.start) / TICKS_WANTED),
        };
        let first = (range.start / step).ceil() as i64;
        let ticks =
            (first..).map(|index| index as f64 * step).take_while(|tick| *tick <= range.end + step * 1e-6);
        Axis { quantity, is_log: false, ticks: ticks.collect(), range }
    }

    /// Returns a logarithmic axis around these values. The axis spans at least a factor of ten, or of two for octets.
    pub(crate) fn log(quantity: Quantity, values: Range<f64>) -> Axis {
        let low = values.start.max(1e-3);
        let high = values.end.max(low);
        if quantity == Quantity::Bytes {
            return Axis::powers_of_two(low, high);
        }
        let mut first = low.log10().floor();
        let mut last = high.log10().ceil();
        if last - first < 1.0 {
            last = first + 1.0;
        }
        // If the first or the last decade is mostly empty, only half or a fifth of it is shown.
        for cut in [2.0_f64, 5.0] {
            if low >= cut * 10_f64.powf(first) && last - first > 1.0 {
                first = first.floor() + cut.log10();
            }
        }
        for cut in [5.0_f64, 2.0] {
            if high <= cut * 10_f64.powf(last.ceil() - 1.0) && last - first > 1.0 {
                last = last.ceil() - 1.0 + cut.log10();
            }
        }
        let steps: &[f64] = if last - first <= 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = (first.floor() as i32)..=(last.ceil() as i32);
        let ticks = decades
            .flat_map(|decade| steps.iter().map(move |step| f64::from(decade) + step.log10()))
            .filter(|tick| (first - 1e-9..=last + 1e-9).contains(tick))
            .collect();
        Axis { quantity, is_log: true, range: first..last, ticks }
    }

    /// Returns a logarithmic axis for octets, with ticks at powers of two.
    fn powers_of_two(low: f64, high: f64) -> Axis {
        let first = low.log2().floor();
        let last = high.log2().ceil().max(first + 1.0);
        let each = ((last - first) / (2.0 * TICKS_WANTED)).ceil().max(1.0);
        let powers = (0..).map(|index| first + f64::from(index) * each).take_while(|power| *power <= last);
        let ticks = powers.map(|power| 2_f64.powf(power).log10()).collect();
        let range = 2_f64.powf(first).log10()..2_f64.powf(last).log10();
        Axis { quantity: Quantity::Bytes, is_log: true, range, ticks }
    }

    /// Returns the coordinate of a value. For a value beyond the axis, returns the nearest end of the axis.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = if self.is_log { value.max(1e-3).log10() } else { value };
        place.clamp(self.range.start, self.range.end)
    }

    /// Returns true if a value is within the axis.
    pub(crate) fn has(&self, value: f64) -> bool {
        let place = if self.is_log { value.max(1e-3).log10() } else { value };
        self.range.start <= place && place <= self.range.end
    }

    /// Returns the coordinates of the ticks.
    pub(crate) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// Returns the first and the last coordinate.
    pub(crate) fn ends(&self) -> (f64, f64) {
        (self.range.start, self.range.end)
    }

    /// Returns the text of a coordinate.
    pub(crate) fn label(&self, place: f64) -> String {
        let value = if self.is_log { 10_f64.powf(place) } else { place };
        // Conversion from the logarithm has a rounding error.
        let value = if self.is_log { (value * 1e6).round() / 1e6 } else { value };
        match self.quantity {
            Quantity::Number => text::short(value),
            Quantity::Percent => format!("{}%", text::short(value)),
            Quantity::Seconds => clock(value, self.range.end),
            Quantity::Nines => text::nines(value),
            Quantity::Micros => shorter(text::micros(value)),
            Quantity::Bytes => shorter(text::bytes(value)),
        }
    }
}

/// Shortens `1.00 ms` to `1 ms`.
fn shorter(text: String) -> String {
    let Some((number, unit)) = text.split_once(' ') else { return text };
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    if number == "0" { "0".to_owned() } else { format!("{number} {unit}") }
}

/// Formats a time in seconds for a short run, and with minutes and hours for a long run.
fn clock(seconds: f64, whole: f64) -> String {
    let whole_seconds = seconds.round() as i64;
    if whole < 300.0 {
        format!("{whole_seconds} s")
    } else if whole < 7200.0 {
        format!("{} min", text::short(seconds / 60.0))
    } else {
        format!("{} h", text::short(seconds / 3600.0))
    }
}

/// Returns a round step between ticks that is close to the wanted step. It is 1, 2, 2.5 or 5 times a power of ten, a
/// power of two for octets, and a round clock time for a time of up to two hours.
fn step(quantity: Quantity, wanted: f64) -> f64 {
    const TIMES: [f64; 14] =
        [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0];
    match quantity {
        Quantity::Bytes => 2_f64.powf(wanted.max(1.0).log2().ceil()),
        Quantity::Seconds if wanted <= 7200.0 => {
            TIMES.into_iter().find(|step| *step >= wanted).unwrap_or(7200.0)
        }
        _ => {
            let magnitude = 10_f64.powf(wanted.log10().floor());
            let times = [1.0, 2.0, 2.5, 5.0].into_iter().find(|times| times * magnitude >= wanted * 0.999);
            times.unwrap_or(10.0) * magnitude
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().iter().map(|tick| axis.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_few_round_numbers() {
        let check = |axis: Axis, expected: &[&str]| assert_eq!(labels(&axis), expected);
        check(Axis::linear(Quantity::Number, 106_432.0), &["0", "25 k", "50 k", "75 k", "100 k", "125 k"]);
        check(Axis::linear(Quantity::Number, 0.0), &["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        check(Axis::linear(Quantity::Percent, 96.0), &["0%", "20%", "40%", "60%", "80%", "100%"]);
        check(
            Axis::linear(Quantity::Bytes, 900.0 * 1048576.0),
            &["0", "256 MiB", "512 MiB", "768 MiB", "1 GiB"],
        );
        check(Axis::exact(Quantity::Seconds, 0.0..59.0), &["0 s", "15 s", "30 s", "45 s"]);
        check(Axis::exact(Quantity::Seconds, 0.0..28_800.0), &["0 h", "2 h", "4 h", "6 h", "8 h"]);
        check(Axis::exact(Quantity::Nines, 0.0..4.0), &["0%", "90%", "99%", "99.9%", "99.99%"]);
        check(Axis::log(Quantity::Micros, 150.0..900.0), &["100 µs", "200 µs", "500 µs", "1 ms"]);
        check(Axis::log(Quantity::Bytes, 30e6..200e6), &["16 MiB", "32 MiB", "64 MiB", "128 MiB", "256 MiB"]);
        check(Axis::log(Quantity::Micros, 30.0..1e6), &["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
    }

    #[test]
    fn values_outside_an_axis_are_drawn_at_its_edge() {
        let axis = Axis::linear(Quantity::Number, 100.0);
        assert_eq!((axis.place(-5.0), axis.place(500.0)), (0.0, 100.0));
        assert!(axis.has(100.0) && !axis.has(101.0));
        assert!(!Axis::log(Quantity::Micros, f64::NAN..f64::NAN).ticks().is_empty());
    }
}
