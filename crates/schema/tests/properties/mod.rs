//! Properties that must hold for any bytes. The fuzz targets check these properties, and `corpus_replay.rs` checks them
//! on stable Rust.

#![allow(dead_code)]

use schema::{MatchingRule, Schema, SchemaBuilder, SubstringAssertion};

/// For any text as a schema file, the builder reads the text, or refuses it with the number of an existing line, and
/// never panics. The definitions that a built schema publishes build the same schema again.
pub(crate) fn schema_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut builder = SchemaBuilder::new();
    match builder.add_text("fuzz", text).build() {
        Err(errors) => {
            assert!(!errors.all().is_empty());
            let lines = 1..=text.lines().count().max(1);
            assert!(errors.all().iter().all(|error| lines.contains(&error.line)), "{errors}");
        }
        Ok(schema) => check_published(&schema),
    }
}

fn check_published(schema: &Schema) {
    let published = schema.publish();
    let mut text = String::new();
    for (keyword, values) in [
        ("attributeTypes", &published.attribute_types),
        ("objectClasses", &published.object_classes),
        ("ldapSyntaxes", &published.ldap_syntaxes),
        ("nameForms", &published.name_forms),
        ("dITContentRules", &published.dit_content_rules),
        ("dITStructureRules", &published.dit_structure_rules),
    ] {
        values
            .iter()
            .for_each(|value| text.push_str(&format!("{keyword}: {}\n", value.replace(['\n', '\r'], " "))));
    }
    let mut builder = SchemaBuilder::new();
    let again = builder.add_text("published", &text).build();
    let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again.attribute_types().len(), schema.attribute_types().len());
    assert_eq!(again.object_classes().len(), schema.object_classes().len());
}

/// The first octet chooses a rule; the rest is a value, an assertion and a substring. Nothing panics, and a failure
/// leaves the output unchanged.
pub(crate) fn value(bytes: &[u8]) {
    let Some((&choice, value)) = bytes.split_first() else { return };
    let schema = Schema::shipped();
    let rules: Vec<MatchingRule> = MatchingRule::all().collect();
    let rule = rules[usize::from(choice) % rules.len()];
    let mut key = vec![7];
    let keyed = rule.normalize(&schema, value, &mut key).is_ok();
    assert!(keyed || key == [7]);
    let mut asserted = vec![7];
    assert!(rule.normalize_assertion(&schema, value, &mut asserted).is_ok() || asserted == [7]);
    if let Ok(assertion) = SubstringAssertion::new(rule, Some(value), [], None) {
        // A value matches an assertion with itself as the initial substring. This need not hold for a list, because the
        // substrings of a list are unescaped single lines.
        let comparable =
            keyed && !(rule.name().contains("List") && value.iter().any(|byte| b"$\\".contains(byte)));
        assert!(!comparable || assertion.matches(&key[1..]), "{rule:?} {value:?}");
    }
    for attribute_type in schema.attribute_types() {
        if attribute_type.equality == Some(rule) && schema.validate_value(attribute_type, value).is_ok() {
            break;
        }
    }
}
