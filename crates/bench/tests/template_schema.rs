//! Tests that Pando could load the entries of the shipped templates. Every name and value is valid under the shipped
//! schema and the template's additional definitions. Every entry has the attributes that its classes require, and only
//! attributes that its classes allow.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;

use bench::template::{Parameters, SHIPPED, ShippedTemplate, Template};
use ldap::Dn;
use ldap::ldif::{LdifBody, LdifReader, LdifRecord};
use schema::{Schema, SchemaBuilder};

fn ldif(template: &ShippedTemplate, constants: &[(&str, &str)]) -> Vec<u8> {
    let constants = constants.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let read = Template::read(template.name, &Parameters { constants, entries: Some(300) }).unwrap();
    let mut out = Vec::new();
    read.generate(1, NonZeroUsize::MIN, &mut out).unwrap();
    out
}

fn check_all(template: &ShippedTemplate, constants: &[(&str, &str)]) {
    let mut builder = SchemaBuilder::shipped();
    if let Some(text) = template.schema {
        builder.add_text(template.name, text);
    }
    let schema = builder.build().unwrap();
    let text = ldif(template, constants);
    let mut reader = LdifReader::new(text.as_slice());
    let mut names = HashSet::new();
    while let Some(record) = reader.next_record().unwrap() {
        let mut key = Vec::new();
        let dn = Dn::parse(record.dn).unwrap_or_else(|error| panic!("{}: {error:?}", record.dn));
        schema.normalize_dn(&dn, &mut key).unwrap();
        assert!(names.insert(key.clone()), "{} twice", record.dn);
        if let Some(parent) = dn.parent().filter(|_| names.len() > 1) {
            let mut key = Vec::new();
            schema.normalize_dn(&parent, &mut key).unwrap();
            assert!(names.contains(&key), "{} before its superior", record.dn);
        }
        check(&schema, &record);
    }
    assert!(names.len() > 300, "{}: {} entries", template.name, names.len());
}

fn check(schema: &Schema, record: &LdifRecord<'_>) {
    let dn = record.dn;
    let LdifBody::Entry(values) = &record.body else { panic!("a change") };
    let mut classes = Vec::new();
    let mut present = BTreeMap::new();
    for value in values.iter() {
        let definition = schema.parse_description(value.description);
        let definition = definition.unwrap_or_else(|error| panic!("{dn}: {}: {error:?}", value.description));
        let attribute_type = schema.type_by_id(definition.type_id);
        let checked = schema.validate_value(attribute_type, value.value);
        assert!(checked.is_ok(), "{dn}: {}: {checked:?}", value.description);
        *present.entry(definition.type_id).or_insert(0) += 1;
        assert!(
            !attribute_type.single_value || present[&definition.type_id] == 1,
            "{dn}: {}",
            value.description
        );
        if value.description == "objectClass" {
            let name = std::str::from_utf8(value.value).unwrap();
            classes.push(schema.object_class(name).unwrap_or_else(|| panic!("{dn}: {name}")));
        }
    }
    for class in &classes {
        for must in &class.all_must {
            assert!(present.contains_key(must), "{dn}: {} without {must:?}", class.name());
        }
    }
    let allowed: HashSet<_> =
        classes.iter().flat_map(|class| class.all_must.iter().chain(&class.all_may)).collect();
    for type_id in present.keys() {
        let name = schema.type_by_id(*type_id).name();
        assert!(allowed.contains(type_id) || name == "objectClass", "{dn}: {name} is not allowed");
    }
}

#[test]
fn every_entry_of_every_shipped_template_is_valid() {
    for template in SHIPPED {
        check_all(template, &[]);
    }
}

#[test]
fn group_entries_can_use_group_of_names() {
    let oid = bench::template::shipped("oid").unwrap();
    check_all(oid, &[("groupclass", "groupOfNames"), ("member", "member")]);
}

/// Values must have the lengths and forms of the published template, such as a photo of 2,048 characters and a
/// telephone number of digits only.
#[test]
fn the_values_of_the_published_template_keep_their_lengths() {
    let text = ldif(bench::template::shipped("oid").unwrap(), &[]);
    let mut reader = LdifReader::new(text.as_slice());
    let mut people = 0;
    while let Some(record) = reader.next_record().unwrap() {
        if !record.dn.starts_with("uid=") {
            continue;
        }
        people += 1;
        assert_eq!(record.dn, format!("uid=user.{people},ou=oracle,dc=com"));
        let LdifBody::Entry(values) = &record.body else { panic!("a change") };
        let length = |name: &str| values.iter().find(|value| value.description == name).unwrap().value.len();
        for (name, expected) in [("photo", 2048), ("description", 80), ("sn", 20), ("pager", 6), ("st", 2)] {
            assert_eq!(length(name), expected, "{name}");
        }
    }
    assert_eq!(people, 300);
}
