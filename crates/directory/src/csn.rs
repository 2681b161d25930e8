//! Change sequence numbers in OpenLDAP's form, `YYYYmmddHHMMSS.uuuuuuZ#oooooo#sss#mmmmmm` (draft-chu-ldap-csn).
//!
//! A CSN is the time of a change in microseconds, a count of changes in the same microsecond, the server that made
//! it and a modification number. Here every change of the log has its own, strictly greater than the one before it,
//! whatever the clock does: [`Csn::after`] steps the count where the clock stands still or goes back.

use std::fmt;

use crate::limits::CSN_COUNT_MAX;

/// A change sequence number. Ordered as the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Csn {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
    /// Change within the microsecond, 0 to 0xffffff.
    pub count: u32,
    /// Server (replica) number, 0 to 0xfff.
    pub server: u16,
}

impl Csn {
    /// The number of a change made at `now_micros` that follows `last` in the log.
    pub fn after(last: Csn, now_micros: u64, server: u16) -> Csn {
        if now_micros > last.micros {
            return Csn { micros: now_micros, count: 0, server };
        }
        if last.count < CSN_COUNT_MAX {
            return Csn { micros: last.micros, count: last.count + 1, server };
        }
        Csn { micros: last.micros + 1, count: 0, server }
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Csn> {
        let mut parts = text.split('#');
        let micros = parse_micros(parts.next()?)?;
        let count = hex(parts.next()?, 6)?;
        let server = hex(parts.next()?, 3)?;
        hex(parts.next()?, 6)?;
        if parts.next().is_some() {
            return None;
        }
        Some(Csn { micros, count, server: u16::try_from(server).ok()? })
    }
}

impl Csn {
    /// The text form. Every change makes some, so no formatting machinery is used.
    fn text(self) -> String {
        let mut text = String::with_capacity(40);
        put_seconds(&mut text, self.micros / 1_000_000);
        text.push('.');
        put_digits::<10>(&mut text, self.micros % 1_000_000, 6);
        text.push_str("Z#");
        put_digits::<16>(&mut text, u64::from(self.count), 6);
        text.push('#');
        put_digits::<16>(&mut text, u64::from(self.server), 3);
        text.push_str("#000000");
        text
    }
}

impl fmt::Display for Csn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

fn hex(text: &str, digits: usize) -> Option<u32> {
    (text.len() == digits).then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

fn parse_micros(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if bytes.len() != 22 || bytes[14] != b'.' || bytes[21] != b'Z' {
        return None;
    }
    let number = |range: std::ops::Range<usize>| -> Option<u64> {
        let digits = text.get(range)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let (hour, minute, second) = (number(8..10)?, number(10..12)?, number(12..14)?);
    if year < 1970
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let days = days_from_civil(year as i64, month as i64, day as i64) as u64;
    Some((days * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000_000 + number(15..21)?)
}

/// The GeneralizedTime text `YYYYmmddHHMMSSZ` of a time in seconds since 1970 (RFC 4517 section 3.3.13).
pub fn generalized_time(unix_seconds: u64) -> String {
    let mut text = String::with_capacity(15);
    put_seconds(&mut text, unix_seconds);
    text.push('Z');
    text
}

/// Appends `YYYYmmddHHMMSS`; a year past 9999 has more digits.
fn put_seconds(out: &mut String, unix_seconds: u64) {
    let (days, rest) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil_from_days(days as i64);
    let year_digits = if year < 10_000 { 4 } else { year.ilog10() + 1 };
    put_digits::<10>(out, year as u64, year_digits);
    for two in [month as u64, day as u64, rest / 3_600, rest % 3_600 / 60, rest % 60] {
        put_digits::<10>(out, two, 2);
    }
}

/// Appends the last `digits` digits of a number, at most 16, in lower case.
fn put_digits<const BASE: u64>(out: &mut String, mut value: u64, digits: u32) {
    let mut text = [b'0'; 16];
    let used = &mut text[..digits.min(16) as usize];
    for digit in used.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value % BASE) as usize];
        value /= BASE;
    }
    out.extend(used.iter().map(|digit| char::from(*digit)));
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, by counting 400-year cycles of 146,097 days
/// in years that begin in March, so that the leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * 146_097 + day_of_cycle - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (cycle * 400 + year_of_cycle + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_goes_both_ways() {
        let csn = Csn { micros: 1_700_000_000_123_456, count: 10, server: 1 };
        assert_eq!(csn.to_string(), "20231114221320.123456Z#00000a#001#000000");
        assert_eq!(Csn::parse(&csn.to_string()), Some(csn));
        for bad in [
            "",
            "20231114221320Z#000000#000#000000",
            "20231114221320.123456Z#00000a#001",
            "2023é114221320.12345Z#00000a#001#000000",
        ] {
            assert_eq!(Csn::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_survives() {
        for day in 0..150_000 {
            let (year, month, day_of_month) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, day_of_month), day);
        }
        assert_eq!(generalized_time(951_782_400), "20000229000000Z");
        assert_eq!(generalized_time(253_402_300_800), "100000101000000Z");
    }

    #[test]
    fn numbers_increase_when_the_clock_steps_back() {
        let first = Csn::after(Csn::default(), 1_000, 0);
        let second = Csn::after(first, 10, 0);
        let full = Csn { count: CSN_COUNT_MAX, ..second };
        let third = Csn::after(full, 10, 0);
        assert!(first < second && second < full && full < third);
    }
}
