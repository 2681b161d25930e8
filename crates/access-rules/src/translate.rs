//! Access rules of other servers as ours: OpenLDAP's `access to` and `olcAccess`, the `aci` of 389 DS and OpenDJ.
//!
//! What cannot be said here is left out and listed in the words of the source, never guessed at: it is for a person to
//! decide. What is left out of a refusal may leave more open than it was, and that is said with it.

mod aci;
mod openldap;
mod rule_parts;

use std::fmt;

use rule_parts::{RuleParts, free_name};

/// A clause that could not be carried over, or not exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The line on which the clause begins.
    pub line: usize,
    /// The clause, as the source has it.
    pub clause: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.clause, self.why)
    }
}

/// What came of the rules of another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Texts of access rules.
    pub rules: Vec<String>,
    /// What is not in them.
    pub left_out: Vec<LeftOut>,
}

impl Translation {
    fn leave_out(&mut self, line: usize, clause: &str, why: impl Into<String>) {
        self.left_out.push(LeftOut { line, clause: clause.trim().to_owned(), why: why.into() });
    }

    /// The texts of rules, with names that no rule has yet.
    ///
    /// # Errors
    /// One of them cannot be said.
    fn texts(&self, name: &str, rules: &[RuleParts]) -> Result<Vec<String>, String> {
        let mut taken = self.rules.clone();
        for rule in rules {
            let text = rule.text(&free_name(name, &taken))?;
            taken.push(text);
        }
        Ok(taken.split_off(self.rules.len()))
    }
}

/// Translates a slapd.conf, or LDIF with `olcAccess` or `aci` values; other lines are passed over.
pub fn translate(text: &str) -> Translation {
    let mut translation = Translation::default();
    let mut clauses = Vec::new();
    let mut record = Record::default();
    for (line, logical) in logical_lines(text) {
        if logical.trim().is_empty() {
            record = Record::default();
            continue;
        }
        let lower = logical.to_ascii_lowercase();
        if lower.starts_with("access ") || lower.starts_with("access\t") {
            clauses.push((line, logical.get("access".len()..).unwrap_or_default().trim().to_owned()));
            continue;
        }
        let Some((name, value)) = attribute_of(&logical) else {
            record.operation.clear();
            continue;
        };
        let is_rule = matches!(name.as_str(), "olcaccess" | "aci" | "ds-cfg-global-aci");
        match (name.as_str(), value) {
            ("dn", value) => record.dn = value,
            ("changetype", value) => record.change = value.unwrap_or_default().to_ascii_lowercase(),
            ("add" | "replace" | "delete", _) if record.change == "modify" => record.operation = name,
            _ if !is_rule => {}
            (_, None) => {
                let why = "its value cannot be read: it is neither text nor base64 of UTF-8";
                translation.leave_out(line, &logical, why);
            }
            _ if record.operation == "delete" || record.change == "delete" => {
                translation.leave_out(line, &logical, "the change takes it away");
            }
            ("olcaccess", Some(value)) => clauses.push((line, value)),
            // It holds everywhere, whatever entry of the configuration it stands in.
            ("ds-cfg-global-aci", Some(value)) => aci::translate(&mut translation, line, "", &value),
            (_, Some(value)) => match &record.dn {
                Some(dn) => aci::translate(&mut translation, line, dn, &value),
                None => {
                    let why = "the name of the entry that it stands in is not there or cannot be read";
                    translation.leave_out(line, &logical, why);
                }
            },
        }
    }
    openldap::translate(&mut translation, &clauses);
    translation
}

/// The record of LDIF that a line is in.
#[derive(Default)]
struct Record {
    /// `None` before its `dn:`, or where that cannot be read.
    dn: Option<String>,
    /// Its `changetype`, in small letters.
    change: String,
    /// What a modification does with the values that follow.
    operation: String,
}

/// Lines with those that go on with them: a line that begins with a blank belongs to the one before, without that blank
/// in LDIF and with it in slapd.conf. Empty lines stay, since they end a record, and comments go.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let is_more = line.starts_with([' ', '\t']);
        match lines.last_mut() {
            Some((_, last)) if is_more && !last.trim().is_empty() => {
                let is_conf = last.to_ascii_lowercase().starts_with("access");
                last.push_str(if is_conf { line } else { line.get(1..).unwrap_or_default() });
            }
            _ => lines.push((number + 1, line.to_owned())),
        }
    }
    lines.retain(|(_, line)| !line.starts_with('#'));
    lines
}

/// The attribute of a line of LDIF in small letters and without options, and its value; `None` in its place where it
/// cannot be read.
fn attribute_of(line: &str) -> Option<(String, Option<String>)> {
    let (name, value) = line.split_once(':')?;
    let name = name.split(';').next().unwrap_or_default().to_ascii_lowercase();
    let value = match value.as_bytes().first() {
        // Read as LDIF has it, by a record of this one value.
        Some(b':') => decoded(value.get(1..)?.trim()).and_then(|octets| String::from_utf8(octets).ok()),
        Some(b'<') => None,
        _ => Some(value.trim().to_owned()),
    };
    Some((name, value))
}

fn decoded(encoded: &str) -> Option<Vec<u8>> {
    let text = format!("dn: cn=x\nvalue:: {encoded}\n");
    let mut reader = ldap::ldif::LdifReader::new(text.as_bytes());
    let record = reader.next_record().ok()??;
    let ldap::ldif::LdifBody::Entry(values) = record.body else { return None };
    let mut values = values.iter().map(|line| line.value.to_vec());
    values.next()
}
