//! Searches from a list or an access log, instead of searches generated from keys.
//!
//! A list has one search on each line: a filter, an LDAP URL, or base, scope and filter separated by tabs. A log is
//! Pando's operation log (`--log-operations`) or slapd's log (loglevel stats). Only searches are logged with enough
//! details to be repeated; other operations are counted and skipped.

use std::collections::HashMap;

use ldap::{FilterBuf, LdapUrl};

use super::error::WorkloadError;
use super::scope::Scope;

/// Searches to send, from a list or a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Name of the list or log.
    pub source: String,
    /// Searches in the order of the list.
    pub searches: Vec<ListedSearch>,
    /// Number of lines that were left out, because they lack details that are needed to repeat the operation.
    pub left_out: u64,
}

/// A search of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSearch {
    /// DN of the base.
    pub base: String,
    /// The scope.
    pub scope: Scope,
    /// The filter in text form.
    pub filter: String,
    /// Requested attributes; empty for all user attributes.
    pub attributes: Vec<String>,
}

impl Listed {
    /// Reads a list or a log. A text is a log if one of its first 1,000 lines contains `conn=` and `op=`. `base` is the
    /// base for filters without a base.
    ///
    /// # Errors
    /// A line of a list is not a search, or a log has no search at all.
    pub fn parse(name: &str, text: &str, base: &str, attributes: &[String]) -> Result<Listed, WorkloadError> {
        let is_log = text.lines().take(1000).any(|line| line.contains("conn=") && line.contains(" op="));
        let mut listed = if is_log { log(text) } else { list(name, text, base, attributes)? };
        name.clone_into(&mut listed.source);
        if listed.searches.is_empty() {
            return Err(WorkloadError::new(name, 0, "there is no search in it"));
        }
        Ok(listed)
    }
}

fn list(name: &str, text: &str, base: &str, attributes: &[String]) -> Result<Listed, WorkloadError> {
    let mut listed = Listed::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |message: String| WorkloadError::new(name, index + 1, message);
        let search = if line.to_ascii_lowercase().starts_with("ldap://") {
            of_url(line).map_err(wrong)?
        } else {
            match line.split('\t').collect::<Vec<_>>().as_slice() {
                [filter] => (base.to_owned(), Scope::Sub, (*filter).to_owned(), attributes.to_vec()),
                [base, scope, filter] => {
                    let scope = scope.parse().map_err(|_| {
                        wrong(format!("the scope is base, one, sub or children, not {scope:?}"))
                    })?;
                    ((*base).to_owned(), scope, (*filter).to_owned(), attributes.to_vec())
                }
                _ => {
                    return Err(wrong(
                        "write a filter, an LDAP URL, or base, scope and filter with tabs between".to_owned(),
                    ));
                }
            }
        };
        let (base, scope, filter, attributes) = search;
        FilterBuf::parse(&filter).map_err(|error| wrong(format!("filter {filter}: {error}")))?;
        listed.searches.push(ListedSearch { base, scope, filter, attributes });
    }
    Ok(listed)
}

type Parts = (String, Scope, String, Vec<String>);

fn of_url(line: &str) -> Result<Parts, String> {
    let url = LdapUrl::parse(line).map_err(|error| error.to_string())?;
    let scope = match url.scope {
        Some(ldap::Scope::SingleLevel) => Scope::One,
        Some(ldap::Scope::WholeSubtree) => Scope::Sub,
        Some(ldap::Scope::Subordinate) => Scope::Children,
        Some(ldap::Scope::BaseObject) | None => Scope::Base,
    };
    let filter = url.filter.unwrap_or_else(|| "(objectClass=*)".to_owned());
    Ok((url.dn, scope, filter, url.attributes))
}

/// Reads a log. Lines of both kinds of log have `conn=N op=N` followed by the operation. slapd writes the attributes on
/// a separate line. Pando writes values in quotes.
fn log(text: &str) -> Listed {
    let mut listed = Listed::default();
    let mut attributes_of: HashMap<&str, usize> = HashMap::new();
    for line in text.lines() {
        let Some(at) = line.find("conn=") else { continue };
        let line = &line[at..];
        let operation = line.split(' ').take(2).map(str::len).sum::<usize>() + 1;
        let Some((connection, rest)) = line.split_at_checked(operation) else { continue };
        let rest = rest.trim_start();
        if let Some(names) = rest.strip_prefix("SRCH attr=") {
            if let Some(index) = attributes_of.remove(connection) {
                listed.searches[index].attributes = names.split(' ').map(str::to_owned).collect();
            }
        } else if rest.starts_with("SRCH base=") || rest.starts_with("search ") {
            let base = quoted(rest, if rest.starts_with('S') { "base=" } else { "dn=" });
            let filter = quoted(rest, "filter=").filter(|filter| FilterBuf::parse(filter).is_ok());
            let scope = word(rest, "scope=").and_then(|scope| scope.parse().ok());
            match (base, scope, filter) {
                (Some(base), Some(scope), Some(filter)) => {
                    attributes_of.insert(connection, listed.searches.len());
                    listed.searches.push(ListedSearch { base, scope, filter, attributes: Vec::new() });
                }
                _ => listed.left_out += 1,
            }
        } else if is_request(rest) {
            listed.left_out += 1;
        }
    }
    listed
}

/// Returns true if a line describes a request and not a result.
fn is_request(rest: &str) -> bool {
    let verb = rest.split(' ').next().unwrap_or_default();
    let is_slapd = matches!(verb, "BIND" | "ADD" | "MOD" | "DEL" | "CMP" | "MODRDN" | "EXT")
        && rest.contains("dn=")
        && !rest.contains(" mech=");
    is_slapd || matches!(verb, "bind" | "add" | "modify" | "delete" | "compare" | "modifydn" | "extended")
}

/// Returns the value after a name, between quotes with backslashes before special characters.
fn quoted(text: &str, name: &str) -> Option<String> {
    let start = text.find(name)? + name.len();
    let mut characters = text.get(start..)?.strip_prefix('"')?.chars();
    let mut value = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(value),
            '\\' => match characters.next()? {
                // These are escapes of Rust and slapd. Other backslashes belong to LDAP escapes, which consist of a
                // backslash and two hexadecimal digits.
                escaped @ ('"' | '\\' | '\'') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            plain => value.push(plain),
        }
    }
}

fn word<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = text.find(name)? + name.len();
    text.get(start..)?.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(base: &str, scope: Scope, filter: &str, attributes: &[&str]) -> ListedSearch {
        let attributes = attributes.iter().map(|name| (*name).to_owned()).collect();
        ListedSearch { base: base.to_owned(), scope, filter: filter.to_owned(), attributes }
    }

    #[test]
    fn lists_of_searches_are_parsed() {
        let text = "# comment\n(uid=a)\n\no=x\tone\t(cn=b*)\nldap:///cn=c,o=x?cn,sn?base?(sn=*)\n";
        let listed = Listed::parse("l", text, "dc=com", &["1.1".to_owned()]).unwrap();
        let expected = [
            search("dc=com", Scope::Sub, "(uid=a)", &["1.1"]),
            search("o=x", Scope::One, "(cn=b*)", &["1.1"]),
            search("cn=c,o=x", Scope::Base, "(sn=*)", &["cn", "sn"]),
        ];
        assert_eq!(listed.searches, expected);
        for (text, line) in [("(uid=a)\n(uid=", 2), ("a\tb\t(c=d)", 1), ("", 0), ("a\tb", 1)] {
            assert_eq!(Listed::parse("l", text, "", &[]).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn searches_are_parsed_from_logs() {
        let slapd = r#"
Nov 20 12:00:00 host slapd[1]: conn=1000 op=0 BIND dn="cn=admin" method=128
Nov 20 12:00:00 host slapd[1]: conn=1000 op=0 BIND dn="cn=admin" mech=SIMPLE ssf=0
Nov 20 12:00:00 host slapd[1]: conn=1000 op=0 RESULT tag=97 err=0 text=
Nov 20 12:00:00 host slapd[1]: conn=1000 op=1 SRCH base="dc=example,dc=com" scope=2 deref=0 filter="(uid=a\5c)"
Nov 20 12:00:00 host slapd[1]: conn=1000 op=1 SRCH attr=cn mail
Nov 20 12:00:00 host slapd[1]: conn=1000 op=1 SEARCH RESULT tag=101 err=0 nentries=1 text="#;
        let listed = Listed::parse("log", slapd, "", &[]).unwrap();
        assert_eq!(
            listed.searches,
            [search("dc=example,dc=com", Scope::Sub, r"(uid=a\5c)", &["cn", "mail"])]
        );
        assert_eq!(listed.left_out, 1);
        let pando = "2026-11-20T12:00:00Z INFO conn=1 op=2 search dn=\"ou=a\\\\2cb\" scope=one \
            filter=\"(cn=\\\"x\\\")\" result=0 entries=1 micros=5\n\
                     2026-11-20T12:00:00Z INFO conn=1 op=3 modify dn=\"ou=a\" result=0 micros=5\n";
        let listed = Listed::parse("log", pando, "", &[]).unwrap();
        assert_eq!(listed.searches, [search(r"ou=a\2cb", Scope::One, "(cn=\"x\")", &[])]);
        assert_eq!(listed.left_out, 1);
    }
}
