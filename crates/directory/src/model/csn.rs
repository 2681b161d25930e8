//! Change sequence numbers in OpenLDAP's form, `YYYYmmddHHMMSS.uuuuuuZ#oooooo#sss#mmmmmm` (draft-chu-ldap-csn).
//!
//! A CSN consists of the time of a change in microseconds, a counter within the microsecond, the number of the server
//! that made the change, and a modification number. The CSN of every change in the log is strictly greater than the
//! previous CSN: [`Csn::after`] increments the counter if the clock stops or goes back.

use std::fmt;

use crate::model::limits::CSN_COUNT_MAX;

/// A change sequence number. CSNs sort in the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Csn {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
    /// Counter within the microsecond, 0 to 0xffffff.
    pub count: u32,
    /// Server (replica) number, 0 to 0xfff.
    pub server: u16,
}

impl Csn {
    /// Returns the CSN of a change made at `now_micros`, greater than `last`, the last CSN in the log.
    pub fn after(last: Csn, now_micros: u64, server: u16) -> Csn {
        if now_micros > last.micros {
            return Csn { micros: now_micros, count: 0, server };
        }
        if last.count < CSN_COUNT_MAX {
            return Csn { micros: last.micros, count: last.count + 1, server };
        }
        Csn { micros: last.micros + 1, count: 0, server }
    }

    /// Parses the text form of a CSN.
    pub fn parse(text: &str) -> Option<Csn> {
        let mut parts = text.splitn(4, '#');
        let (time, count, server, modifier) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_whole = [time.len(), count.len(), server.len(), modifier.len()] == [22, 6, 3, 6];
        let micros = parse_micros(time.as_bytes()).filter(|_| is_whole)?;
        let count = number::<16>(count.as_bytes())?.try_into().ok()?;
        let server = number::<16>(server.as_bytes())?.try_into().ok()?;
        number::<16>(modifier.as_bytes())?;
        Some(Csn { micros, count, server })
    }

    /// Returns the text form. The function does not use `format!`, because every change formats several texts.
    pub(crate) fn text(self) -> String {
        let mut text = Text::default();
        text.seconds(self.micros / 1_000_000);
        text.marks(b".");
        text.digits::<10>(self.micros % 1_000_000, 6);
        text.marks(b"Z#");
        text.digits::<16>(u64::from(self.count), 6);
        text.marks(b"#");
        text.digits::<16>(u64::from(self.server), 3);
        text.marks(b"#000000");
        text.into_string()
    }
}

impl fmt::Display for Csn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Parses a number that consists of digits only.
fn number<const BASE: u32>(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = char::from(*digit).to_digit(BASE)?;
        Some(number * u64::from(BASE) + u64::from(digit))
    })
}

fn parse_micros(text: &[u8]) -> Option<u64> {
    if text.get(14) != Some(&b'.') || text.get(21) != Some(&b'Z') {
        return None;
    }
    let number = |range: std::ops::Range<usize>| number::<10>(text.get(range)?);
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

/// Formats a time in seconds since 1970 as GeneralizedTime, `YYYYmmddHHMMSSZ` (RFC 4517 section 3.3.13).
pub fn generalized_time(unix_seconds: u64) -> String {
    let mut text = Text::default();
    text.seconds(unix_seconds);
    text.marks(b"Z");
    text.into_string()
}

/// Formats a time in seconds since 1970 as in RFC 3339, `YYYY-mm-ddTHH:MM:SSZ`.
pub fn rfc3339(unix_seconds: u64) -> String {
    let text = generalized_time(unix_seconds);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or("00");
    let (date, time) = ([part(0..4), part(4..6), part(6..8)], [part(8..10), part(10..12), part(12..14)]);
    format!("{}T{}Z", date.join("-"), time.join(":"))
}

/// Parses the form that [`generalized_time`] writes. Refuses all other forms of GeneralizedTime.
pub fn unix_seconds(text: &str) -> Option<u64> {
    let text = [text.strip_suffix('Z').filter(|digits| digits.len() == 14)?, ".000000Z"].concat();
    Some(parse_micros(text.as_bytes())? / 1_000_000)
}

/// Returns the hexadecimal digit of a value below 16.
fn digit_of(value: u64) -> u8 {
    let [value, ..] = value.to_le_bytes();
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

/// Buffer for digits and punctuation. Its capacity exceeds the length of every text in this module.
#[derive(Default)]
struct Text {
    bytes: [[u8; 32]; 2],
    len: usize,
}

impl Text {
    /// Reserves the next `len` octets of the buffer.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        self.len += len;
        self.bytes.as_flattened_mut().get_mut(start..start + len).unwrap_or_default()
    }

    fn marks(&mut self, marks: &[u8]) {
        self.room(marks.len()).copy_from_slice(marks);
    }

    /// Appends the last `count` digits of a number, in lower case.
    fn digits<const BASE: u64>(&mut self, mut value: u64, count: usize) {
        for digit in self.room(count).iter_mut().rev() {
            *digit = digit_of(value % BASE);
            value /= BASE;
        }
    }

    /// Appends `YYYYmmddHHMMSS`. Years after 9999 have more digits.
    fn seconds(&mut self, unix_seconds: u64) {
        let (days, rest) = (unix_seconds / 86_400, unix_seconds % 86_400);
        let (year, month, day) = civil_from_days(days as i64);
        let year_digits = if year < 10_000 { 4 } else { year.ilog10() as usize + 1 };
        self.digits::<10>(year as u64, year_digits);
        for two in [month as u64, day as u64, rest / 3_600, rest % 3_600 / 60, rest % 60] {
            self.room(2).copy_from_slice(&[digit_of(two / 10), digit_of(two % 10)]);
        }
    }

    fn into_string(self) -> String {
        // The buffer contains only ASCII, so the conversion never fails.
        let written = self.bytes.as_flattened().get(..self.len).unwrap_or_default();
        std::str::from_utf8(written).unwrap_or_default().to_owned()
    }
}

/// Returns the number of days from 1970-01-01 to a date of the proleptic Gregorian calendar. The calculation uses
/// cycles of 400 years (146,097 days). A year of the calculation begins in March, so that the leap day is its last day.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    cycle * 146_097 + day_of_cycle - 719_468
}

/// Returns the date that is `days` after 1970-01-01: the inverse of [`days_from_civil`].
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
    fn text_form_round_trips() {
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
    fn every_day_of_four_centuries_round_trips() {
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
