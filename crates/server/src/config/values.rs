//! Types of values in settings, such as DNs, log levels and TLS versions. Each value is checked when it is parsed from
//! the command line or the node file.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use directory::bind::BindStrength;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};

/// Text of a DN whose syntax (RFC 4514) was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnText(pub(crate) String);

/// Error of a text that is not a DN, or of an empty DN if an entry is required.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no DN: {why}")]
pub struct DnTextError {
    text: String,
    why: String,
}

impl DnText {
    /// Returns the text of the DN.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DnText {
    type Err = DnTextError;

    fn from_str(text: &str) -> Result<DnText, DnTextError> {
        let error = |why: String| DnTextError { text: text.to_owned(), why };
        let dn = ldap::Dn::parse(text).map_err(|cause| error(cause.to_string()))?;
        if dn.is_empty() {
            return Err(error("it is empty; write such as dc=example,dc=com".to_owned()));
        }
        Ok(DnText(text.to_owned()))
    }
}

impl fmt::Display for DnText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Level of the log. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Failures that prevent a function of the server.
    Error,
    /// Conditions that an operator should check.
    Warn,
    /// Starts, stops and reloads, and also operations if the settings request that.
    Info,
    /// Events of each connection.
    Debug,
    /// Everything.
    Trace,
}

/// Error of a text that is not a [`LogLevel`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown log level \"{0}\": choose error, warn, info, debug or trace")]
pub struct LogLevelError(String);

impl FromStr for LogLevel {
    type Err = LogLevelError;

    fn from_str(text: &str) -> Result<LogLevel, LogLevelError> {
        match text {
            "error" => Ok(LogLevel::Error),
            "warn" => Ok(LogLevel::Warn),
            "info" => Ok(LogLevel::Info),
            "debug" => Ok(LogLevel::Debug),
            "trace" => Ok(LogLevel::Trace),
            _ => Err(LogLevelError(text.to_owned())),
        }
    }
}

/// Format of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Error of a text that is not a [`LogFormat`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown log format \"{0}\": choose text or json")]
pub struct LogFormatError(String);

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<LogFormat, LogFormatError> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(LogFormatError(text.to_owned())),
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// 1.3 (RFC 8446).
    Tls13,
}

/// Uses for which clients outside of exempt networks need TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsNeed {
    /// Requests that contain a password.
    #[default]
    Passwords,
    /// All requests except StartTLS.
    Everything,
}

impl FromStr for WeakestBind {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<WeakestBind, ChoiceError> {
        let strengths = [
            ("anonymous", BindStrength::Anonymous),
            ("password", BindStrength::Password),
            ("proof", BindStrength::Proof),
            ("certificate", BindStrength::Certificate),
        ];
        choose(text, "anonymous, password, proof or certificate", &strengths).map(WeakestBind)
    }
}

/// The weakest accepted bind method, parsed from its word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeakestBind(pub(crate) BindStrength);

/// Error of a text that is none of the words that a setting allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\": choose {choices}")]
pub struct ChoiceError {
    text: String,
    choices: &'static str,
}

impl ChoiceError {
    pub(crate) fn new(text: &str, choices: &'static str) -> ChoiceError {
        ChoiceError { text: text.to_owned(), choices }
    }
}

/// Returns the value that a word denotes.
pub(super) fn choose<T: Copy>(
    text: &str,
    choices: &'static str,
    values: &[(&str, T)],
) -> Result<T, ChoiceError> {
    let found = values.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| ChoiceError::new(text, choices))
}

impl FromStr for TlsVersion {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<TlsVersion, ChoiceError> {
        choose(text, "1.2 or 1.3", &[("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)])
    }
}

impl FromStr for TlsNeed {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<TlsNeed, ChoiceError> {
        let needs = [("passwords", TlsNeed::Passwords), ("everything", TlsNeed::Everything)];
        choose(text, "passwords or everything", &needs)
    }
}

/// Setting of the Kafka clients, parsed from `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KafkaProperty(pub(crate) (String, String));

/// SASL mechanism with which a node authenticates to Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaslMechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

/// Error of a text that is not the name of a SASL mechanism.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\": write PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")]
pub(crate) struct SaslMechanismError(String);

impl SaslMechanism {
    const ALL: [SaslMechanism; 3] =
        [SaslMechanism::Plain, SaslMechanism::ScramSha256, SaslMechanism::ScramSha512];

    pub(crate) fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl FromStr for SaslMechanism {
    type Err = SaslMechanismError;

    fn from_str(text: &str) -> Result<SaslMechanism, SaslMechanismError> {
        let found = SaslMechanism::ALL.into_iter().find(|mechanism| mechanism.name() == text);
        found.ok_or_else(|| SaslMechanismError(text.to_owned()))
    }
}

/// Error of a text that is not `name=value`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\": write name=value, such as security.protocol=ssl")]
pub(crate) struct KafkaPropertyError(String);

impl FromStr for KafkaProperty {
    type Err = KafkaPropertyError;

    fn from_str(text: &str) -> Result<KafkaProperty, KafkaPropertyError> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok(KafkaProperty((name.trim().to_owned(), value.trim().to_owned())))
            }
            // The error omits the value, because it may be a password.
            _ => Err(KafkaPropertyError(text.split('=').next().unwrap_or_default().to_owned())),
        }
    }
}

/// A value that is written as a string in a node file and is parsed by [`FromStr`].
#[derive(Clone, Debug)]
pub struct FromText<T>(pub T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for FromText<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FromText<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(FromText).map_err(serde::de::Error::custom)
    }
}

/// A list of tables of the same kind. The file may contain one table or an array of tables.
#[derive(Clone, Debug)]
pub(crate) struct OneOrMore<T>(pub(crate) Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> OneOrMore<T> {
        OneOrMore(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<OneOrMore<T>, D::Error> {
        struct Tables<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Tables<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a table, or an array of tables")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMore<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|table| OneOrMore(vec![table]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut tables: A) -> Result<OneOrMore<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(table) = tables.next_element()? {
                    all.push(table);
                }
                Ok(OneOrMore(all))
            }
        }
        deserializer.deserialize_any(Tables(PhantomData))
    }
}

/// A percentage from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percent(pub(crate) u32);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Percent, D::Error> {
        match u32::deserialize(deserializer)? {
            percent @ 0..=100 => Ok(Percent(percent)),
            other => Err(serde::de::Error::custom(format!("{other} is no percentage: write 0 to 100"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_dns_and_log_levels_are_refused() {
        assert_eq!("o=a, c=b".parse::<DnText>().unwrap().as_str(), "o=a, c=b");
        assert!("nonsense".parse::<DnText>().unwrap_err().to_string().contains("\"nonsense\" is no DN"));
        assert!("".parse::<DnText>().is_err());
        assert_eq!("warn".parse(), Ok(LogLevel::Warn));
        assert!("WARN".parse::<LogLevel>().is_err());
    }
}
