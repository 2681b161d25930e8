//! The settings that are single values or short lists, as a table: the one place that says how each is called in a
//! settings file, in records and below `cn=config`. Reading, writing, comparing and storing them go by the table, so a
//! new setting is a field and a line here (and its attribute type in `pando.schema`).

use std::fmt;

use super::secret_attributes::SECRET_ATTRIBUTES;
use crate::model::codec::{Decoder, put_bytes, put_list};
use crate::model::limits::{LOG_RECORDS_KEPT, UNINDEXED_EXAMINED_MAX};
use crate::model::sasl_mechanisms::PLAIN;
use crate::model::storage_scheme::StorageScheme;

/// Directory-wide settings besides suffixes, indexes and schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneralSettings {
    /// DN of the administrator on every node; empty for what each node says.
    pub administrator: String,
    /// Whether anonymous clients read the tree (never userPassword).
    pub anonymous_read: bool,
    /// How passwords that arrive in clear are stored.
    pub password_scheme: StorageScheme,
    /// SASL mechanisms that are offered where they can work.
    pub sasl_mechanisms: Vec<String>,
    /// Attribute types by whose values users are found who bind by SASL without a DN.
    pub identity_attributes: Vec<String>,
    /// The realm of DIGEST-MD5; empty for none, and then it is not offered.
    pub sasl_realm: String,
    /// Access rules; without any the fixed ones hold.
    pub access_rules: Vec<String>,
    /// What access rules are expected to allow and to deny.
    pub access_expectations: Vec<String>,
    /// DN of the password policy of entries that have no other; empty for none.
    pub password_policy: String,
    /// Most entries a search returns to others than the administrator; 0 = no limit.
    pub size_limit: u32,
    /// Most seconds a search of others than the administrator takes; 0 = no limit.
    pub time_limit_seconds: u32,
    /// Most entries that a search of others than the administrator looks at without an index; 0 = no limit.
    pub unindexed_examined_max: u64,
    /// Records of the log that are kept, at least 1; older ones are trimmed.
    pub log_records_kept: u64,
    /// Link attributes whose values are removed with the entry they name; in others they stay as text.
    pub integrity_attributes: Vec<String>,
    /// DNs of the entries whose users may compare the userPassword of others, as the administrator may.
    pub password_comparers: Vec<String>,
    /// DNs of the entries whose users may read `cn=monitor`, as the administrator may.
    pub monitor_readers: Vec<String>,
    /// Attribute types, known or not yet, whose values are for the administrator, and for whom an access rule lets that
    /// names them.
    pub secret_attributes: Vec<String>,
}

impl Default for GeneralSettings {
    fn default() -> GeneralSettings {
        GeneralSettings {
            administrator: String::new(),
            anonymous_read: false,
            password_scheme: StorageScheme::default(),
            sasl_mechanisms: vec!["EXTERNAL".to_owned(), PLAIN.to_owned()],
            identity_attributes: vec!["uid".to_owned()],
            sasl_realm: String::new(),
            access_rules: Vec::new(),
            access_expectations: Vec::new(),
            password_policy: String::new(),
            size_limit: 1_000,
            time_limit_seconds: 60,
            unindexed_examined_max: UNINDEXED_EXAMINED_MAX,
            log_records_kept: LOG_RECORDS_KEPT,
            integrity_attributes: vec!["member".to_owned(), "uniqueMember".to_owned()],
            password_comparers: Vec::new(),
            monitor_readers: Vec::new(),
            secret_attributes: SECRET_ATTRIBUTES.map(str::to_owned).to_vec(),
        }
    }
}

/// The value of a setting in a form that all texts can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// `true` or `false`.
    Switch(bool),
    /// A number, up to 2^63 - 1.
    Number(u64),
    /// A word.
    Word(String),
    /// Several words.
    Words(Vec<String>),
}

impl fmt::Display for SettingValue {
    /// As TOML has it; words need no escapes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Switch(on) => write!(f, "{on}"),
            SettingValue::Number(number) => write!(f, "{number}"),
            SettingValue::Word(word) => write!(f, "{word:?}"),
            SettingValue::Words(words) => write!(f, "{words:?}"),
        }
    }
}

/// One setting of [`GeneralSettings`].
pub struct GeneralSetting {
    /// Its key in a settings file, behind the name of its table where it is in one.
    pub key: &'static str,
    /// Its attribute type in `cn=config`.
    pub attribute: &'static str,
    /// What it does, for the settings file.
    pub help: &'static str,
    read: fn(&GeneralSettings) -> SettingValue,
    write: fn(&mut GeneralSettings, SettingValue) -> Result<(), String>,
}

/// All of them, in the order of the settings file: those outside of tables first.
pub const GENERAL: [GeneralSetting; 17] = [
    GeneralSetting {
        key: "administrator",
        attribute: "pandoAdministrator",
        help: "the administrator on every node, no entry needed; \"\" for what each node says",
        read: |of| SettingValue::Word(of.administrator.clone()),
        write: |of, value| word(value, "a DN such as \"cn=admin\"").map(|word| of.administrator = word),
    },
    GeneralSetting {
        key: "anonymous_read",
        attribute: "pandoAnonymousRead",
        help: "whether clients that have not bound read the tree (never userPassword)",
        read: |of| SettingValue::Switch(of.anonymous_read),
        write: |of, value| switch(&value).map(|value| of.anonymous_read = value),
    },
    GeneralSetting {
        key: "password_scheme",
        attribute: "pandoPasswordScheme",
        help: "how a password that arrives in clear is stored",
        read: |of| SettingValue::Word(of.password_scheme.to_string()),
        write: |of, value| {
            of.password_scheme = word(value, "a text such as \"argon2id\"")?
                .parse()
                .map_err(|error: crate::password::UnknownStorageScheme| error.to_string())?;
            Ok(())
        },
    },
    GeneralSetting {
        key: "password_policy",
        attribute: "pandoPasswordPolicy",
        help: "the entry whose password policy holds where no other does; \"\" for none",
        read: |of| SettingValue::Word(of.password_policy.clone()),
        write: |of, value| {
            word(value, "a DN such as \"cn=default,ou=policies,dc=example,dc=com\"")
                .map(|word| of.password_policy = word)
        },
    },
    GeneralSetting {
        key: "sasl_mechanisms",
        attribute: "pandoSaslMechanism",
        help: "SASL mechanisms that are offered where they can work; SCRAM needs keys, which password policies make",
        read: |of| SettingValue::Words(of.sasl_mechanisms.clone()),
        write: |of, value| words(value, "PLAIN").map(|words| of.sasl_mechanisms = words),
    },
    GeneralSetting {
        key: "identity_attributes",
        attribute: "pandoIdentityAttribute",
        help: "attributes with an equality index by which users are found who bind by SASL with a name",
        read: |of| SettingValue::Words(of.identity_attributes.clone()),
        write: |of, value| words(value, "uid").map(|words| of.identity_attributes = words),
    },
    GeneralSetting {
        key: "sasl_realm",
        attribute: "pandoSaslRealm",
        help: "the realm of DIGEST-MD5, which its keys are made for; \"\" for none, which it is not offered without",
        read: |of| SettingValue::Word(of.sasl_realm.clone()),
        write: |of, value| {
            word(value, "a name of a host such as \"ldap.example.com\"").map(|word| of.sasl_realm = word)
        },
    },
    GeneralSetting {
        key: "access_rules",
        attribute: "pandoAccessRule",
        help: "who may do what; without any, users read everything and change their own password",
        read: |of| SettingValue::Words(of.access_rules.clone()),
        write: |of, value| {
            words(value, "staff: allow read to authenticated").map(|words| of.access_rules = words)
        },
    },
    GeneralSetting {
        key: "access_expectations",
        attribute: "pandoAccessExpectation",
        help: "what the rules are expected to allow and to deny; others are not taken",
        read: |of| SettingValue::Words(of.access_expectations.clone()),
        write: |of, value| {
            words(value, "anonymous may not browse 'dc=example,dc=com'")
                .map(|words| of.access_expectations = words)
        },
    },
    GeneralSetting {
        key: "integrity_attributes",
        attribute: "pandoIntegrityAttribute",
        help: "link attributes whose values go when the entry they name goes",
        read: |of| SettingValue::Words(of.integrity_attributes.clone()),
        write: |of, value| words(value, "member").map(|words| of.integrity_attributes = words),
    },
    GeneralSetting {
        key: "password_comparers",
        attribute: "pandoPasswordComparer",
        help: "entries whose users may compare the userPassword of others, as the administrator may",
        read: |of| SettingValue::Words(of.password_comparers.clone()),
        write: |of, value| words(value, "cn=a,dc=example").map(|words| of.password_comparers = words),
    },
    GeneralSetting {
        key: "monitor_readers",
        attribute: "pandoMonitorReader",
        help: "entries whose users may read cn=monitor, as the administrator may",
        read: |of| SettingValue::Words(of.monitor_readers.clone()),
        write: |of, value| words(value, "cn=a,dc=example").map(|words| of.monitor_readers = words),
    },
    GeneralSetting {
        key: "secret_attributes",
        attribute: "pandoSecretAttribute",
        help: "attributes that only the administrator sees, and whom an access rule lets that names them",
        read: |of| SettingValue::Words(of.secret_attributes.clone()),
        write: |of, value| words(value, "sambaNTPassword").map(|words| of.secret_attributes = words),
    },
    GeneralSetting {
        key: "limits.size_limit",
        attribute: "pandoSizeLimit",
        help: "entries a search returns, but to the administrator; 0 is no limit",
        read: |of| SettingValue::Number(of.size_limit.into()),
        write: |of, value| count(&value).map(|value| of.size_limit = value),
    },
    GeneralSetting {
        key: "limits.time_limit_seconds",
        attribute: "pandoTimeLimitSeconds",
        help: "seconds a search takes, but the administrator's; 0 is no limit",
        read: |of| SettingValue::Number(of.time_limit_seconds.into()),
        write: |of, value| count(&value).map(|value| of.time_limit_seconds = value),
    },
    GeneralSetting {
        key: "limits.unindexed_examined",
        attribute: "pandoUnindexedExamined",
        help: "entries a search may look at without an index, but the administrator's; 0 is no limit",
        read: |of| SettingValue::Number(of.unindexed_examined_max),
        write: |of, value| number(&value, 0, NUMBER_MAX).map(|value| of.unindexed_examined_max = value),
    },
    GeneralSetting {
        key: "limits.log_records",
        attribute: "pandoLogRecords",
        help: "changes that the log keeps",
        read: |of| SettingValue::Number(of.log_records_kept),
        write: |of, value| number(&value, 1, NUMBER_MAX).map(|value| of.log_records_kept = value),
    },
];

/// The largest whole number of TOML.
const NUMBER_MAX: u64 = i64::MAX as u64;

fn switch(value: &SettingValue) -> Result<bool, String> {
    match value {
        SettingValue::Switch(on) => Ok(*on),
        other => Err(wanted("true or false", other)),
    }
}

fn number(value: &SettingValue, min: u64, max: u64) -> Result<u64, String> {
    match value {
        SettingValue::Number(number) if (min..=max).contains(number) => Ok(*number),
        other => Err(wanted(&format!("a whole number from {min} to {max}"), other)),
    }
}

/// A number of 32 bits.
fn count(value: &SettingValue) -> Result<u32, String> {
    number(value, 0, u32::MAX.into()).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn word(value: SettingValue, what: &str) -> Result<String, String> {
    match value {
        SettingValue::Word(word) => Ok(word),
        other => Err(wanted(what, &other)),
    }
}

fn words(value: SettingValue, example: &str) -> Result<Vec<String>, String> {
    match value {
        SettingValue::Words(words) => Ok(words),
        other => Err(wanted(&format!("a list of texts such as [{example:?}]"), &other)),
    }
}

fn wanted(what: &str, found: &SettingValue) -> String {
    format!("{found} does not fit: it takes {what}")
}

impl fmt::Debug for GeneralSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

impl GeneralSetting {
    /// The setting of this key.
    pub fn of_key(key: &str) -> Option<&'static GeneralSetting> {
        GENERAL.iter().find(|setting| setting.key == key)
    }

    /// Its value.
    pub fn value(&self, settings: &GeneralSettings) -> SettingValue {
        (self.read)(settings)
    }

    /// Sets it.
    ///
    /// # Errors
    /// What is wrong with the value, and what would be right; nothing is set then.
    pub fn set(&self, settings: &mut GeneralSettings, value: SettingValue) -> Result<(), String> {
        (self.write)(settings, value)
    }

    /// Its value as values of its attribute type (RFC 4517): what `cn=config` shows.
    pub fn texts(&self, settings: &GeneralSettings) -> Vec<String> {
        match self.value(settings) {
            SettingValue::Switch(on) => vec![if on { "TRUE" } else { "FALSE" }.to_owned()],
            SettingValue::Number(number) => vec![number.to_string()],
            SettingValue::Word(word) if word.is_empty() => Vec::new(),
            SettingValue::Word(word) => vec![word],
            SettingValue::Words(words) => words,
        }
    }

    /// Sets it from values of its attribute type; without any a list is empty, and others get their default.
    ///
    /// # Errors
    /// As [`set`](GeneralSetting::set).
    pub fn set_texts(&self, settings: &mut GeneralSettings, texts: &[String]) -> Result<(), String> {
        let default = self.value(&GeneralSettings::default());
        let (first, more) = match texts {
            [] => {
                return self.set(
                    settings,
                    match default {
                        SettingValue::Words(_) => SettingValue::Words(Vec::new()),
                        other => other,
                    },
                );
            }
            [first, more @ ..] => (first, more),
        };
        let value = match default {
            SettingValue::Words(_) => return self.set(settings, SettingValue::Words(texts.to_vec())),
            _ if !more.is_empty() => return Err("it has one value".to_owned()),
            SettingValue::Switch(_) if first.eq_ignore_ascii_case("true") => SettingValue::Switch(true),
            SettingValue::Switch(_) if first.eq_ignore_ascii_case("false") => SettingValue::Switch(false),
            SettingValue::Number(_) => match first.parse() {
                Ok(number) => SettingValue::Number(number),
                Err(_) => SettingValue::Word(first.clone()),
            },
            SettingValue::Switch(_) | SettingValue::Word(_) => SettingValue::Word(first.clone()),
        };
        self.set(settings, value)
    }
}

/// The keys that came after the first builds of clusters.
const ADDED: [&str; 1] = ["secret_attributes"];

/// Whether two lists have the same words, whatever their order and case.
fn are_same_words(one: &[String], other: &[String]) -> bool {
    let words = |list: &[String]| {
        list.iter().map(|word| word.to_ascii_lowercase()).collect::<std::collections::BTreeSet<_>>()
    };
    words(one) == words(other)
}

impl GeneralSettings {
    /// Settings that earlier builds do not know are left out while they have their default, so that nodes of a cluster
    /// can be updated one by one: all read the same bytes, and agree on what they mean.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let default = GeneralSettings::default();
        let is_stated = |setting: &&GeneralSetting| {
            let (own, general) = (setting.texts(self), setting.texts(&default));
            !ADDED.contains(&setting.key) || !are_same_words(&own, &general)
        };
        let stated: Vec<&GeneralSetting> = GENERAL.iter().filter(is_stated).collect();
        put_list(out, &stated, |out, setting| {
            put_bytes(out, setting.key.as_bytes());
            put_list(out, &setting.texts(self), |out, text| put_bytes(out, text.as_bytes()));
        });
    }

    /// Reads settings; what is not among them has its default. `None` where one is unknown here or does not fit.
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Option<GeneralSettings> {
        let mut settings = GeneralSettings::default();
        for (key, texts) in decoder.list(|d| Some((d.str()?, d.list(Decoder::string)?)))? {
            GeneralSetting::of_key(key)?.set_texts(&mut settings, &texts).ok()?;
        }
        Some(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(settings: &GeneralSettings) -> Vec<u8> {
        let mut out = Vec::new();
        settings.encode(&mut out);
        out
    }

    #[test]
    fn earlier_builds_read_what_has_the_defaults_of_later_settings() {
        let has = |settings: &GeneralSettings, key: &str| {
            encoded(settings).windows(key.len()).any(|window| window == key.as_bytes())
        };
        let read =
            |settings: &GeneralSettings| GeneralSettings::decode(&mut Decoder(&encoded(settings))).unwrap();
        let mut settings = GeneralSettings::default();
        let mut sorted = settings.secret_attributes.clone();
        sorted.sort_unstable_by_key(|name| name.to_ascii_lowercase());
        assert_eq!(settings.secret_attributes, sorted, "in the order of settings that were checked");
        assert!(!has(&settings, "secret_attributes") && has(&settings, "integrity_attributes"));
        assert_eq!(read(&settings), settings);
        settings.secret_attributes = vec!["sn".to_owned()];
        assert!(has(&settings, "secret_attributes"));
        assert_eq!(read(&settings), settings);
    }
}
