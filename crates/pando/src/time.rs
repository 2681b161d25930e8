//! Times on the command line.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) u64);

impl FromStr for Time {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Time, &'static str> {
        let wrong = "2026-01-31, 2026-01-31T12:00:00Z, or 30m, 12h, 7d ago";
        if let Some(ago) = seconds_ago(text) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            return Ok(Time(now.saturating_sub(ago).saturating_mul(1_000_000)));
        }
        moment(text).map(Time).ok_or(wrong)
    }
}

fn seconds_ago(text: &str) -> Option<u64> {
    let unit = match text.as_bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3_600,
        b'd' => 86_400,
        _ => return None,
    };
    text.get(..text.len() - 1)?.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses a date, or a date and time in UTC with optional fractions of a second. Commands print times in the same
/// forms.
fn moment(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let time = time.strip_suffix('Z')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_fraction = (1..=6).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = format!("{fraction:0<6}").parse::<u64>().ok().filter(|_| is_fraction)?;
    let numbers = |text: &str, separator| {
        text.split(separator).map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()
    };
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let [hour, minute, second] = numbers(time, ':')?[..] else { return None };
    let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    Some(directory::csn::unix_seconds(&text)? * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(moment(text), expected, "{text}");
        };
        check("1970-01-01", Some(0));
        check("2000-02-29T12:30:05Z", Some(951_827_405_000_000));
        check("2026-11-24T08:00:00Z", Some(1_795_507_200_000_000));
        check("2000-02-29T12:30:05.000001Z", Some(951_827_405_000_001));
        check("2000-02-29T12:30:05.5Z", Some(951_827_405_500_000));
        check("2000-02-29T12:30:05.Z", None);
        check("2000-02-29T12:30:05.1234567Z", None);
        check("2000-02-29T12:30:05.+5Z", None);
        check("2026-13-01", None);
        check("2026-01-01T25:00:00Z", None);
        check("yesterday", None);
        assert_eq!(seconds_ago("12h"), Some(43_200));
        assert!("soon".parse::<Time>().is_err());
    }
}
