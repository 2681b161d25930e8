//! Times: Generalized Time and UTC Time (RFC 4517 sections 3.3.13 and 3.3.34), and change sequence numbers.
//!
//! A time's key is seven octets (century, year, month, day, hour, minute, second, in UTC) and the digits of the
//! fraction, two in an octet, without trailing zeros. Keys sort chronologically. A leap second has the second 60.

use crate::Fault;

/// Reader of fixed-width fields from the start of a value.
struct Cursor<'a> {
    value: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.value.get(self.offset).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.offset += usize::from(found);
        found
    }

    fn digits(&mut self) -> &'a [u8] {
        let rest = self.value.get(self.offset..).unwrap_or_default();
        let digits = rest.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
        self.offset += digits.len();
        digits
    }

    /// Reads two digits between `low` and `high`.
    fn two(&mut self, what: &'static str, low: u8, high: u8) -> Result<u8, Fault> {
        let Some(&[tens @ b'0'..=b'9', ones @ b'0'..=b'9']) = self.value.get(self.offset..self.offset + 2)
        else {
            return Err(Fault::Expected { offset: self.offset, what });
        };
        let number = (tens - b'0') * 10 + (ones - b'0');
        if !(low..=high).contains(&number) {
            return Err(Fault::OutOfRange { what });
        }
        self.offset += 2;
        Ok(number)
    }

    fn optional_two(&mut self, what: &'static str, high: u8) -> Result<Option<u8>, Fault> {
        match self.peek() {
            Some(b'0'..=b'9') => self.two(what, 0, high).map(Some),
            _ => Ok(None),
        }
    }

    fn end(&self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Fault::Expected { offset: self.offset, what: "the end" }),
        }
    }
}

/// A point in time in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Time {
    year: u16,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    /// Digits of the fraction as numbers, without trailing zeros.
    fraction: Vec<u8>,
}

impl Time {
    fn write(&self, out: &mut Vec<u8>) {
        let (century, year) = (small(self.year / 100), small(self.year % 100));
        out.extend_from_slice(&[century, year, self.month, self.day, self.hour, self.minute, self.second]);
        let (pairs, last) = self.fraction.as_chunks::<2>();
        out.extend(pairs.iter().map(|[tens, ones]| tens * 10 + ones));
        out.extend(last.iter().map(|tens| tens * 10));
    }

    fn unix_seconds(&self) -> i64 {
        let days = days_from_date(i64::from(self.year), self.month, self.day) - days_from_date(1970, 1, 1);
        let minutes = (days * 24 + i64::from(self.hour)) * 60 + i64::from(self.minute);
        minutes * 60 + i64::from(self.second)
    }

    fn check_day(&self) -> Result<(), Fault> {
        if self.day > days_of_month(i64::from(self.year), self.month) {
            return Err(Fault::OutOfRange { what: "the day of the month" });
        }
        Ok(())
    }

    /// Shifts the time by whole minutes, which may change the date.
    fn shift(&mut self, minutes: i64) -> Result<(), Fault> {
        let days = days_from_date(i64::from(self.year), self.month, self.day);
        let total = days * 1440 + i64::from(self.hour) * 60 + i64::from(self.minute) + minutes;
        let (year, month, day) = date_from_days(total.div_euclid(1440));
        let year = u16::try_from(year).ok().filter(|year| *year <= 9999);
        let year = year.ok_or(Fault::OutOfRange { what: "the year in UTC" })?;
        let of_day = total.rem_euclid(1440);
        (self.year, self.month, self.day) = (year, month, day);
        (self.hour, self.minute) = (small(of_day / 60), small(of_day % 60));
        Ok(())
    }

    /// Adds the fraction of a unit of `unit_seconds`: `.5` of an hour is 30 minutes.
    fn add_fraction(&mut self, digits: &[u8], unit_seconds: u32) {
        let mut fraction: Vec<u8> = digits.iter().map(|digit| digit - b'0').collect();
        let mut carry = 0;
        if unit_seconds > 1 {
            for digit in fraction.iter_mut().rev() {
                let product = u32::from(*digit) * unit_seconds + carry;
                *digit = small(product % 10);
                carry = product / 10;
            }
            self.minute += small(carry / 60);
            self.second += small(carry % 60);
        }
        let kept = fraction.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
        fraction.truncate(kept);
        self.fraction = fraction;
    }
}

/// Checks a Generalized Time.
pub(crate) fn check_generalized(value: &[u8]) -> Result<(), Fault> {
    generalized(value).map(drop)
}

/// Appends the key of a Generalized Time.
pub(crate) fn generalized_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    match usual_key(value) {
        Some(key) => out.extend_from_slice(&key),
        None => generalized(value)?.write(out),
    }
    Ok(())
}

/// Returns the key of a time in the form that servers write, `YYYYMMDDHHMMSSZ`. `None` for any other text, whether or
/// not it is a valid time. This shortcut exists because scans compare many values in this form.
fn usual_key(value: &[u8]) -> Option<[u8; 7]> {
    let (digits, [b'Z']) = value.split_first_chunk::<14>()? else { return None };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (pairs, _) = digits.as_chunks::<2>();
    let mut key = [0; 7];
    for (number, [tens, ones]) in key.iter_mut().zip(pairs) {
        *number = (tens - b'0') * 10 + (ones - b'0');
    }
    let [century, year, month, day, hour, minute, second] = key;
    let is_date = (1..=12).contains(&month)
        && day >= 1
        && day <= days_of_month(i64::from(century) * 100 + i64::from(year), month);
    (is_date && hour <= 23 && minute <= 59 && second <= 59).then_some(key)
}

/// Returns the seconds since 1970 of a Generalized Time.
pub(crate) fn generalized_seconds(value: &[u8]) -> Result<i64, Fault> {
    generalized(value).map(|time| time.unix_seconds())
}

/// Returns the microseconds since 1970 of a Generalized Time (RFC 4517 section 3.3.13); smaller fractions are dropped.
/// `None` for other texts.
pub fn generalized_micros(value: &[u8]) -> Option<i64> {
    let time = generalized(value).ok()?;
    let digits = time.fraction.iter().copied().chain(std::iter::repeat(0)).take(6);
    let micros = digits.fold(0, |micros, digit| 10 * micros + i64::from(digit));
    Some(time.unix_seconds() * 1_000_000 + micros)
}

/// Returns the seconds since 1970 of a UTC Time.
pub(crate) fn utc_seconds(value: &[u8]) -> Result<i64, Fault> {
    utc(value).map(|time| time.unix_seconds())
}

/// Checks a UTC Time.
pub(crate) fn check_utc(value: &[u8]) -> Result<(), Fault> {
    utc(value).map(drop)
}

/// Appends the key of a UTC Time, which equals the key of that time as a Generalized Time. Years 50 to 99 are in the
/// twentieth century (RFC 5280 section 4.1.2.5.1). A time without zone is UTC.
pub(crate) fn utc_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    utc(value)?.write(out);
    Ok(())
}

fn generalized(value: &[u8]) -> Result<Time, Fault> {
    let mut cursor = Cursor { value, offset: 0 };
    let century = u16::from(cursor.two("a four-digit year", 0, 99)?);
    let year = century * 100 + u16::from(cursor.two("a four-digit year", 0, 99)?);
    let month = cursor.two("a month", 1, 12)?;
    let day = cursor.two("a day", 1, 31)?;
    let hour = cursor.two("an hour", 0, 23)?;
    let minute = cursor.optional_two("a minute", 59)?;
    let second = match minute {
        Some(_) => cursor.optional_two("a second", 60)?,
        None => None,
    };
    let mut time = Time {
        year,
        month,
        day,
        hour,
        minute: minute.unwrap_or(0),
        second: second.unwrap_or(0),
        fraction: Vec::new(),
    };
    time.check_day()?;
    if cursor.take(b'.') || cursor.take(b',') {
        let digits = cursor.digits();
        if digits.is_empty() {
            return Err(Fault::Expected { offset: cursor.offset, what: "the digits of a fraction" });
        }
        time.add_fraction(
            digits,
            if minute.is_none() { 3600 } else { 60u32.pow(u32::from(second.is_none())) },
        );
    }
    zone(&mut cursor, &mut time, true)?;
    Ok(time)
}

fn utc(value: &[u8]) -> Result<Time, Fault> {
    let mut cursor = Cursor { value, offset: 0 };
    let year = u16::from(cursor.two("a two-digit year", 0, 99)?);
    let mut time = Time {
        year: if year >= 50 { 1900 + year } else { 2000 + year },
        month: cursor.two("a month", 1, 12)?,
        day: cursor.two("a day", 1, 31)?,
        hour: cursor.two("an hour", 0, 23)?,
        minute: cursor.two("a minute", 0, 59)?,
        second: cursor.optional_two("a second", 59)?.unwrap_or(0),
        fraction: Vec::new(),
    };
    time.check_day()?;
    if cursor.peek().is_some() {
        zone(&mut cursor, &mut time, false)?;
    }
    Ok(time)
}

/// Reads `Z` or a differential, and shifts the time to UTC. The minutes of a Generalized Time's differential are
/// optional.
fn zone(cursor: &mut Cursor<'_>, time: &mut Time, minutes_optional: bool) -> Result<(), Fault> {
    if cursor.take(b'Z') {
        return cursor.end();
    }
    let sign = match cursor.peek() {
        Some(b'+') => -1,
        Some(b'-') => 1,
        _ => return Err(Fault::Expected { offset: cursor.offset, what: "a time zone (Z, +hhmm or -hhmm)" }),
    };
    cursor.offset += 1;
    let hours = cursor.two("the hours of the time zone", 0, 23)?;
    let minutes = match cursor.peek() {
        None if minutes_optional => 0,
        _ => cursor.two("the minutes of the time zone", 0, 59)?,
    };
    cursor.end()?;
    time.shift(sign * (i64::from(hours) * 60 + i64::from(minutes)))
}

fn days_of_month(year: i64, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the number of days since 1 March of year 0 in the Gregorian calendar. If a year begins with March, the leap
/// day is the last day of the year, and a formula gives the first day of each month.
fn days_from_date(year: i64, month: u8, day: u8) -> i64 {
    let shifted = (i64::from(month) + 9) % 12;
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * shifted + 2) / 5 + i64::from(day) - 1
}

/// Converts a part of a date or time to an octet. The part is always below 100.
fn small(number: impl TryInto<u8>) -> u8 {
    number.try_into().unwrap_or(u8::MAX)
}

fn date_from_days(days: i64) -> (i64, u8, u8) {
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = (shifted + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), small(month), small(day))
}

/// Range of the replica id in the key of a change sequence number.
pub(crate) const CSN_REPLICA_RANGE: std::ops::Range<usize> = 13..15;

/// Checks a change sequence number.
pub(crate) fn check_csn(value: &[u8]) -> Result<(), Fault> {
    csn_key(value, &mut Vec::with_capacity(18))
}

/// Appends the key of a change sequence number, `YYYYmmddHHMMSS.uuuuuuZ#cccccc#rrr#mmmmmm` (draft-chu-ldap-csn): seven
/// octets of time, three of microseconds, three of the count, two of the replica, and three of the modification. The 18
/// octets sort chronologically. The older OpenLDAP forms without microseconds and with a two-digit replica are accepted
/// too.
pub(crate) fn csn_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let stamp = value.split(|&byte| byte == b'#').next().unwrap_or_default();
    let time_end = stamp.len();
    if time_end == value.len() {
        return Err(Fault::Expected { offset: time_end, what: "'#'" });
    }
    if stamp.last() != Some(&b'Z') {
        return Err(Fault::Expected { offset: time_end, what: "'Z' before '#'" });
    }
    let (seconds, micros) = match stamp.len() {
        15 => (stamp, 0),
        22 if stamp.get(14) == Some(&b'.') => (stamp, number(value, 15, 6, 10)?),
        _ => return Err(Fault::Expected { offset: 14, what: "six digits of microseconds" }),
    };
    let time = generalized(seconds)?;
    let count = number(value, time_end + 1, 6, 16)?;
    let replica_size = value.iter().skip(time_end + 8).take_while(|&&byte| byte != b'#').count();
    if !(2..=3).contains(&replica_size) || value.get(time_end + 7) != Some(&b'#') {
        return Err(Fault::Expected { offset: time_end + 7, what: "'#' and three hexadecimal digits" });
    }
    let replica = number(value, time_end + 8, replica_size, 16)?;
    let modification_start = time_end + 8 + replica_size + 1;
    let modification = number(value, modification_start, 6, 16)?;
    if value.len() != modification_start + 6 {
        return Err(Fault::Expected { offset: modification_start + 6, what: "the end" });
    }
    Time { fraction: Vec::new(), ..time }.write(out);
    out.extend_from_slice(&micros.to_be_bytes()[1..]);
    out.extend_from_slice(&count.to_be_bytes()[1..]);
    out.extend_from_slice(&replica.to_be_bytes()[2..]);
    out.extend_from_slice(&modification.to_be_bytes()[1..]);
    Ok(())
}

/// Appends the key of a bare replica id, three hexadecimal digits.
pub(crate) fn csn_replica_key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    if value.len() != 3 {
        return Err(Fault::Expected { offset: 0, what: "three hexadecimal digits" });
    }
    out.extend_from_slice(&number(value, 0, 3, 16)?.to_be_bytes()[2..]);
    Ok(())
}

fn number(value: &[u8], start: usize, size: usize, radix: u32) -> Result<u32, Fault> {
    let what = if radix == 16 { "hexadecimal digits" } else { "digits" };
    let fault = Fault::Expected { offset: start, what };
    let digits = value.get(start..start + size).ok_or(fault.clone())?;
    digits.iter().try_fold(0, |sum, &byte| {
        char::from(byte).to_digit(radix).map(|digit| sum * radix + digit).ok_or(fault.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: &str) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        generalized_key(value.as_bytes(), &mut out)?;
        Ok(out)
    }

    #[test]
    fn equal_times_have_equal_keys() {
        for group in [
            &[
                "199412161032Z",
                "199412160532-0500",
                "19941216103200Z",
                "19941216103200.000Z",
                "199412161132+01",
            ][..],
            &["2020010112.5Z", "202001011230Z", "20200101123000,0Z"],
            &["202001011200.25Z", "20200101120015Z"],
            &["2020010112.0001Z", "20200101120000.36Z"],
            &["20191231230000-0100", "20200101000000Z", "20200101003000+0030"],
            &["20200229235959-0001", "20200301000059Z"],
            &["20161231235960Z", "20170101005960+0100"],
            &["00000301000000Z", "00000229235900-0001"],
        ] {
            for value in group {
                assert_eq!(key(value), key(group[0]), "{value} {}", group[0]);
            }
        }
    }

    /// Separate code parses times in the usual form. It must produce the same keys as the general code.
    #[test]
    fn the_usual_form_has_the_same_key_as_other_forms() {
        let mut usual = 0;
        for seed in 0..20_000_u64 {
            let part = |range: u64, at: u32| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> at) % range;
            let text = format!(
                "{:04}{:02}{:02}{:02}{:02}{:02}Z",
                part(10_000, 3),
                part(14, 11),
                part(33, 19),
                part(26, 27),
                part(62, 35),
                part(63, 43)
            );
            let mut general = Vec::new();
            let expected =
                generalized(text.as_bytes()).map(|time| time.write(&mut general)).map(|()| general);
            assert_eq!(key(&text).ok(), expected.ok(), "{text}");
            usual += usize::from(usual_key(text.as_bytes()).is_some());
        }
        assert!(usual > 10_000, "{usual}");
        for text in ["20200101000000z", "2020010100000:Z", "202001010000000Z", "20200101000000.Z", ""] {
            assert_eq!(usual_key(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn keys_sort_chronologically() {
        let times = [
            "00000101000000Z",
            "19991231235959Z",
            "19991231235959.1Z",
            "19991231235959.10001Z",
            "19991231235959.2Z",
            "20000101000000Z",
            "20161231235959.9Z",
            "20161231235960Z",
            "20170101000000Z",
            "99991231235959Z",
        ];
        for pair in times.windows(2) {
            assert!(key(pair[0]).unwrap() < key(pair[1]).unwrap(), "{pair:?}");
        }
    }

    #[test]
    fn dates_and_day_numbers_are_inverse() {
        let first = days_from_date(0, 1, 1);
        for days in (first..days_from_date(9999, 12, 31)).step_by(37) {
            let (year, month, day) = date_from_days(days);
            assert_eq!(days_from_date(year, month, day), days);
            assert!(day >= 1 && day <= days_of_month(year, month));
        }
    }

    #[test]
    fn invalid_times_are_refused() {
        for (value, expected) in [
            ("", Fault::Expected { offset: 0, what: "a four-digit year" }),
            ("2020", Fault::Expected { offset: 4, what: "a month" }),
            ("20201301", Fault::OutOfRange { what: "a month" }),
            ("2020010125Z", Fault::OutOfRange { what: "an hour" }),
            ("20210229000000Z", Fault::OutOfRange { what: "the day of the month" }),
            ("20200101000000", Fault::Expected { offset: 14, what: "a time zone (Z, +hhmm or -hhmm)" }),
            ("20200101000000.Z", Fault::Expected { offset: 15, what: "the digits of a fraction" }),
            ("20200101000000Zx", Fault::Expected { offset: 15, what: "the end" }),
            ("20200101000000+1", Fault::Expected { offset: 15, what: "the hours of the time zone" }),
            ("00000101000000+0001", Fault::OutOfRange { what: "the year in UTC" }),
            ("99991231235959-0001", Fault::OutOfRange { what: "the year in UTC" }),
        ] {
            assert_eq!(key(value), Err(expected), "{value}");
        }
    }

    #[test]
    fn utc_times_have_the_keys_of_generalized_times() {
        let utc = |value: &str| {
            let mut out = Vec::new();
            utc_key(value.as_bytes(), &mut out).map(|()| out)
        };
        assert_eq!(utc("9412161032Z"), key("199412161032Z"));
        assert_eq!(utc("941216103201-0500"), key("19941216153201Z"));
        assert_eq!(utc("0001010000"), key("200001010000Z"));
        assert!(utc("0001010000+01").is_err());
        assert!(utc("000101").is_err());
    }

    #[test]
    fn change_sequence_numbers_have_ordered_keys() {
        let csn = |value: &str| {
            let mut out = Vec::new();
            csn_key(value.as_bytes(), &mut out).map(|()| out)
        };
        let ordered = [
            "20261120133441.000000Z#000000#000#000000",
            "20261120133441.000001Z#000000#000#000000",
            "20261120133441.000001Z#000001#000#000000",
            "20261120133441.000001Z#000001#001#000000",
            "20261120133441.000001Z#000001#001#0000ff",
            "20261120133442.000000Z#000000#000#000000",
        ];
        for pair in ordered.windows(2) {
            assert!(csn(pair[0]).unwrap() < csn(pair[1]).unwrap(), "{pair:?}");
        }
        assert_eq!(csn(ordered[0]).unwrap().len(), 18);
        assert_eq!(csn(ordered[3]).unwrap()[CSN_REPLICA_RANGE], [0, 1]);
        assert_eq!(csn("20261120133441Z#0000AB#01#000000"), csn("20261120133441.000000Z#0000ab#001#000000"));
        for bad in [
            "",
            "20261120133441.000000Z",
            "20261120133441.000000#000000#000#000000",
            "20261120133441.000000Z#000000#000#00000g",
            "20261120133441.000000Z#000000#0000#000000",
            "20261120133441.000000Z#000000#000#0000000",
            "20261320133441.000000Z#000000#000#000000",
        ] {
            assert!(csn(bad).is_err(), "{bad}");
        }
    }
}
