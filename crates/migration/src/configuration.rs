//! The configuration of another server as entries, whatever its original format is.

use std::io::BufRead;

use ldap::ldif::{LdifBody, LdifErrorKind, LdifReader, put_ldif_line};

/// The known part of a server's configuration.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Entries of `cn=config`.
    pub entries: Vec<ConfigEntry>,
    /// Names of the schema files that the configuration uses, as written in Pando's settings.
    pub schema_files: Vec<String>,
    /// Access rules stored in the data, as LDIF with `aci` values.
    pub data_rules: String,
    /// Parts of the configuration that could not be read, each with the reason.
    pub unread: Vec<String>,
}

/// An entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// DN of the entry, as written.
    pub dn: String,
    /// All values in order.
    pub values: Vec<ConfigValue>,
}

/// A value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigValue {
    /// Position in the source: a file and a line, or the entry's name.
    pub place: String,
    /// Name of the attribute in lower case, without options.
    pub name: String,
    /// The value. Octets that are not UTF-8 are replaced.
    pub value: String,
}

impl ConfigEntry {
    /// Returns the values of an attribute. `name` must be in lower case.
    pub fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e str> {
        self.values.iter().filter(move |value| value.name == name).map(|value| value.value.as_str())
    }

    /// Returns the first value of an attribute.
    pub fn first<'e>(&'e self, name: &'e str) -> Option<&'e str> {
        self.all(name).next()
    }

    /// Returns true if an attribute has the value `wanted`, ignoring case.
    pub fn says(&self, name: &str, wanted: &str) -> bool {
        self.all(name).any(|value| value.eq_ignore_ascii_case(wanted))
    }

    /// Returns the first value of an attribute as a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.first(name)?.trim().parse().ok()
    }

    /// Returns true if the entry is below `parent`. `parent` must be in lower case, without blanks.
    pub fn is_below(&self, parent: &str) -> bool {
        let name = self.dn.to_ascii_lowercase().replace(", ", ",");
        name.strip_suffix(parent).is_some_and(|rest| rest.ends_with(','))
    }
}

impl Configuration {
    /// Adds the entries of a file with LDIF text. From entries of the data, only `aci` values are stored, as
    /// [`data_rules`](Configuration::data_rules), so a dump of the data may be large.
    pub fn read_ldif(&mut self, file: &str, text: impl BufRead) {
        let mut reader = LdifReader::new(text);
        loop {
            let record = match reader.next_record() {
                Ok(None) => return,
                Ok(Some(record)) => record,
                Err(error) => {
                    self.unread.push(format!("{file}: {error}"));
                    if matches!(error.kind, LdifErrorKind::Io(_) | LdifErrorKind::RecordTooLong { .. }) {
                        return;
                    }
                    continue;
                }
            };
            let (LdifBody::Entry(values) | LdifBody::Add(values)) = record.body else {
                self.unread.push(format!("{file}: line {}: a change, not an entry", record.line));
                continue;
            };
            if !is_configuration(record.dn) {
                let rules = values.iter().filter(|value| value.description.eq_ignore_ascii_case("aci"));
                let rules: Vec<String> =
                    rules.map(|value| String::from_utf8_lossy(value.value).into_owned()).collect();
                self.add_data_rules(record.dn, &rules);
                continue;
            }
            let values = values.iter().map(|value| ConfigValue {
                place: format!("{file} line {}", value.line),
                name: base_name(value.description),
                value: String::from_utf8_lossy(value.value).into_owned(),
            });
            self.entries.push(ConfigEntry { dn: record.dn.to_owned(), values: values.collect() });
        }
    }

    /// Adds the `aci` values of an entry of the data.
    pub fn add_data_rules(&mut self, dn: &str, rules: &[String]) {
        if rules.is_empty() {
            return;
        }
        let mut out = Vec::new();
        put_ldif_line(&mut out, "dn", dn.as_bytes());
        rules.iter().for_each(|rule| put_ldif_line(&mut out, "aci", rule.as_bytes()));
        self.data_rules += &String::from_utf8_lossy(&out);
        self.data_rules.push('\n');
    }
}

/// Returns an attribute's name in lower case, without options.
fn base_name(description: &str) -> String {
    description.split(';').next().unwrap_or_default().to_ascii_lowercase()
}

/// Returns true if a name belongs to the configuration rather than the data. In the files of slapd.d, names are
/// relative to the folder of the file.
fn is_configuration(dn: &str) -> bool {
    let dn = dn.to_ascii_lowercase().replace(", ", ",");
    let is_relative_of_slapd = dn.starts_with("olc") || (dn.starts_with("cn={") && !dn.contains(','));
    dn == "cn=config" || dn.ends_with(",cn=config") || dn == "cn=schema" || is_relative_of_slapd
}
