//! Problems in settings, with their places.

use std::fmt;

use ldap::ResultCode;

/// Place of a problem in the settings. A place is displayed as the path of a key: `limits.size_limit`, `suffixes[1]`,
/// `indexes.mail`, `schema.local:3` for the third line of a schema text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingPath {
    /// The value of a key.
    Key(String),
    /// A member of a list, counted from 0.
    Member(String, usize),
    /// A line of a schema text, counted from 1.
    Line(String, usize),
}

impl fmt::Display for SettingPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingPath::Key(key) => f.write_str(key),
            SettingPath::Member(key, number) => write!(f, "{key}[{number}]"),
            SettingPath::Line(key, line) => write!(f, "{key}:{line}"),
        }
    }
}

impl std::str::FromStr for SettingPath {
    type Err = std::convert::Infallible;

    /// Parses the displayed form. The form is unambiguous even for indexes with unusual names, because lists are not
    /// in tables, and only schema texts have lines.
    fn from_str(text: &str) -> Result<SettingPath, Self::Err> {
        let member = text.strip_suffix(']').filter(|text| !text.contains('.'));
        let member = member.and_then(|text| text.rsplit_once('['));
        if let Some((key, Ok(number))) = member.map(|(key, number)| (key, number.parse())) {
            return Ok(SettingPath::Member(key.to_owned(), number));
        }
        let line = text.rsplit_once(':').filter(|(key, _)| key.starts_with("schema."));
        if let Some((key, Ok(line))) = line.map(|(key, line)| (key, line.parse())) {
            return Ok(SettingPath::Line(key.to_owned(), line));
        }
        Ok(SettingPath::Key(text.to_owned()))
    }
}

/// Problem of a setting that is invalid, or impossible with the present data. The author of the settings has to correct
/// the setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct SettingsProblem {
    /// Place of the problem.
    pub place: SettingPath,
    /// Description of the problem, and of a valid value.
    pub what: String,
    /// Result code for an LDAP client: constraintViolation if the setting itself is wrong, unwillingToPerform if only
    /// existing entries prevent the setting.
    pub code: ResultCode,
}

impl SettingsProblem {
    pub(crate) fn new(place: SettingPath, what: impl Into<String>) -> SettingsProblem {
        SettingsProblem { place, what: what.into(), code: ResultCode::CONSTRAINT_VIOLATION }
    }

    pub(crate) fn unwilling(self) -> SettingsProblem {
        SettingsProblem { code: ResultCode::UNWILLING_TO_PERFORM, ..self }
    }

    pub(crate) fn key(key: impl Into<String>, what: impl Into<String>) -> SettingsProblem {
        SettingsProblem::new(SettingPath::Key(key.into()), what)
    }

    /// Returns a problem of a list's member, counted from 0.
    pub(crate) fn member(key: &str, number: usize, what: impl Into<String>) -> SettingsProblem {
        SettingsProblem::new(SettingPath::Member(key.to_owned(), number), what)
    }
}
