//! Comparison of names, values and entries by the rules of a schema.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use ldap::{ChangeOperation, Dn};

use crate::schema::Schema;
use crate::secret::{Secrecy, Secrets};

/// Values of an entry, by the names under which a server returns the attributes.
pub type EntryValues = BTreeMap<String, Vec<Vec<u8>>>;

/// A change of one attribute that makes an entry equal to another state of the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The operation.
    pub operation: ChangeOperation,
    /// The attribute.
    pub name: String,
    /// The values.
    pub values: Vec<Vec<u8>>,
}

/// Rules of a schema for comparisons.
#[derive(Debug)]
pub struct Comparison {
    schema: Arc<Schema>,
    /// Secrecy of attribute types, without the setting `secret_attributes`, which is not known here.
    secrets: Secrets,
}

impl Comparison {
    /// Returns the rules of a schema.
    pub fn new(schema: Arc<Schema>) -> Comparison {
        Comparison { secrets: Secrets::of(&schema, &[]), schema }
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the name under which the server returns an attribute. An unknown name is returned unchanged; the server
    /// refuses it.
    pub fn canonical(&self, name: &str) -> String {
        match self.schema.parse_description(name) {
            Ok(known) => known.returned_name(&self.schema).into_owned(),
            Err(_) => name.to_owned(),
        }
    }

    /// Returns true if an attribute has an equality rule, so that single values can be deleted.
    pub fn has_equality(&self, name: &str) -> bool {
        let known = self.schema.parse_description(name);
        known.is_ok_and(|known| self.schema.type_by_id(known.type_id).equality.is_some())
    }

    /// Returns a key of a value. Values that the equality rule treats as equal have equal keys.
    pub fn normal(&self, name: &str, value: &[u8]) -> Vec<u8> {
        let known = self.schema.parse_description(name).ok();
        let rule = known.and_then(|known| self.schema.type_by_id(known.type_id).equality);
        let mut key = Vec::new();
        match rule {
            Some(rule) if rule.normalize(&self.schema, value, &mut key).is_ok() => key,
            _ => value.to_vec(),
        }
    }

    /// Compares two lists of values. Returns the indexes of the wanted values that `stored` lacks, without duplicates,
    /// and the indexes of the `stored` values that are not wanted.
    pub fn difference<W: AsRef<[u8]>, S: AsRef<[u8]>>(
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

    /// Returns true if clients may write an attribute.
    pub fn is_writable(&self, name: &str) -> bool {
        let known = self.schema.parse_description(name);
        known.is_ok_and(|known| !self.schema.type_by_id(known.type_id).no_user_modification)
    }

    /// Returns true if some requester may read an attribute. The server never returns the values of other attributes,
    /// so a comparison would always find these values missing.
    pub fn is_readable(&self, name: &str) -> bool {
        let known = self.schema.parse_description(name);
        known.is_ok_and(|known| self.secrets.of_type(known.type_id) != Secrecy::Nobody)
    }

    /// Returns the changes that turn the values `now` of an entry into `then`, for attributes that clients may read and
    /// write.
    pub fn corrections(&self, then: &EntryValues, now: &EntryValues) -> Vec<Correction> {
        let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
        let mut corrections = Vec::new();
        for name in names.into_iter().filter(|name| self.is_writable(name) && self.is_readable(name)) {
            let values = |of: &EntryValues| of.get(name).cloned().unwrap_or_default();
            let (wanted, stored) = (values(then), values(now));
            let (added, removed) = self.difference(name, &wanted, &stored);
            let mut push = |operation, values| {
                corrections.push(Correction { operation, name: name.clone(), values });
            };
            if added.is_empty() && removed.is_empty() {
                continue;
            }
            if wanted.is_empty() || !self.has_equality(name) {
                push(ChangeOperation::Replace, wanted);
                continue;
            }
            let of = |places: &[usize], values: &[Vec<u8>]| -> Vec<Vec<u8>> {
                places.iter().filter_map(|place| values.get(*place).cloned()).collect()
            };
            for (operation, values) in [
                (ChangeOperation::Delete, of(&removed, &stored)),
                (ChangeOperation::Add, of(&added, &wanted)),
            ] {
                if !values.is_empty() {
                    push(operation, values);
                }
            }
        }
        corrections
    }

    /// Compares object classes. A class implies its superclasses, which may be omitted.
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

    /// Returns the OIDs of a class and its superclasses, the class first. For an unknown class, returns only the name
    /// in lower case.
    fn superclasses(&self, name: &[u8]) -> Vec<String> {
        let name = String::from_utf8_lossy(name);
        match self.schema.object_class(&name) {
            Some(class) => class.closure.iter().map(|id| self.schema.class_by_id(*id).oid.clone()).collect(),
            None => vec![name.to_lowercase()],
        }
    }

    /// Returns a key that is equal for all spellings of a DN.
    pub fn dn_key(&self, dn: &str) -> Vec<u8> {
        let mut key = Vec::new();
        match Dn::parse(dn) {
            Ok(parsed) if self.schema.normalize_dn(&parsed, &mut key).is_ok() => key,
            _ => dn.to_lowercase().into_bytes(),
        }
    }
}

/// Returns the indexes of the members for which `is` returns true.
fn places<T>(members: &[T], mut is: impl FnMut(&T) -> bool) -> Vec<usize> {
    (0..members.len()).filter(|place| members.get(*place).is_some_and(&mut is)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_their_rules() {
        let comparison = Comparison::new(Schema::shipped());
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
    #[test]
    fn corrections_restore_earlier_values_of_an_entry() {
        let comparison = Comparison::new(Schema::shipped());
        let entry = |values: &[(&str, &[&str])]| -> EntryValues {
            let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
            values.iter().map(|(name, of)| ((*name).to_owned(), texts(of))).collect()
        };
        let then = entry(&[
            ("cn", &["Anna"]),
            ("mail", &["a@b"]),
            ("jpegPhoto", &["p"]),
            ("entryUUID", &["1"]),
            ("pandoTotpSecret", &["GEZD"]),
        ]);
        let now = entry(&[("cn", &["anna", "Bea"]), ("title", &["Dr"]), ("mail", &["A@B"])]);
        let of = |operation, name: &str, values: &[&str]| Correction {
            operation,
            name: name.to_owned(),
            values: values.iter().map(|value| value.as_bytes().to_vec()).collect(),
        };
        let expected = [
            of(ChangeOperation::Delete, "cn", &["Bea"]),
            of(ChangeOperation::Replace, "jpegPhoto", &["p"]),
            of(ChangeOperation::Replace, "title", &[]),
        ];
        assert_eq!(comparison.corrections(&then, &now), expected);
        assert_eq!(comparison.corrections(&then, &then), []);
    }
}
