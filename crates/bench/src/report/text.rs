//! Figures as text for people.

use crate::result::Latency;

/// Text in place of a figure that is absent.
pub const NOTHING: &str = "–";

/// Formats a rate with commas between thousands: `441,029`; rates below 100 have one decimal.
pub fn rate(per_second: f64) -> String {
    if per_second < 99.95 { format!("{per_second:.1}") } else { count(per_second.round() as u64) }
}

/// Formats a count with commas between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time as three digits with a suitable unit: `870 µs`, `1.48 ms`, `37.2 s`.
pub fn micros(micros: f64) -> String {
    match micros {
        micros if micros < 999.5 => format!("{} µs", three_digits(micros)),
        micros if micros < 999_500.0 => format!("{} ms", three_digits(micros / 1e3)),
        micros => format!("{} s", three_digits(micros / 1e6)),
    }
}

/// Returns the latency that this percentage of the operations did not exceed, if there were any.
pub(crate) fn percentile(latency: &Latency, percentile: f64) -> Option<String> {
    latency.percentile_micros(percentile).map(|latency| micros(latency as f64))
}

/// Formats octets as three digits with a binary unit: `512 B`, `1.50 GiB`.
pub fn bytes(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 999.5 {
            return format!("{} {unit}", three_digits(value));
        }
        value /= 1024.0;
    }
    format!("{} TiB", three_digits(value))
}

/// Formats a number for an axis: `50 k`, `1.2 M`.
pub fn short(number: f64) -> String {
    let scaled = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match number.abs() {
        size if size >= 1e6 => scaled(number / 1e6, " M"),
        size if size >= 1e4 => scaled(number / 1e3, " k"),
        _ => scaled(number, ""),
    }
}

/// Formats a ratio: `1.84×`, `24×`.
pub fn ratio(ratio: f64) -> String {
    format!("{}×", three_digits(ratio))
}

/// Formats seconds in the form in which the documents write load times: `01:54:05`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Formats a duration: `45 s`, `12 min`, `8 h`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 7200.0 => format!("{} h", short((seconds / 360.0).round() / 10.0)),
        seconds if seconds >= 300.0 => format!("{} min", short((seconds / 6.0).round() / 10.0)),
        seconds => format!("{} s", short((seconds * 10.0).round() / 10.0)),
    }
}

/// Formats a percentile as in HdrHistogram's plots. The percentile is given as the number of nines: 0 is 0%, 1 is 90%,
/// 3 is 99.9%.
pub fn nines(nines: f64) -> String {
    match nines.round() as usize {
        0 => "0%".to_owned(),
        1 => "90%".to_owned(),
        2 => "99%".to_owned(),
        count => format!("99.{}%", "9".repeat(count - 2)),
    }
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_formatted_for_people() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (441_029, "441,029"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(number), text);
        }
        for (value, text) in [(2.13, "2.1"), (99.9, "99.9"), (99.96, "100"), (1562.5, "1,563")] {
            assert_eq!(rate(value), text);
        }
        for (value, text) in [
            (1.0, "1.00 µs"),
            (870.0, "870 µs"),
            (999.6, "1.00 ms"),
            (1480.0, "1.48 ms"),
            (37_200_000.0, "37.2 s"),
        ] {
            assert_eq!(micros(value), text);
        }
        for (value, text) in [(512.0, "512 B"), (1_610_612_736.0, "1.50 GiB"), (1e15, "909 TiB")] {
            assert_eq!(bytes(value), text);
        }
        for (value, text) in
            [(0.0, "0"), (0.5, "0.5"), (2500.0, "2500"), (50_000.0, "50 k"), (1_250_000.0, "1.25 M")]
        {
            assert_eq!(short(value), text);
        }
        for (value, text) in [(6845.0, "01:54:05"), (107_653.4, "29:54:13"), (0.2, "00:00:00")] {
            assert_eq!(clock(value), text);
        }
        for (value, text) in
            [(0.04, "0 s"), (45.0, "45 s"), (720.0, "12 min"), (28_800.0, "8 h"), (5400.0, "90 min")]
        {
            assert_eq!(duration(value), text);
        }
        for (value, text) in [(0.0, "0%"), (2.0, "99%"), (4.0, "99.99%")] {
            assert_eq!(nines(value), text);
        }
        assert_eq!((ratio(1.844).as_str(), ratio(24.31).as_str()), ("1.84×", "24.3×"));
    }
}
