//! Translation of access rules of other servers: OpenLDAP's `access to` and `olcAccess`, and the `aci` values of 389 DS
//! and OpenDJ.
//!
//! Clauses that cannot be translated are omitted. A list contains the omitted clauses as written in the source, so that
//! an administrator can decide about them. If an omitted clause denies rights, the result may permit more than the
//! source. In that case, the reason in the list mentions this.

mod aci;
mod openldap;
mod pattern;
mod rule_parts;

use std::fmt;

use rule_parts::{RuleParts, free_name};

/// A clause that was omitted, or whose translation has another meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedClause {
    /// Line of the source on which the clause begins.
    pub line: usize,
    /// The clause as written in the source.
    pub clause: String,
    /// Reason for the omission, or the difference in meaning.
    pub why: String,
}

impl fmt::Display for OmittedClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.clause, self.why)
    }
}

/// Result of a translation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Texts of the access rules.
    pub rules: Vec<String>,
    /// Omitted clauses.
    pub left_out: Vec<OmittedClause>,
}

impl Translation {
    fn leave_out(&mut self, line: usize, clause: &str, why: impl Into<String>) {
        self.left_out.push(OmittedClause { line, clause: clause.trim().to_owned(), why: why.into() });
    }

    /// Reports a rule that lets requesters read passwords of other users. The source server permits such a rule, but in
    /// Pando it has no such effect.
    fn report_readers_of_passwords(&mut self, line: usize, clause: &str, rule: &RuleParts) {
        let Some(requester) = rule.reader_of_passwords() else { return };
        let why = format!(
            "{requester} reads passwords there; here only the administrator does: let the program bind as its users, \
             compare (password_comparers), or copy as the administrator"
        );
        let report = OmittedClause { line, clause: clause.trim().to_owned(), why };
        if !self.left_out.contains(&report) {
            self.left_out.push(report);
        }
    }

    /// Returns the texts of `rules`. Each rule gets a unique name.
    ///
    /// # Errors
    /// A rule cannot be expressed.
    fn texts(&self, name: &str, rules: &[RuleParts]) -> Result<Vec<String>, String> {
        let mut taken = self.rules.clone();
        for rule in rules {
            let text = rule.text(&free_name(name, &taken))?;
            taken.push(text);
        }
        Ok(taken.split_off(self.rules.len()))
    }
}

/// Translates a slapd.conf, or LDIF with `olcAccess` or `aci` values. Ignores all other lines.
pub fn translate(text: &str) -> Translation {
    let mut translation = Translation::default();
    let mut clauses = Clauses::default();
    let mut database: Option<String> = None;
    let mut record = Record::default();
    for (line, logical) in logical_lines(text) {
        if logical.trim().is_empty() {
            record = Record::default();
            continue;
        }
        let lower = logical.to_ascii_lowercase();
        if lower.starts_with("access ") || lower.starts_with("access\t") {
            let clause = logical.get("access".len()..).unwrap_or_default().trim().to_owned();
            // In slapd.conf, clauses before the first database belong to the frontend.
            let database = database.as_deref().unwrap_or("frontend");
            clauses.push(&mut translation, Some(database), line, clause);
            continue;
        }
        if let Some(("database", kind)) = lower.split_once([' ', '\t']) {
            database = Some(kind.trim().to_owned());
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
            ("olcaccess", Some(value)) => {
                let database = record.dn.as_deref().and_then(database_of);
                clauses.push(&mut translation, database.as_deref(), line, value);
            }
            // A global ACI applies to all entries, regardless of the configuration entry that contains it.
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
    openldap::translate(&mut translation, &[clauses.own, clauses.global].concat());
    translation
}

/// Clauses of OpenLDAP, each with its line number.
#[derive(Default)]
struct Clauses {
    /// Clauses of a database.
    own: Vec<(usize, String)>,
    /// Clauses of the frontend. They apply after the clauses of each database (slapd.access(5)).
    global: Vec<(usize, String)>,
}

impl Clauses {
    /// Adds a clause to the list for its database.
    fn push(&mut self, translation: &mut Translation, database: Option<&str>, line: usize, clause: String) {
        match database {
            Some("config" | "monitor") => {
                translation.leave_out(
                    line,
                    &clause,
                    "only the administrator sees cn=config and cn=monitor here",
                );
            }
            Some("frontend") => self.global.push((line, clause)),
            _ => self.own.push((line, clause)),
        }
    }
}

/// Returns the kind of the database whose entry below `cn=config` has this DN.
fn database_of(dn: &str) -> Option<String> {
    let (name, kind) = dn.split(',').next()?.split_once('=')?;
    let kind = kind.rsplit_once('}').map_or(kind, |(_, kind)| kind);
    name.trim().eq_ignore_ascii_case("olcDatabase").then(|| kind.trim().to_ascii_lowercase())
}

/// State of the LDIF record that contains the current line.
#[derive(Default)]
struct Record {
    /// DN of the record; `None` before the line `dn:`, or if the value of that line is not valid.
    dn: Option<String>,
    /// `changetype` of the record, in lower case.
    change: String,
    /// Operation of the modification to which the following values belong.
    operation: String,
}

/// Returns lines joined with their continuations. A line that begins with a blank continues the previous line, unless
/// that line is empty. In LDIF the blank is dropped, and in slapd.conf it is kept. Empty lines are kept, because they
/// end a record. Comments are dropped.
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

/// Returns the attribute of an LDIF line, in lower case and without options, and its value. The value is `None` if the
/// value in the line is not valid. The result is `None` if the line has no colon.
fn attribute_of(line: &str) -> Option<(String, Option<String>)> {
    let (name, value) = line.split_once(':')?;
    let name = name.split(';').next().unwrap_or_default().to_ascii_lowercase();
    let value = match value.as_bytes().first() {
        // `decoded` reads the value with the LDIF reader, in a record that has only this value.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// In a dump of the whole `cn=config`, clauses of the database `config` must not apply to other databases.
    #[test]
    fn clauses_of_the_config_database_do_not_apply_to_others() {
        let dump = "dn: olcDatabase={-1}frontend,cn=config\nolcAccess: {0}to * by * none\n\n\
                    dn: olcDatabase={0}config,cn=config\nolcAccess: {0}to * by * none\n\n\
                    dn: olcDatabase={1}mdb,cn=config\nolcAccess: {0}to attrs=mail by users read\n";
        let conf =
            "database config\naccess to * by * none\n\ndatabase mdb\naccess to attrs=mail by users read\n";
        for text in [dump, conf] {
            let found = translate(text);
            assert!(
                found.rules.iter().any(|rule| rule.contains("of mail") && rule.contains("allow")),
                "{found:?}"
            );
            let of_config = found.left_out.iter().filter(|out| out.why.contains("only the administrator"));
            assert_eq!(of_config.count(), 1, "{found:?}");
        }
    }

    /// Regression test: OpenLDAP does not return an entry to a client with only the right to search. The translated
    /// rule returned the entry.
    #[test]
    fn the_right_to_search_without_read_reveals_no_entry() {
        let found = translate(
            "access to attrs=mail by users compare\naccess to * by anonymous search by users read\n",
        );
        assert_eq!(
            found.rules,
            [
                "to 1 by 1: allow compare of mail where seen to authenticated",
                "to 2 by 1 no more: deny browse but not of mail to anonymous",
                "to 2 by 1: allow compare, search but not of mail where seen to anonymous",
                "to 2 by 2: allow read but not of mail to authenticated",
            ]
        );
        assert_eq!(found.left_out.len(), 2, "{found:?}");
        assert!(found.left_out.iter().all(|out| out.why.contains("only at entries that another rule shows")));
    }
}
