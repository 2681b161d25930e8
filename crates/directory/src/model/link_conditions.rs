//! Conditions of an access rule on the connection of a request: network, protection, bind method, time and listener.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::model::client_link::{BindMethod, ClientLink, DAYS, ListenerName, clock, minutes};
use crate::model::rule_tokens::Parser;
use crate::model::sasl_mechanisms::MECHANISMS;

/// Connection conditions of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkConditions {
    /// Networks from which requests must come; empty for any.
    pub networks: Vec<IpNet>,
    /// Whether the connection must be protected.
    pub over_tls: bool,
    /// Accepted bind methods: `simple`, `sasl` or names of mechanisms; empty for any.
    pub methods: Vec<&'static str>,
    /// Accepted days, starting with Monday; `None` for any.
    pub days: Option<[bool; 7]>,
    /// Accepted time of day: start and end, in minutes since midnight. The range may extend past midnight.
    pub hours: Option<(u64, u64)>,
    /// Accepted listeners; empty for any.
    pub listeners: Vec<ListenerName>,
}

const SIMPLE: &str = "simple";
const SASL: &str = "sasl";

impl LinkConditions {
    /// Parses the connection conditions of a rule. The conditions are the last clauses of the rule, in any order.
    ///
    /// # Errors
    /// A message that describes the fault.
    pub(crate) fn parse(parser: &mut Parser<'_, '_>) -> Result<LinkConditions, String> {
        let mut read = LinkConditions::default();
        loop {
            if read.networks.is_empty() && parser.takes("from") {
                loop {
                    read.networks.push(network(&parser.quoted("a network")?)?);
                    if !parser.takes_comma() {
                        break;
                    }
                }
            } else if !read.over_tls && parser.takes("over") {
                parser.expect("tls")?;
                read.over_tls = true;
            } else if read.methods.is_empty() && parser.takes("bound") {
                parser.expect("by")?;
                let words = parser.list("simple, sasl or a mechanism")?;
                read.methods = words.into_iter().map(method).collect::<Result<_, _>>()?;
            } else if read.days.is_none() && parser.takes("on") {
                read.days = Some(days(&parser.list("a day")?)?);
            } else if read.hours.is_none() && parser.takes("between") {
                let start = time(parser)?;
                parser.expect("and")?;
                let end = time(parser)?;
                if start == end {
                    return Err("the times after \"between\" are the same".to_owned());
                }
                read.hours = Some((start, end));
            } else if read.listeners.is_empty() && parser.takes("at") {
                parser.expect("listener")?;
                let words = parser.list("the name of a listener")?;
                read.listeners = words.into_iter().map(str::parse).collect::<Result<_, _>>()?;
            } else {
                return Ok(read);
            }
        }
    }

    /// Returns true if the rule has connection conditions.
    pub(crate) fn are_there(&self) -> bool {
        *self != LinkConditions::default()
    }

    /// Returns true if a condition tests the time.
    pub(crate) fn depend_on_time(&self) -> bool {
        self.days.is_some() || self.hours.is_some()
    }

    /// Returns true if a condition tests the listener.
    pub(crate) fn depend_on_listener(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Returns true if all conditions are met, and false if a condition is not met. Otherwise returns `None`, because a
    /// property that a condition tests is unknown.
    pub(crate) fn are_met(&self, link: Option<&ClientLink>) -> Option<bool> {
        let link = match link {
            Some(link) => link,
            None => return (!self.are_there()).then_some(true),
        };
        let address = link.address.map(|address| address.to_canonical());
        let is_in = |network: &IpNet| address.is_some_and(|address| network.contains(&address));
        let is_bound = |method: BindMethod| {
            self.methods.iter().any(|wanted| match method {
                BindMethod::None | BindMethod::MailToken => false,
                BindMethod::Simple => *wanted == SIMPLE,
                BindMethod::Sasl(mechanism) => *wanted == SASL || *wanted == mechanism.name(),
            })
        };
        let met = [
            Some(self.networks.is_empty() || self.networks.iter().any(is_in)),
            Some(!self.over_tls || link.is_protected),
            if self.methods.is_empty() { Some(true) } else { link.method.map(is_bound) },
            self.days.map_or(Some(true), |days| link.at.map(|at| at.is_on(days))),
            self.hours.map_or(Some(true), |hours| link.at.map(|at| at.is_between(hours))),
            match self.listeners.is_empty() {
                true => Some(true),
                false => link.listener.map(|listener| self.listeners.contains(&listener)),
            },
        ];
        match met.contains(&Some(false)) {
            true => Some(false),
            false => (!met.contains(&None)).then_some(true),
        }
    }
}

impl fmt::Display for LinkConditions {
    /// Writes the conditions separated by commas, for the end of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.networks.is_empty() {
            let networks: Vec<_> = self.networks.iter().map(ToString::to_string).collect();
            write!(f, ", from {}", networks.join(", "))?;
        }
        if self.over_tls {
            write!(f, ", over tls")?;
        }
        if !self.methods.is_empty() {
            write!(f, ", bound by {}", self.methods.join(", "))?;
        }
        if let Some(days) = self.days {
            let named: Vec<_> =
                DAYS.iter().zip(days).filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
            write!(f, ", on {}", named.join(", "))?;
        }
        if let Some((start, end)) = self.hours {
            write!(f, ", between {} and {} UTC", clock(start), clock(end))?;
        }
        if !self.listeners.is_empty() {
            let names: Vec<_> = self.listeners.iter().map(ListenerName::as_str).collect();
            write!(f, ", at listener {}", names.join(", "))?;
        }
        Ok(())
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map(|network| network.trunc()).map_err(|_| {
        format!("{text:?} is not a network: write an address, or one with a prefix such as \"10.0.0.0/8\"")
    })
}

fn method(word: &str) -> Result<&'static str, String> {
    let mut known = [SIMPLE, SASL].into_iter().chain(MECHANISMS);
    known.find(|known| known.eq_ignore_ascii_case(word)).ok_or_else(|| {
        format!("{word:?} is not a bind method: choose from simple, sasl, {}", MECHANISMS.join(", "))
    })
}

fn days(words: &[&str]) -> Result<[bool; 7], String> {
    let mut days = [false; 7];
    for word in words {
        let place = DAYS.iter().position(|day| day == word);
        let day = place.and_then(|place| days.get_mut(place));
        *day.ok_or_else(|| format!("{word:?} is not a day: choose from {}", DAYS.join(", ")))? = true;
    }
    Ok(days)
}

fn time(parser: &mut Parser<'_, '_>) -> Result<u64, String> {
    let word = parser.word("a time such as 08:30")?;
    minutes(word).ok_or_else(|| format!("{word:?} is not a time: write 00:00 to 24:00, in UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::client_link::WeekTime;
    use crate::model::rule_tokens::tokens;

    fn read(text: &str) -> Result<LinkConditions, String> {
        let tokens = tokens(text).unwrap();
        let mut parser = Parser { tokens: &tokens };
        let read = LinkConditions::parse(&mut parser)?;
        if parser.tokens.is_empty() { Ok(read) } else { Err(format!("{} is left", parser.next_text())) }
    }

    fn conditions(text: &str) -> LinkConditions {
        read(text).unwrap()
    }

    #[test]
    fn unknown_properties_leave_conditions_undecided() {
        let at = |text: &str| Some(WeekTime::parse(text).unwrap());
        let listener = Some(ListenerName::LDAPS);
        let link = |method, at| ClientLink { method, at, listener, ..ClientLink::default() };
        let met = |text: &str, link: ClientLink| conditions(text).are_met(Some(&link));
        let simple = link(Some(BindMethod::Simple), at("friday 23:30"));
        let scram = link(Some(BindMethod::of_mechanism("scram-sha-256")), at("saturday 05:59"));
        let unknown = ClientLink::default();
        for (text, expected) in [
            ("", [Some(true), Some(true), Some(true)]),
            ("bound by simple", [Some(true), Some(false), None]),
            ("bound by sasl", [Some(false), Some(true), None]),
            ("bound by Scram-Sha-256, EXTERNAL", [Some(false), Some(true), None]),
            ("on friday", [Some(true), Some(false), None]),
            ("between 22:00 and 06:00", [Some(true), Some(true), None]),
            ("between 06:00 and 23:30", [Some(false), Some(false), None]),
            ("between 05:59 and 24:00 on saturday, friday", [Some(true), Some(true), None]),
            ("at listener ldap, ldaps", [Some(true), Some(true), None]),
            ("at listener internal", [Some(false), Some(false), None]),
            ("on friday over tls", [Some(false), Some(false), Some(false)]),
        ] {
            assert_eq!([simple, scram, unknown].map(|link| met(text, link)), expected, "{text}");
        }
        assert_eq!(conditions("").are_met(None), Some(true));
        assert_eq!(conditions("on monday").are_met(None), None);
    }

    #[test]
    fn formats_conditions_and_rejects_wrong_ones() {
        let all = "at listener ldaps, internal between 08:00 and 18:00 on friday, monday bound by simple \
             over tls from '10.1.0.0/8', '::1'";
        let says = ", from 10.0.0.0/8, ::1/128, over tls, bound by simple, on monday, friday, \
             between 08:00 and 18:00 UTC, at listener ldaps, internal";
        assert_eq!(conditions(all).to_string(), says);
        for (text, expected) in [
            ("from 'x'", "\"x\" is not a network"),
            ("over", "expected \"tls\", found the end of the rule"),
            ("bound by fax", "\"fax\" is not a bind method: choose from simple, sasl, EXTERNAL"),
            ("bound simple", "expected \"by\", found \"simple\""),
            ("on holiday", "\"holiday\" is not a day"),
            ("between 8:00 and 18:00", "\"8:00\" is not a time"),
            ("between 08:00 and 08:00", "are the same"),
            ("between 08:00 to 18:00", "expected \"and\", found \"to\""),
            ("at ldaps", "expected \"listener\", found \"ldaps\""),
            ("at listener LDAPS", "\"LDAPS\" is not a listener name"),
            ("at listener 'ldaps'", "expected the name of a listener, found \"ldaps\""),
            ("on monday on friday", "\"on\" is left"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
