//! Properties of a client's connection that access rules test.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::model::sasl_mechanisms::{MAIL_TOKEN, MECHANISMS};

/// Connection properties of the client that sent a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLink {
    /// Address of the client, or the address that a trusted proxy reports; `None` for a process on this machine.
    pub address: Option<IpAddr>,
    /// Whether TLS or a local socket protects the connection against eavesdropping and tampering.
    pub is_protected: bool,
    /// Bind method of the client; `None` if unknown.
    pub method: Option<BindMethod>,
    /// Time of the request; `None` if unknown.
    pub at: Option<WeekTime>,
    /// Listener that accepted the connection; `None` if unknown.
    pub listener: Option<ListenerName>,
}

/// Name of a listener. Several listeners of a node may share a name. Nodes name their listeners independently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ListenerName([u8; ListenerName::OCTETS_MAX]);

impl ListenerName {
    /// Maximum length of a name, in octets.
    pub const OCTETS_MAX: usize = 32;

    /// Default name of a listener without implicit TLS.
    pub const LDAP: ListenerName = ListenerName::of_scheme(b"ldap");
    /// Default name of a listener with TLS from the first octet.
    pub const LDAPS: ListenerName = ListenerName::of_scheme(b"ldaps");
    /// Default name of a Unix domain socket.
    pub const LDAPI: ListenerName = ListenerName::of_scheme(b"ldapi");
    /// Name of the web console.
    pub const CONSOLE: ListenerName = ListenerName::of_scheme(b"console");

    const fn of_scheme(scheme: &[u8]) -> ListenerName {
        let mut octets = [0; ListenerName::OCTETS_MAX];
        let (name, _) = octets.split_at_mut(scheme.len());
        name.copy_from_slice(scheme);
        ListenerName(octets)
    }

    /// Returns the name without its padding.
    pub fn as_str(&self) -> &str {
        let name = self.0.split(|octet| *octet == 0).next();
        name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl FromStr for ListenerName {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenerName, String> {
        let is_good = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
        let mut octets = [0; ListenerName::OCTETS_MAX];
        match octets.get_mut(..text.len()) {
            Some(name) if !text.is_empty() && text.bytes().all(is_good) => {
                name.copy_from_slice(text.as_bytes());
                Ok(ListenerName(octets))
            }
            _ => Err(format!(
                "{text:?} is not a listener name: write 1 to {} of a to z, 0 to 9 and hyphens",
                ListenerName::OCTETS_MAX
            )),
        }
    }
}

impl fmt::Display for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// Method by which a client authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindMethod {
    /// No authentication.
    None,
    /// Simple bind.
    Simple,
    /// A SASL mechanism.
    Sasl(Mechanism),
    /// A token that the server sent by mail. The token only permits the user to set a new password.
    MailToken,
}

/// A supported SASL mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism(u8);

impl Mechanism {
    /// Returns the mechanism's name in capitals.
    pub fn name(self) -> &'static str {
        MECHANISMS.get(usize::from(self.0)).copied().unwrap_or_default()
    }
}

impl BindMethod {
    /// Returns the bind method of the SASL mechanism with this name. Returns `BindMethod::None` for an unknown name,
    /// because no client can have bound with such a name.
    pub fn of_mechanism(name: &str) -> BindMethod {
        if name.eq_ignore_ascii_case(MAIL_TOKEN) {
            return BindMethod::MailToken;
        }
        let place = MECHANISMS.iter().position(|known| known.eq_ignore_ascii_case(name));
        let known = place.and_then(|place| u8::try_from(place).ok());
        known.map_or(BindMethod::None, |place| BindMethod::Sasl(Mechanism(place)))
    }
}

/// A minute of a week, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeekTime {
    /// Day of the week; 0 is Monday.
    day: u64,
    /// Minutes since midnight.
    minute: u64,
}

/// Names of the days of a week.
pub(crate) const DAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const DAY_MINUTES: u64 = 24 * 60;

impl WeekTime {
    /// Returns the minute of a time in microseconds since 1970-01-01T00:00:00Z, which was a Thursday.
    pub fn of_micros(micros: u64) -> WeekTime {
        let minutes = micros / 60_000_000;
        WeekTime { day: (minutes / DAY_MINUTES + 3) % 7, minute: minutes % DAY_MINUTES }
    }

    /// Parses `monday 08:30`.
    pub fn parse(text: &str) -> Option<WeekTime> {
        let (day, time) = text.trim().split_once(' ')?;
        let place = DAYS.iter().position(|known| known.eq_ignore_ascii_case(day))?;
        let minute = minutes(time.trim()).filter(|minute| *minute < DAY_MINUTES)?;
        Some(WeekTime { day: u64::try_from(place).ok()?, minute })
    }

    pub(crate) fn is_on(self, days: [bool; 7]) -> bool {
        days.iter().zip(0..).any(|(is_on, day)| *is_on && day == self.day)
    }

    /// Returns true if the time lies in this range of a day. The range may extend past midnight.
    pub(crate) fn is_between(self, (start, end): (u64, u64)) -> bool {
        match start < end {
            true => (start..end).contains(&self.minute),
            false => self.minute >= start || self.minute < end,
        }
    }
}

impl fmt::Display for WeekTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = DAYS.iter().zip(0..).find(|(_, day)| *day == self.day).map_or("", |(name, _)| name);
        write!(f, "{day} {}", clock(self.minute))
    }
}

/// Parses `08:30` into minutes since midnight. `24:00` is the end of the day.
pub(crate) fn minutes(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |text: &str| {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<u64>().ok())?
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    let all = hours * 60 + minutes;
    (minutes < 60 && all <= DAY_MINUTES).then_some(all)
}

/// Formats minutes since midnight as `08:30`.
pub(crate) fn clock(minutes: u64) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_short_words_as_listener_names() {
        let longest = "a".repeat(ListenerName::OCTETS_MAX);
        for text in ["ldaps", "internal-2", "0", &longest] {
            assert_eq!(text.parse::<ListenerName>().unwrap().as_str(), text);
        }
        assert_eq!("ldapi".parse(), Ok(ListenerName::LDAPI));
        assert_ne!(ListenerName::LDAP, ListenerName::LDAPS);
        for wrong in ["", "LDAP", "a b", "ldap://", "\u{e9}", "a\0", &format!("{longest}a")] {
            let error = wrong.parse::<ListenerName>().unwrap_err();
            assert!(error.contains("is not a listener name"), "{error}");
        }
    }

    #[test]
    fn computes_the_day_of_a_time() {
        for (seconds, text) in [
            (0, "thursday 00:00"),
            (59, "thursday 00:00"),
            (86_399, "thursday 23:59"),
            (86_400, "friday 00:00"),
            // The test times are on 2026-02-28 and on 2028-02-29.
            (1_772_236_800 + 8 * 3600 + 30 * 60, "saturday 08:30"),
            (1_835_395_200, "tuesday 00:00"),
        ] {
            let time = WeekTime::of_micros(seconds * 1_000_000);
            assert_eq!(time.to_string(), text, "{seconds}");
            assert_eq!(WeekTime::parse(text), Some(time));
        }
        for wrong in
            ["", "monday", "monday 24:00", "monday 8:00", "mon 08:00", "monday 08:60", "monday +8:00"]
        {
            assert_eq!(WeekTime::parse(wrong), None, "{wrong}");
        }
    }
}
