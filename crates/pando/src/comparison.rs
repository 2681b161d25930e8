//! Comparison of names and values by the schema that a server publishes.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use client::{ClientError, Connection};
use ldap::Dn;
use schema::Schema;

use crate::online::schema_of;

/// Rules of a schema for comparisons.
#[derive(Debug)]
pub(crate) struct Comparison {
    schema: Arc<Schema>,
}

impl Comparison {
    /// Reads the schema of a server.
    pub(crate) fn of(connection: &mut Connection) -> Result<Comparison, ClientError> {
        Ok(Comparison { schema: schema_of(connection)? })
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the name under which the server returns an attribute. An unknown name stays; the server refuses it.
    pub(crate) fn canonical(&self, name: &str) -> String {
        match self.schema.parse_description(name) {
            Ok(known) => known.returned_name(&self.schema).into_owned(),
            Err(_) => name.to_owned(),
        }
    }

    /// Whether single values of an attribute can be deleted.
    pub(crate) fn has_equality(&self, name: &str) -> bool {
        let known = self.schema.parse_description(name);
        known.is_ok_and(|known| self.schema.type_by_id(known.type_id).equality.is_some())
    }

    /// Returns a form of a value that is equal for values that the equality rule treats as equal.
    pub(crate) fn normal(&self, name: &str, value: &[u8]) -> Vec<u8> {
        let known = self.schema.parse_description(name).ok();
        let rule = known.and_then(|known| self.schema.type_by_id(known.type_id).equality);
        let mut key = Vec::new();
        match rule {
            Some(rule) if rule.normalize(&self.schema, value, &mut key).is_ok() => key,
            _ => value.to_vec(),
        }
    }

    /// Returns the places of the values that are missing in `stored`, each once, and those of `stored` that are not
    /// wanted.
    pub(crate) fn difference<W: AsRef<[u8]>, S: AsRef<[u8]>>(
        &self,
        name: &str,
        wanted: &[W],
        stored: &[S],
    ) -> (Vec<usize>, Vec<usize>) {
        if name.eq_ignore_ascii_case("objectClass") {
            return self.class_difference(wanted, stored);
        }
        let mut before: HashSet<Vec<u8>> =
            stored.iter().map(|value| self.normal(name, value.as_ref())).collect();
        let after: HashSet<Vec<u8>> = wanted.iter().map(|value| self.normal(name, value.as_ref())).collect();
        let is_unwanted = |value: &S| !after.contains(&self.normal(name, value.as_ref()));
        let removed = places(stored, is_unwanted);
        let added = places(wanted, |value| before.insert(self.normal(name, value.as_ref())));
        (added, removed)
    }

    /// Compares object classes, of which superclasses need not be named.
    fn class_difference<W: AsRef<[u8]>, S: AsRef<[u8]>>(
        &self,
        wanted: &[W],
        stored: &[S],
    ) -> (Vec<usize>, Vec<usize>) {
        let before: BTreeSet<String> =
            stored.iter().flat_map(|name| self.superclasses(name.as_ref())).collect();
        let after: BTreeSet<String> =
            wanted.iter().flat_map(|name| self.superclasses(name.as_ref())).collect();
        let is_in = |name: &[u8], classes: &BTreeSet<String>| {
            self.superclasses(name).first().is_some_and(|class| classes.contains(class))
        };
        let added = places(wanted, |name| !is_in(name.as_ref(), &before));
        (added, places(stored, |name| !is_in(name.as_ref(), &after)))
    }

    /// Returns the OIDs of a class and its superclasses, the class first.
    fn superclasses(&self, name: &[u8]) -> Vec<String> {
        let name = String::from_utf8_lossy(name);
        match self.schema.object_class(&name) {
            Some(class) => class.closure.iter().map(|id| self.schema.class_by_id(*id).oid.clone()).collect(),
            None => vec![name.to_lowercase()],
        }
    }

    /// Returns a form of a DN that is equal for all spellings.
    pub(crate) fn dn_key(&self, dn: &str) -> Vec<u8> {
        let mut key = Vec::new();
        match Dn::parse(dn) {
            Ok(parsed) if self.schema.normalize_dn(&parsed, &mut key).is_ok() => key,
            _ => dn.to_lowercase().into_bytes(),
        }
    }
}

/// Returns the places of the members for which `is` returns true.
fn places<T>(members: &[T], mut is: impl FnMut(&T) -> bool) -> Vec<usize> {
    (0..members.len()).filter(|place| members.get(*place).is_some_and(&mut is)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_their_rules() {
        let comparison = Comparison { schema: Schema::shipped() };
        let check = |name: &str, wanted: &[&str], stored: &[&str], expected: (&[usize], &[usize])| {
            let (added, removed) = comparison.difference(name, wanted, stored);
            assert_eq!((added.as_slice(), removed.as_slice()), expected, "{name} {wanted:?} {stored:?}");
        };
        check("cn", &["Anna  Huber", "a", "A"], &["anna huber"], (&[1], &[]));
        check("member", &["CN=a, DC=b"], &["cn=A,dc=b", "cn=c"], (&[], &[1]));
        check("objectClass", &["inetOrgPerson"], &["top", "person", "INETORGPERSON"], (&[], &[]));
        check("objectClass", &["person", "posixAccount"], &["inetOrgPerson", "person"], (&[1], &[0]));
        check("jpegPhoto", &["a"], &["A"], (&[0], &[0]));
        assert_eq!(comparison.dn_key("CN=a, dc=B"), comparison.dn_key("cn=A,dc=b"));
        assert_eq!((comparison.canonical("SURNAME"), comparison.canonical("x")), ("sn".into(), "x".into()));
        assert!(comparison.has_equality("cn") && !comparison.has_equality("jpegPhoto"));
    }
}
