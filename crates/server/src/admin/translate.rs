//! Access rules of other servers as ours: OpenLDAP's `access to` and `olcAccess`, the `aci` of 389 DS and OpenDJ.
//!
//! What cannot be said here is left out and listed in the words of the source, never guessed at: it is for a person to
//! decide. What is left out of a refusal may leave more open than it was, and that is said with it.

mod aci;
mod openldap;

use std::fmt;
use std::path::Path;

use crate::config::ConfigError;
use crate::error::ServeError;

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

    /// Adds a rule, with a name that none before it has.
    fn add(&mut self, name: &str, rest: &str) {
        let clean = |c: char| if matches!(c, ':' | '"' | '\'' | '\n') { ' ' } else { c };
        let mut wanted: String =
            name.chars().map(clean).collect::<String>().trim().chars().take(90).collect();
        if wanted.is_empty() {
            wanted = "rule".to_owned();
        }
        let is_taken = |name: &str, rules: &[String]| {
            let known = |rule: &String| rule.split_once(':').map(|(known, _)| known.to_lowercase());
            rules.iter().any(|rule| known(rule) == Some(name.to_lowercase()))
        };
        let mut unique = wanted.clone();
        let mut number = 2;
        while is_taken(&unique, &self.rules) {
            unique = format!("{wanted} {number}");
            number += 1;
        }
        self.rules.push(format!("{unique}: {rest}"));
    }
}

/// Reads a file and translates it.
///
/// # Errors
/// The file cannot be read.
pub fn translate_file(path: &Path) -> Result<Translation, ServeError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| ConfigError::Read { file: path.to_owned(), error })?;
    Ok(translate(&text))
}

/// Translates a slapd.conf, or LDIF with `olcAccess` or `aci` values; other lines are passed over.
pub fn translate(text: &str) -> Translation {
    let mut translation = Translation::default();
    let mut clauses = Vec::new();
    let mut dn = String::new();
    for (line, logical) in logical_lines(text) {
        let lower = logical.to_ascii_lowercase();
        if let Some(value) = value_of(&logical, "dn") {
            dn = value;
        } else if let Some(value) = value_of(&logical, "olcAccess") {
            clauses.push((line, value));
        } else if let Some(value) = value_of(&logical, "aci") {
            aci::translate(&mut translation, line, &dn, &value);
        } else if let Some(value) = value_of(&logical, "ds-cfg-global-aci") {
            // It holds everywhere, whatever entry of the configuration it stands in.
            aci::translate(&mut translation, line, "", &value);
        } else if lower.starts_with("access ") || lower.starts_with("access\t") {
            clauses.push((line, logical.get("access".len()..).unwrap_or_default().trim().to_owned()));
        }
    }
    openldap::translate(&mut translation, &clauses);
    translation
}

/// Lines with those that go on with them: a line that begins with a blank belongs to the one before, without that blank
/// in LDIF and with it in slapd.conf.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let is_more = line.starts_with([' ', '\t']);
        match lines.last_mut() {
            Some((_, last)) if is_more && !last.starts_with('#') => {
                let is_conf = last.to_ascii_lowercase().starts_with("access");
                last.push_str(if is_conf { line } else { line.get(1..).unwrap_or_default() });
            }
            _ => lines.push((number + 1, line.to_owned())),
        }
    }
    lines.retain(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    lines
}

/// The value of an attribute where a line of LDIF has one.
fn value_of(line: &str, name: &str) -> Option<String> {
    let (found, value) = line.split_once(':')?;
    if !found.eq_ignore_ascii_case(name) {
        return None;
    }
    match value.strip_prefix(':') {
        Some(encoded) => {
            // Read as LDIF has it, by a record of this one value.
            String::from_utf8(decoded(encoded.trim())?).ok()
        }
        None => Some(value.trim().to_owned()),
    }
}

fn decoded(encoded: &str) -> Option<Vec<u8>> {
    let text = format!("dn: cn=x\nvalue:: {encoded}\n");
    let mut reader = ldap::ldif::LdifReader::new(text.as_bytes());
    let record = reader.next_record().ok()??;
    let ldap::ldif::LdifBody::Entry(values) = record.body else { return None };
    let mut values = values.iter().map(|line| line.value.to_vec());
    values.next()
}

/// A DN in quotes that it does not contain.
fn quoted(dn: &str) -> String {
    if dn.contains('\'') { format!("\"{dn}\"") } else { format!("'{dn}'") }
}
