//! Tests of the shipped schema: clients find the definitions that they rely on, and the publication is complete.

mod rfcs;

use std::collections::HashSet;

use schema::{ClassKind, MatchingRule, Schema, SchemaBuilder};

#[test]
fn common_definitions_are_shipped() {
    let schema = Schema::shipped();
    for name in [
        "objectClass",
        "cn",
        "sn",
        "mail",
        "uid",
        "userPassword",
        "memberOf",
        "isMemberOf",
        "entryUUID",
        "entryCSN",
        "entryDN",
        "contextCSN",
        "hasSubordinates",
        "numSubordinates",
        "ref",
        "vendorName",
        "pwdChangedTime",
        "pwdPolicySubentry",
        "sshPublicKey",
        "memberURL",
        "userCertificate",
        "jpegPhoto",
        "uidNumber",
        "authPassword",
        "labeledURI",
        "subtreeSpecification",
        "entryTtl",
        "c-l",
        "monitorCounter",
        "mailLocalAddress",
        "supportedFeatures",
    ] {
        assert!(schema.attribute_type(name).is_some(), "{name}");
    }
    for (name, kind) in [
        ("top", ClassKind::Abstract),
        ("alias", ClassKind::Structural),
        ("referral", ClassKind::Structural),
        ("extensibleObject", ClassKind::Auxiliary),
        ("inetOrgPerson", ClassKind::Structural),
        ("groupOfNames", ClassKind::Structural),
        ("groupOfURLs", ClassKind::Structural),
        ("posixGroup", ClassKind::Auxiliary),
        ("posixAccount", ClassKind::Auxiliary),
        ("dcObject", ClassKind::Auxiliary),
        ("domain", ClassKind::Structural),
        ("pwdPolicy", ClassKind::Auxiliary),
        ("subentry", ClassKind::Structural),
        ("dynamicObject", ClassKind::Auxiliary),
        ("ldapPublicKey", ClassKind::Auxiliary),
        ("monitorServer", ClassKind::Structural),
    ] {
        assert_eq!(schema.object_class(name).map(|class| class.kind), Some(kind), "{name}");
    }
    assert!(schema.object_class("posixGroup").unwrap().standalone);
    assert!(!schema.object_class("posixAccount").unwrap().standalone);
}

#[test]
fn inheritance_is_resolved() {
    let schema = Schema::shipped();
    let person = schema.object_class("inetOrgPerson").unwrap();
    let names: Vec<&str> = person.closure.iter().map(|&id| schema.class_by_id(id).name()).collect();
    assert_eq!(names, ["inetOrgPerson", "organizationalPerson", "person", "top"]);
    let must: Vec<&str> = person.all_must.iter().map(|&id| schema.type_by_id(id).name()).collect();
    assert_eq!(must.len(), 3, "{must:?}");
    for name in ["cn", "sn", "objectClass"] {
        assert!(must.contains(&name), "{name}");
    }
    let name = schema.attribute_type("name").unwrap();
    for subtype in ["cn", "sn", "ou", "c-o", "dmdName"] {
        let id = schema.attribute_type(subtype).unwrap().id;
        assert!(schema.is_subtype(id, name.id) && schema.subtypes(name.id).contains(&id), "{subtype}");
    }
    assert!(!schema.is_subtype(name.id, schema.attribute_type("cn").unwrap().id));
    assert_eq!(schema.attribute_type("cn").unwrap().equality, name.equality);
    // The country code keeps its own syntax and inherits the rules of `name`.
    let country = schema.attribute_type("c").unwrap();
    assert_eq!(schema.syntax_by_id(country.syntax).description, "Country String");
    assert!(country.ordering_shares_key() == country.ordering.is_some() && country.substring_shares_key());
    let closure = schema.class_closure(&[person.id, schema.object_class("posixAccount").unwrap().id]);
    assert_eq!(closure.len(), 5);
    assert!(schema.subclasses(schema.object_class("person").unwrap().id).any(|id| id == person.id));
}

/// Clients check their values against the published schema, so nothing published may refer to an unpublished
/// definition.
#[test]
fn published_schema_is_complete_and_parses() {
    let schema = Schema::shipped();
    let published = schema.publish();
    let mut text = String::new();
    for (keyword, values) in [
        ("attributeTypes", &published.attribute_types),
        ("objectClasses", &published.object_classes),
        ("ldapSyntaxes", &published.ldap_syntaxes),
        ("matchingRules", &published.matching_rules),
        ("matchingRuleUse", &published.matching_rule_use),
    ] {
        assert!(!values.is_empty(), "{keyword}");
        for value in values {
            text.push_str(&format!("{keyword}: {value}\n"));
            // Every value is valid under the syntax of its attribute.
            let attribute_type = schema.attribute_type(keyword).unwrap();
            schema.validate_value(attribute_type, value.as_bytes()).expect(value);
        }
    }
    let mut builder = SchemaBuilder::new();
    builder.add_text("published", &text);
    let again = builder.build().unwrap();
    assert_eq!(again.publish().attribute_types, published.attribute_types);
    assert_eq!(again.publish().object_classes, published.object_classes);

    let oids = |values: &[String]| -> HashSet<String> {
        values.iter().map(|value| value.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    let (syntaxes, rules) = (oids(&published.ldap_syntaxes), oids(&published.matching_rules));
    for rule in MatchingRule::all() {
        assert!(rules.contains(rule.oid()) && syntaxes.contains(rule.assertion_syntax()), "{rule:?}");
    }
    for attribute_type in schema.attribute_types() {
        assert!(
            syntaxes.contains(&schema.syntax_by_id(attribute_type.syntax).oid),
            "{}",
            attribute_type.name()
        );
    }
    for value in &published.matching_rule_use {
        let applies = value.split("APPLIES").nth(1).unwrap();
        for name in applies.split(['(', ')', '$', ' ']).filter(|name| !name.is_empty()) {
            assert!(schema.attribute_type(name).is_some(), "{name}");
        }
    }
}

/// All rules of RFC 4517 section 4.2.
#[test]
fn the_rules_of_rfc_4517_are_shipped() {
    for (oid, name) in [
        ("2.5.13.16", "bitStringMatch"),
        ("2.5.13.13", "booleanMatch"),
        ("1.3.6.1.4.1.1466.109.114.1", "caseExactIA5Match"),
        ("2.5.13.5", "caseExactMatch"),
        ("2.5.13.6", "caseExactOrderingMatch"),
        ("2.5.13.7", "caseExactSubstringsMatch"),
        ("1.3.6.1.4.1.1466.109.114.2", "caseIgnoreIA5Match"),
        ("1.3.6.1.4.1.1466.109.114.3", "caseIgnoreIA5SubstringsMatch"),
        ("2.5.13.11", "caseIgnoreListMatch"),
        ("2.5.13.12", "caseIgnoreListSubstringsMatch"),
        ("2.5.13.2", "caseIgnoreMatch"),
        ("2.5.13.3", "caseIgnoreOrderingMatch"),
        ("2.5.13.4", "caseIgnoreSubstringsMatch"),
        ("2.5.13.31", "directoryStringFirstComponentMatch"),
        ("2.5.13.1", "distinguishedNameMatch"),
        ("2.5.13.27", "generalizedTimeMatch"),
        ("2.5.13.28", "generalizedTimeOrderingMatch"),
        ("2.5.13.29", "integerFirstComponentMatch"),
        ("2.5.13.14", "integerMatch"),
        ("2.5.13.15", "integerOrderingMatch"),
        ("2.5.13.33", "keywordMatch"),
        ("2.5.13.8", "numericStringMatch"),
        ("2.5.13.9", "numericStringOrderingMatch"),
        ("2.5.13.10", "numericStringSubstringsMatch"),
        ("2.5.13.30", "objectIdentifierFirstComponentMatch"),
        ("2.5.13.0", "objectIdentifierMatch"),
        ("2.5.13.17", "octetStringMatch"),
        ("2.5.13.18", "octetStringOrderingMatch"),
        ("2.5.13.20", "telephoneNumberMatch"),
        ("2.5.13.21", "telephoneNumberSubstringsMatch"),
        ("2.5.13.23", "uniqueMemberMatch"),
        ("2.5.13.32", "wordMatch"),
    ] {
        assert_eq!(MatchingRule::find(oid).map(MatchingRule::name), Some(name));
        assert_eq!(MatchingRule::find(&name.to_uppercase()).map(MatchingRule::oid), Some(oid));
    }
}
