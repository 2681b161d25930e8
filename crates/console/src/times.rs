//! Formatting and parsing of times and sizes for people. All times are in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use time::{Date, Month, OffsetDateTime};

/// Number of microseconds in a second.
const SECOND: u64 = 1_000_000;

/// Returns the current time in microseconds since 1970-01-01T00:00:00Z.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Formats a time as `2026-11-27 08:10:00 UTC`.
pub(crate) fn readable(micros: u64) -> String {
    let text = text(micros);
    format!("{} UTC", text.trim_end_matches('Z').replacen('T', " ", 1))
}

/// Formats a time in whole seconds, for example `2026-11-27T08:10:00Z`. [`micros`] can parse the text.
pub(crate) fn text(micros: u64) -> String {
    let seconds = i64::try_from(micros / SECOND).unwrap_or(0);
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = time.to_hms();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Formats a time with microseconds, for example `2026-11-27T08:10:00.000007Z`. [`micros`] can parse the text.
pub(crate) fn text_of(micros: u64) -> String {
    match micros % SECOND {
        0 => text(micros),
        fraction => format!("{}.{fraction:06}Z", text(micros).trim_end_matches('Z')),
    }
}

/// Formats a duration in its two largest units.
pub(crate) fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (size, unit) in UNITS {
        if rest >= size {
            parts.push(format!("{} {unit}", rest / size));
            rest %= size;
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// Formats a number of bytes.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        bytes if bytes >= 1 << 20 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        bytes if bytes >= 1 << 10 => format!("{:.1} KiB", bytes as f64 / f64::from(1 << 10)),
        bytes => format!("{bytes} B"),
    }
}

/// Parses a time. It can be a duration before `now` (`30m`, `12h`, `7d`), a day, or a day and a time in UTC with or
/// without seconds. Returns the microseconds since 1970; `None` if the text is no time.
pub(crate) fn micros(text: &str, now: u64) -> Option<u64> {
    let text = text.trim().trim_end_matches(['Z', 'z']);
    let ago = |count: &str, unit: u64| {
        let span = count.parse::<u64>().ok()?.checked_mul(unit)?.checked_mul(SECOND)?;
        Some(now.saturating_sub(span))
    };
    for (letter, unit) in [('m', 60), ('h', 3_600), ('d', 86_400)] {
        if let Some(count) = text.strip_suffix(letter) {
            return ago(count, unit);
        }
    }
    let (day, clock) = text.split_once(['T', ' ']).unwrap_or((text, "0:0"));
    let day: Vec<&str> = day.splitn(3, '-').collect();
    let [year, month, day] = day.as_slice() else { return None };
    let month = Month::try_from(month.parse::<u8>().ok()?).ok()?;
    let date = Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()?;
    let clock: Vec<&str> = clock.splitn(3, ':').collect();
    let [hour, minute, rest @ ..] = clock.as_slice() else { return None };
    let (second, fraction) =
        rest.first().map_or(("0", ""), |rest| rest.split_once('.').unwrap_or((rest, "")));
    let second = second.parse().ok()?;
    let time = date.with_hms(hour.parse().ok()?, minute.parse().ok()?, second).ok()?.assume_utc();
    let whole = u64::try_from(time.unix_timestamp()).ok()?.checked_mul(SECOND)?;
    // Digits after the sixth are ignored.
    let fraction = format!("{fraction:0<6}").get(..6)?.parse::<u64>().ok()?;
    whole.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(readable(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(readable(1_795_767_000_000_000), "2026-11-27 08:10:00 UTC");
        assert!(!readable(u64::MAX).is_empty());
    }

    #[test]
    fn times_parse_as_formatted() {
        let now = 1_795_767_000_000_000;
        assert_eq!(micros(&text(now), 0), Some(now));
        assert_eq!(micros(&text_of(now + 7), 0), Some(now + 7));
        assert_eq!(micros("2026-11-27T08:10", 0), Some(now));
        assert_eq!(micros("2026-11-27 08:10:00", 0), Some(now));
        assert_eq!(micros("2026-11-27", 0), Some(now - (8 * 60 + 10) * 60 * SECOND));
        assert_eq!(micros("2026-11-27T08:10:00.0000079Z", 0), Some(now + 7));
        assert_eq!(micros(" 2h ", now), Some(now - 7_200 * SECOND));
        assert_eq!(micros("99999999999999999d", 5), None, "more than a number holds");
        for wrong in ["", "h", "-1h", "yesterday", "2026-13-01", "2026-11-27T25:00", "1969-01-01", "T", "é"]
        {
            assert_eq!(micros(wrong, now), None, "{wrong}");
        }
    }

    #[test]
    fn spans_have_two_units() {
        assert_eq!(span(0), "0 s");
        assert_eq!(span(90), "1 min 30 s");
        assert_eq!(span(31_536_000), "365 d");
        assert_eq!(span(100_000), "1 d 3 h");
    }
}
