//! General settings: settings that are single values or short lists. One table defines the names of these settings in
//! settings files, in records and below `cn=config`. Reading, writing, comparing and storing settings use this table.
//! A new setting therefore needs only a field, a row of the table, and its attribute type in `pando.schema`.

use std::fmt;

use super::secret_attributes::SECRET_ATTRIBUTES;
use crate::model::codec::{Decoder, put_bytes, put_list};
use crate::model::limits::{LOG_RECORDS_KEPT, SCAN_SHARE_PERCENT};
use crate::model::sasl_mechanisms::PLAIN;
use crate::model::storage_scheme::StorageScheme;

/// Directory-wide settings, except suffixes, indexes and schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneralSettings {
    /// DN of the administrator on every node; empty for the DN in each node file.
    pub administrator: String,
    /// Whether anonymous clients may read the tree. Anonymous clients can never read userPassword.
    pub anonymous_read: bool,
    /// Storage scheme of passwords that arrive in clear.
    pub password_scheme: StorageScheme,
    /// SASL mechanisms that the server offers if their prerequisites are met.
    pub sasl_mechanisms: Vec<String>,
    /// Attribute types that identify users by their values, for SASL binds without a DN.
    pub identity_attributes: Vec<String>,
    /// Rules by which a simple bind finds an entry for a name that is not a DN.
    pub bind_names: Vec<String>,
    /// Realm of DIGEST-MD5. If it is empty, the server does not offer DIGEST-MD5.
    pub sasl_realm: String,
    /// Sort orders: entries that are kept sorted by some attributes.
    pub sort_orders: Vec<String>,
    /// Access rules. Without any, the built-in rules apply.
    pub access_rules: Vec<String>,
    /// Expectations: rights that the access rules must grant or deny.
    pub access_expectations: Vec<String>,
    /// DN of the default password policy, for entries without another policy; empty for none.
    pub password_policy: String,
    /// Maximum number of entries that a search returns; 0 = no limit. The limit does not apply to the administrator.
    pub size_limit: u32,
    /// Maximum duration of a search in seconds; 0 = no limit. The limit does not apply to the administrator.
    pub time_limit_seconds: u32,
    /// Maximum number of entries that a search without an index examines; 0 = no limit. The limit does not apply to
    /// the administrator.
    pub unindexed_examined_max: u64,
    /// Maximum percentage of the scan threads' time for the unindexed searches of one user or one address; 0 = no
    /// limit.
    pub scan_share_percent: u32,
    /// Number of records that the log keeps, at least 1. Older records are trimmed.
    pub log_records_kept: u64,
    /// Link attributes whose values are removed when the entry that they name is deleted. In other link attributes the
    /// value becomes text.
    pub integrity_attributes: Vec<String>,
    /// Uniqueness rules. Each names attribute types in which no two entries may have the same value.
    pub unique: Vec<String>,
    /// Rules for numbers that the server assigns from a range.
    pub next_numbers: Vec<String>,
    /// Limits of the number, the size and the form of values.
    pub value_limits: Vec<String>,
    /// Rules that add new or changed entries to groups.
    pub auto_members: Vec<String>,
    /// DNs below which entries may be dynamic.
    pub dynamic_subtrees: Vec<String>,
    /// Minimum time to live of a dynamic entry, in seconds.
    pub dynamic_ttl_min_seconds: u32,
    /// Maximum time to live of a dynamic entry, in seconds. This value is also the initial time to live.
    pub dynamic_ttl_max_seconds: u32,
    /// Time in seconds during which deleted entries can be restored; 0 = deleted entries are not kept.
    pub keep_deleted_seconds: u32,
    /// DNs of users, other than the administrator, who may compare the userPassword of other entries.
    pub password_comparers: Vec<String>,
    /// DNs of users, other than the administrator, who may read `cn=monitor`.
    pub monitor_readers: Vec<String>,
    /// Attribute types whose values are secret. Only the administrator, and requesters to whom an access rule grants
    /// the type by name, may see these values. A type need not be in the schema yet.
    pub secret_attributes: Vec<String>,
    /// Whether memberOf includes nested groups, as isMemberOf always does.
    pub nested_member_of: bool,
    /// Clients that receive memberOf when they request `*`: `anonymous`, `users`, a DN, `members of DN`,
    /// `listener NAME`.
    pub member_of_clients: Vec<String>,
    /// OIDs in the supportedCapabilities attribute of the root DSE. Clients recognize Active Directory by such OIDs.
    pub supported_capabilities: Vec<String>,
    /// User templates: attributes that `pando user add` sets in new entries.
    pub user_templates: Vec<String>,
}

impl Default for GeneralSettings {
    fn default() -> GeneralSettings {
        GeneralSettings {
            administrator: String::new(),
            anonymous_read: false,
            password_scheme: StorageScheme::default(),
            sasl_mechanisms: vec!["EXTERNAL".to_owned(), PLAIN.to_owned()],
            identity_attributes: vec!["uid".to_owned()],
            bind_names: Vec::new(),
            sasl_realm: String::new(),
            sort_orders: Vec::new(),
            access_rules: Vec::new(),
            access_expectations: Vec::new(),
            password_policy: String::new(),
            size_limit: 1_000,
            time_limit_seconds: 60,
            unindexed_examined_max: 0,
            scan_share_percent: SCAN_SHARE_PERCENT,
            log_records_kept: LOG_RECORDS_KEPT,
            integrity_attributes: vec!["member".to_owned(), "uniqueMember".to_owned()],
            unique: Vec::new(),
            next_numbers: Vec::new(),
            value_limits: Vec::new(),
            auto_members: Vec::new(),
            dynamic_subtrees: Vec::new(),
            dynamic_ttl_min_seconds: 1,
            dynamic_ttl_max_seconds: 86_400,
            keep_deleted_seconds: 0,
            password_comparers: Vec::new(),
            monitor_readers: Vec::new(),
            secret_attributes: SECRET_ATTRIBUTES.map(str::to_owned).to_vec(),
            nested_member_of: false,
            member_of_clients: Vec::new(),
            supported_capabilities: Vec::new(),
            user_templates: Vec::new(),
        }
    }
}

/// Value of a setting, in types that all formats of settings can represent.
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
    /// Writes the value as TOML.
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
    /// Key in a settings file. If the setting is in a table, the key begins with the table's name.
    pub key: &'static str,
    /// Attribute type in `cn=config`.
    pub attribute: &'static str,
    /// Description of the setting, which settings files contain as a comment.
    pub help: &'static str,
    access: Access,
}

/// Functions that read and write the field of a setting.
struct Access {
    read: fn(&GeneralSettings) -> SettingValue,
    write: fn(&mut GeneralSettings, SettingValue) -> Result<(), String>,
}

/// [`Access`] to a list of texts. The argument is an example of a text.
macro_rules! words {
    ($field:ident, $example:literal) => {
        Access {
            read: |of| SettingValue::Words(of.$field.clone()),
            write: |of, value| words(value, $example).map(|words| of.$field = words),
        }
    };
}

/// [`Access`] to a text. The argument describes the text.
macro_rules! word {
    ($field:ident, $what:literal) => {
        Access {
            read: |of| SettingValue::Word(of.$field.clone()),
            write: |of, value| word(value, $what).map(|word| of.$field = word),
        }
    };
}

/// [`Access`] to a boolean.
macro_rules! switch {
    ($field:ident) => {
        Access {
            read: |of| SettingValue::Switch(of.$field),
            write: |of, value| switch(&value).map(|value| of.$field = value),
        }
    };
}

/// [`Access`] to a number of 32 bits.
macro_rules! count {
    ($field:ident) => {
        Access {
            read: |of| SettingValue::Number(of.$field.into()),
            write: |of, value| count(&value).map(|value| of.$field = value),
        }
    };
}

/// All general settings in the order of the settings file. Settings outside of tables come first.
pub const GENERAL: [GeneralSetting; 32] = [
    GeneralSetting {
        key: "administrator",
        attribute: "pandoAdministrator",
        help: "the administrator on every node, no entry needed; \"\" to use each node's own",
        access: word!(administrator, "a DN such as \"cn=admin\""),
    },
    GeneralSetting {
        key: "anonymous_read",
        attribute: "pandoAnonymousRead",
        help: "whether clients that have not bound may read the tree (never userPassword)",
        access: switch!(anonymous_read),
    },
    GeneralSetting {
        key: "password_scheme",
        attribute: "pandoPasswordScheme",
        help: "the storage scheme of passwords that arrive in clear",
        access: Access {
            read: |of| SettingValue::Word(of.password_scheme.to_string()),
            write: |of, value| {
                of.password_scheme = word(value, "a text such as \"argon2id\"")?
                    .parse()
                    .map_err(|error: crate::password::UnknownStorageScheme| error.to_string())?;
                Ok(())
            },
        },
    },
    GeneralSetting {
        key: "password_policy",
        attribute: "pandoPasswordPolicy",
        help: "the entry of the default password policy; \"\" for none",
        access: word!(password_policy, "a DN such as \"cn=default,ou=policies,dc=example,dc=com\""),
    },
    GeneralSetting {
        key: "sasl_mechanisms",
        attribute: "pandoSaslMechanism",
        help: "SASL mechanisms to offer if they can work; SCRAM needs keys, which a password policy has to request",
        access: words!(sasl_mechanisms, "PLAIN"),
    },
    GeneralSetting {
        key: "identity_attributes",
        attribute: "pandoIdentityAttribute",
        help: "attributes with an equality index that identify users who bind by SASL with a name",
        access: words!(identity_attributes, "uid"),
    },
    GeneralSetting {
        key: "bind_names",
        attribute: "pandoBindName",
        help: "names other than DNs for simple binds, by attributes with an equality index",
        access: words!(bind_names, "staff: uid, mail in 'ou=people,dc=example,dc=com'"),
    },
    GeneralSetting {
        key: "sort_orders",
        attribute: "pandoSortOrder",
        help: "entries that are kept in the order of some attributes, for sorted searches and list views",
        access: words!(sort_orders, "names: sn, givenName in 'ou=people,dc=example,dc=com'"),
    },
    GeneralSetting {
        key: "sasl_realm",
        attribute: "pandoSaslRealm",
        help: "the realm of DIGEST-MD5 and of its keys; \"\" for none, and then DIGEST-MD5 is not offered",
        access: word!(sasl_realm, "a name of a host such as \"ldap.example.com\""),
    },
    GeneralSetting {
        key: "access_rules",
        attribute: "pandoAccessRule",
        help: "who may do what; without any, users read everything and change their own password",
        access: words!(access_rules, "staff: allow read to authenticated"),
    },
    GeneralSetting {
        key: "access_expectations",
        attribute: "pandoAccessExpectation",
        help: "what the rules must allow and deny; rules that do not are refused",
        access: words!(access_expectations, "anonymous may not browse 'dc=example,dc=com'"),
    },
    GeneralSetting {
        key: "integrity_attributes",
        attribute: "pandoIntegrityAttribute",
        help: "link attributes whose values are removed when the entry that they name is deleted",
        access: words!(integrity_attributes, "member"),
    },
    GeneralSetting {
        key: "unique",
        attribute: "pandoUnique",
        help: "attributes of which no two entries may have the same value; they need equality indexes",
        access: words!(unique, "mail: mail in 'ou=people,dc=example,dc=com'"),
    },
    GeneralSetting {
        key: "next_numbers",
        attribute: "pandoNextNumber",
        help: "ranges of numbers from which the server replaces the value {next}; they need equality indexes",
        access: words!(next_numbers, "users: uidNumber from 10000 to 59999"),
    },
    GeneralSetting {
        key: "value_limits",
        attribute: "pandoValueLimit",
        help: "limits of the number, the size and the form of values of some attributes",
        access: words!(value_limits, "phones: telephoneNumber at most 3 values"),
    },
    GeneralSetting {
        key: "auto_members",
        attribute: "pandoAutoMember",
        help: "groups that entries join when they are added, and if a rule says so, when they are modified",
        access: words!(auto_members, "staff: into 'cn=staff,dc=example,dc=com' matching '(title=*)'"),
    },
    GeneralSetting {
        key: "dynamic_subtrees",
        attribute: "pandoDynamicSubtree",
        help: "names below which entries may be dynamic; entryExpireTimestamp needs an equality index",
        access: words!(dynamic_subtrees, "ou=meetings,dc=example,dc=com"),
    },
    GeneralSetting {
        key: "dynamic_ttl_min_seconds",
        attribute: "pandoDynamicTtlMinSeconds",
        help: "shortest time for which a dynamic entry is refreshed",
        access: count!(dynamic_ttl_min_seconds),
    },
    GeneralSetting {
        key: "dynamic_ttl_max_seconds",
        attribute: "pandoDynamicTtlMaxSeconds",
        help: "longest time for which a dynamic entry is refreshed, and that of a new one",
        access: count!(dynamic_ttl_max_seconds),
    },
    GeneralSetting {
        key: "keep_deleted_seconds",
        attribute: "pandoKeepDeletedSeconds",
        help: "for how long deleted entries can be brought back; 0 to keep none",
        access: count!(keep_deleted_seconds),
    },
    GeneralSetting {
        key: "password_comparers",
        attribute: "pandoPasswordComparer",
        help: "entries whose users may compare the userPassword of others, as the administrator may",
        access: words!(password_comparers, "cn=a,dc=example"),
    },
    GeneralSetting {
        key: "monitor_readers",
        attribute: "pandoMonitorReader",
        help: "entries whose users may read cn=monitor, as the administrator may",
        access: words!(monitor_readers, "cn=a,dc=example"),
    },
    GeneralSetting {
        key: "secret_attributes",
        attribute: "pandoSecretAttribute",
        help: "attributes that only the administrator may see, and requesters that a rule allows by naming them",
        access: words!(secret_attributes, "sambaNTPassword"),
    },
    GeneralSetting {
        key: "nested_member_of",
        attribute: "pandoNestedMemberOf",
        help: "whether memberOf includes nested groups, as isMemberOf does",
        access: switch!(nested_member_of),
    },
    GeneralSetting {
        key: "member_of_clients",
        attribute: "pandoMemberOfClient",
        help: "clients that receive memberOf with *: anonymous, users, a DN, members of DN, listener NAME",
        access: words!(member_of_clients, "cn=app,dc=example,dc=com"),
    },
    GeneralSetting {
        key: "supported_capabilities",
        attribute: "pandoSupportedCapability",
        help: "OIDs in supportedCapabilities of the root DSE, by which clients recognize Active Directory",
        access: words!(supported_capabilities, "1.2.840.113556.1.4.800"),
    },
    GeneralSetting {
        key: "user_templates",
        attribute: "pandoUserTemplate",
        help: "attributes that `pando user add --template NAME` gives to new users",
        access: words!(user_templates, "staff: mail={uid}@example.com in 'ou=staff,dc=example,dc=com'"),
    },
    GeneralSetting {
        key: "limits.size_limit",
        attribute: "pandoSizeLimit",
        help: "most entries a search returns, except to the administrator; 0 is no limit",
        access: count!(size_limit),
    },
    GeneralSetting {
        key: "limits.time_limit_seconds",
        attribute: "pandoTimeLimitSeconds",
        help: "most seconds a search takes, except the administrator's; 0 is no limit",
        access: count!(time_limit_seconds),
    },
    GeneralSetting {
        key: "limits.unindexed_examined",
        attribute: "pandoUnindexedExamined",
        help: "most entries a search may examine without an index, except the administrator's; 0 is no limit",
        access: Access {
            read: |of| SettingValue::Number(of.unindexed_examined_max),
            write: |of, value| number(&value, 0, NUMBER_MAX).map(|value| of.unindexed_examined_max = value),
        },
    },
    GeneralSetting {
        key: "limits.scan_share",
        attribute: "pandoScanShare",
        help: "percent of the scan threads' time, over a minute, for searches of one user or address that lack an \
               index; 0 is no limit",
        access: Access {
            read: |of| SettingValue::Number(of.scan_share_percent.into()),
            write: |of, value| {
                let percent = number(&value, 0, 100)?;
                of.scan_share_percent = u32::try_from(percent).unwrap_or(100);
                Ok(())
            },
        },
    },
    GeneralSetting {
        key: "limits.log_records",
        attribute: "pandoLogRecords",
        help: "changes that the log keeps",
        access: Access {
            read: |of| SettingValue::Number(of.log_records_kept),
            write: |of, value| number(&value, 1, NUMBER_MAX).map(|value| of.log_records_kept = value),
        },
    },
];

/// The largest integer of TOML.
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

/// Converts a number to 32 bits.
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
    format!("{found} is not valid here: write {what}")
}

impl fmt::Debug for GeneralSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

impl GeneralSetting {
    /// Returns the setting with this key.
    pub fn of_key(key: &str) -> Option<&'static GeneralSetting> {
        GENERAL.iter().find(|setting| setting.key == key)
    }

    /// Returns the value of the setting.
    pub fn value(&self, settings: &GeneralSettings) -> SettingValue {
        (self.access.read)(settings)
    }

    /// Sets the value of the setting.
    ///
    /// # Errors
    /// A message that describes the fault and its correction. The settings are unchanged.
    pub fn set(&self, settings: &mut GeneralSettings, value: SettingValue) -> Result<(), String> {
        (self.access.write)(settings, value)
    }

    /// Returns the setting as values of its attribute type (RFC 4517), as `cn=config` shows them.
    pub fn texts(&self, settings: &GeneralSettings) -> Vec<String> {
        match self.value(settings) {
            SettingValue::Switch(on) => vec![if on { "TRUE" } else { "FALSE" }.to_owned()],
            SettingValue::Number(number) => vec![number.to_string()],
            SettingValue::Word(word) if word.is_empty() => Vec::new(),
            SettingValue::Word(word) => vec![word],
            SettingValue::Words(words) => words,
        }
    }

    /// Sets the setting from values of its attribute type. Without values, a list becomes empty, and another setting
    /// receives its default.
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
            _ if !more.is_empty() => return Err("it takes one value".to_owned()),
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

/// Keys that the first builds with clusters do not know.
const ADDED: [&str; 16] = [
    "bind_names",
    "sort_orders",
    "secret_attributes",
    "nested_member_of",
    "unique",
    "member_of_clients",
    "supported_capabilities",
    "next_numbers",
    "value_limits",
    "auto_members",
    "dynamic_subtrees",
    "dynamic_ttl_min_seconds",
    "dynamic_ttl_max_seconds",
    "keep_deleted_seconds",
    "user_templates",
    "limits.scan_share",
];

/// Returns true if two lists contain the same words, in any order and case.
fn are_same_words(one: &[String], other: &[String]) -> bool {
    let words = |list: &[String]| {
        list.iter().map(|word| word.to_ascii_lowercase()).collect::<std::collections::BTreeSet<_>>()
    };
    words(one) == words(other)
}

impl GeneralSettings {
    /// Encodes the settings. If a setting has its default value, and earlier builds do not know the setting, the
    /// setting is omitted. The nodes of a cluster can therefore be updated one by one, because all builds understand
    /// the same bytes.
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

    /// Decodes settings. Missing settings receive their defaults. Returns `None` if a setting is unknown or invalid.
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
    fn earlier_builds_can_read_settings_with_later_defaults() {
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
