//! Tests that the sample organization follows the shipped schema: every name is defined, every value follows its
//! syntax, and no required attribute is missing. (The server's own tests check that the server loads the sample.)
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::HashSet;

use bench::sample::{SampleEntry, organisation};
use ldap::Dn;
use schema::Schema;

#[test]
fn every_value_has_the_syntax_of_its_attribute() {
    let schema = Schema::shipped();
    for entry in organisation("dc=example,dc=com").unwrap() {
        for (description, values) in &entry.attributes {
            let definition = schema
                .parse_description(description)
                .unwrap_or_else(|error| panic!("{}: {error:?}", entry.dn));
            let attribute_type = schema.type_by_id(definition.type_id);
            for value in values {
                let checked = schema.validate_value(attribute_type, value);
                assert!(checked.is_ok(), "{}: {description}: {checked:?}", entry.dn);
            }
        }
    }
}

#[test]
fn every_dn_has_a_distinct_key() {
    let schema = Schema::shipped();
    let mut keys = HashSet::new();
    for entry in organisation("dc=example,dc=com").unwrap() {
        let mut key = Vec::new();
        schema.normalize_dn(&Dn::parse(&entry.dn).unwrap(), &mut key).unwrap();
        assert!(keys.insert(key), "{}", entry.dn);
    }
}

#[test]
fn entries_have_the_mandatory_and_only_allowed_attributes() {
    let schema = Schema::shipped();
    for entry in organisation("dc=example,dc=com").unwrap() {
        let names = entry.attributes.iter().find(|(name, _)| name == "objectClass").map(|(_, values)| values);
        let classes: Vec<_> = names
            .unwrap()
            .iter()
            .map(|name| schema.object_class(std::str::from_utf8(name).unwrap()).expect("a known class"))
            .collect();
        let present = types(&schema, &entry);
        for class in &classes {
            for must in &class.all_must {
                assert!(present.contains(must), "{}: {} without {must:?}", entry.dn, class.name());
            }
        }
        let allowed: HashSet<_> =
            classes.iter().flat_map(|class| class.all_must.iter().chain(&class.all_may)).collect();
        if !classes.iter().any(|class| class.name() == "extensibleObject") {
            for present in &present {
                let name = schema.type_by_id(*present).name();
                assert!(allowed.contains(present) || name == "objectClass", "{}: {name}", entry.dn);
            }
        }
    }
}

fn types(schema: &Schema, entry: &SampleEntry) -> HashSet<schema::TypeId> {
    entry.attributes.iter().map(|(name, _)| schema.parse_description(name).unwrap().type_id).collect()
}
