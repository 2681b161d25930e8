//! Selection of audit events.

use audit::{Event, Field, Kind};
use clap::Args;
use ldap::ResultCode;

use crate::time::Time;

/// Options that select events.
#[derive(Debug, Args)]
pub(crate) struct ChoiceArguments {
    /// Earliest time: 2026-01-31, 2026-01-31T12:00:00Z, or 30m, 12h, 7d ago
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// End of the time, exclusive
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// Identity of the connection or its authorization identity: a DN, a superior of it, or `anonymous`
    #[arg(long, value_name = "DN")]
    who: Vec<String>,
    /// DN of the entry, or a superior of it
    #[arg(long, value_name = "DN")]
    target: Vec<String>,
    /// bind, search, compare, add, modify, delete, modifyDN, extended, abandon, unbind, opened, closed, tls,
    /// administration, started, stopped, lost, gap, retired
    #[arg(long, value_name = "OPERATION", value_parser = kind)]
    operation: Vec<Kind>,
    /// Result code by name or number; `failed` for all codes except success
    #[arg(long, value_name = "RESULT", value_parser = wanted_result)]
    result: Vec<ResultChoice>,
    /// Prefix of the client's address
    #[arg(long, value_name = "ADDRESS")]
    network: Vec<String>,
    /// Number of the connection
    #[arg(long, value_name = "NUMBER")]
    connection: Vec<u64>,
    /// Attribute that was requested, compared or changed
    #[arg(long, value_name = "NAME")]
    attribute: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultChoice {
    Failed,
    Code(u32),
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::named(text).ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        format!("choose {}", names.join(", "))
    })
}

fn wanted_result(text: &str) -> Result<ResultChoice, String> {
    let named = || {
        let mut named = ResultCode::NAMED.iter();
        named.find(|code| code.name().is_some_and(|name| name.eq_ignore_ascii_case(text))).map(|code| code.0)
    };
    match text {
        "failed" => Ok(ResultChoice::Failed),
        _ => text
            .parse()
            .ok()
            .or_else(named)
            .map(ResultChoice::Code)
            .ok_or_else(|| "a name such as invalidCredentials, a number, or failed".to_owned()),
    }
}

impl ChoiceArguments {
    /// Returns true if an option that selects events is given.
    pub(crate) fn is_any(&self) -> bool {
        let texts = [&self.who, &self.target, &self.network, &self.attribute];
        self.since.is_some()
            || self.until.is_some()
            || texts.iter().any(|texts| !texts.is_empty())
            || !(self.operation.is_empty() && self.result.is_empty() && self.connection.is_empty())
    }

    /// Returns the earliest time of the events, in microseconds since 1970.
    pub(crate) fn since_micros(&self) -> u64 {
        self.since.map_or(0, |Time(micros)| micros)
    }

    /// Returns true if the options select an event.
    pub(crate) fn has(&self, event: Event<'_>) -> bool {
        let time = event.number(Field::Time).unwrap_or(0);
        let any = |wanted: &[String], fits: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|wanted| fits(wanted))
        };
        let text = |field| event.text(field).unwrap_or_default();
        let result = event.number(Field::Result).and_then(|code| u32::try_from(code).ok());
        let fits_result = |wanted: &ResultChoice| match (wanted, result) {
            (ResultChoice::Code(wanted), Some(code)) => *wanted == code,
            (ResultChoice::Failed, Some(code)) => !is_success(ResultCode(code)),
            (_, None) => false,
        };
        self.since.is_none_or(|Time(since)| time >= since)
            && self.until.is_none_or(|Time(until)| time < until)
            && (self.operation.is_empty() || event.kind().is_some_and(|kind| self.operation.contains(&kind)))
            && (self.result.is_empty() || self.result.iter().any(fits_result))
            && (self.connection.is_empty()
                || event.number(Field::Connection).is_some_and(|number| self.connection.contains(&number)))
            && any(&self.who, &|wanted| {
                let (who, acts_as) = (text(Field::Who), text(Field::ActsAs));
                let acts_as = acts_as.strip_prefix("dn:").unwrap_or(&acts_as);
                match wanted {
                    "anonymous" => who.is_empty(),
                    _ => is_at_or_below(&who, wanted) || is_at_or_below(acts_as, wanted),
                }
            })
            && any(&self.target, &|wanted| is_at_or_below(&text(Field::Target), wanted))
            && any(&self.network, &|wanted| text(Field::Network).starts_with(wanted))
            && any(&self.attribute, &|wanted| {
                event
                    .texts(Field::Attribute)
                    .any(|name| name.split(';').next().is_some_and(|base| base.eq_ignore_ascii_case(wanted)))
            })
    }
}

/// Returns true if a result code is not an error.
pub(super) fn is_success(code: ResultCode) -> bool {
    [
        ResultCode::SUCCESS,
        ResultCode::COMPARE_TRUE,
        ResultCode::COMPARE_FALSE,
        ResultCode::REFERRAL,
        ResultCode::SASL_BIND_IN_PROGRESS,
    ]
    .contains(&code)
}

/// Returns true if a DN is equal to `superior` or below it. Compares the texts, ignoring case, spaces after commas, and
/// spaces around `=`, because no schema is available here.
fn is_at_or_below(name: &str, superior: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(", ", ",").replace(" = ", "=");
    let (name, superior) = (plain(name), plain(superior));
    match name.strip_suffix(&superior) {
        Some("") => true,
        Some(below) => below.ends_with(','),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_codes_are_parsed() {
        assert_eq!(wanted_result("invalidcredentials"), Ok(ResultChoice::Code(49)));
        assert_eq!(wanted_result("49"), Ok(ResultChoice::Code(49)));
        assert!(wanted_result("wrong").is_err());
    }

    #[test]
    fn dns_at_or_below_a_base_are_recognized() {
        let check = |name, superior, expected| assert_eq!(is_at_or_below(name, superior), expected, "{name}");
        check("uid=a,ou=People, dc=example", "ou=people,dc=Example", true);
        check("ou=people,dc=example", "ou=people,dc=example", true);
        check("xou=people,dc=example", "ou=people,dc=example", false);
        check("dc=example", "ou=people,dc=example", false);
    }
}
