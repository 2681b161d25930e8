//! Mapping of another server's names of entries, attributes and object classes to local names.

use ldap::Dn;
use schema::Schema;

use crate::model::name::NormalName;

/// Mapping of another server's names to local names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameMapping {
    /// DN of a remote entry, and DN of the local entry that corresponds to it.
    pub bases: (String, String),
    /// Remote name and local name of each mapped attribute or object class.
    pub names: Vec<(String, String)>,
}

impl NameMapping {
    /// Returns true if the mapping changes no name.
    pub fn is_identity(&self) -> bool {
        self.bases.0 == self.bases.1 && self.names.is_empty()
    }

    /// Returns the mapping of local names to remote names.
    pub fn inverse(&self) -> NameMapping {
        let (there, here) = self.bases.clone();
        let names = self.names.iter().map(|(old, new)| (new.clone(), old.clone()));
        NameMapping { bases: (here, there), names: names.collect() }
    }

    /// Returns the local name of an attribute or object class.
    pub fn name<'n>(&'n self, name: &'n str) -> &'n str {
        let known = self.names.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
        known.map_or(name, |(_, new)| new)
    }

    /// Returns the local DN of a remote entry. Returns `None` if the mapping changes no name, if a DN is malformed, or
    /// if the entry is not at or below the remote base.
    pub fn dn(&self, schema: &Schema, text: &str) -> Option<String> {
        if self.is_identity() {
            return None;
        }
        let (dn, base) = (Dn::parse(text).ok()?, Dn::parse(&self.bases.0).ok()?);
        let key = NormalName::of(&base, schema).key;
        if !NormalName::of(&dn, schema).key.starts_with(&key) {
            return None;
        }
        let above = dn.text_from(dn.len().checked_sub(base.len())?);
        let below = text.get(..text.len() - above.len())?.trim_end();
        let below = below.strip_suffix([',', ';']).unwrap_or(below);
        let below = Dn::parse(below).ok()?.normal_text(|name| self.name(name));
        Some(match (below.as_str(), self.bases.1.as_str()) {
            ("", here) => here.to_owned(),
            (below, "") => below.to_owned(),
            (below, here) => format!("{below},{here}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use schema::SchemaBuilder;

    use super::*;

    #[test]
    fn maps_dns_at_and_below_the_base() {
        let schema = SchemaBuilder::shipped().build().unwrap();
        let mapping = NameMapping {
            bases: ("ou=Old, dc=a".to_owned(), "ou=new,dc=b".to_owned()),
            names: vec![("sAMAccountName".to_owned(), "uid".to_owned())],
        };
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(mapping.dn(&schema, text).as_deref(), expected, "{text}");
        };
        check("OU=old,DC=A", Some("ou=new,dc=b"));
        check("samaccountname=x+cn=y\\, z, ou=OLD;dc=a", Some("uid=x+cn=y\\, z,ou=new,dc=b"));
        check("cn=x\\,,ou=old,dc=a", Some("cn=x\\,,ou=new,dc=b"));
        check("cn=x,ou=older,dc=a", None);
        check("dc=a", None);
        check("no name", None);
        let back = mapping.inverse();
        assert_eq!(back.dn(&schema, "uid=x,ou=new,dc=b").as_deref(), Some("sAMAccountName=x,ou=Old, dc=a"));
        let same = NameMapping { bases: ("dc=a".to_owned(), "dc=a".to_owned()), names: Vec::new() };
        assert_eq!(same.dn(&schema, "cn=x,dc=a"), None);
    }
}
